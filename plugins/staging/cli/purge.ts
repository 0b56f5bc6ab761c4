import { canAsk, confirm, nameOf, plain, readModelId, showBytes } from '../../../kernel/cli/index.js'
import type { StateView } from './cluster.js'
import type { Answers } from '../routes.js'
import type { Verb, VerbContext } from '../../../kernel/cli/index.js'

type PurgedNode = Answers['purge']['nodes'][number]

export default {
  async run (ctx, [model], options) {
    const modelId = model === undefined ? undefined : readModelId(ctx, model)
    const dry = options['dryRun'] === true
    const yes = options['yes'] === true
    if (!dry && !yes && !canAsk(ctx)) {
      throw ctx.fail(2, 'svc purge asks for confirmation, which needs a terminal: ' +
        'add -y, or --dry-run to list the copies that it would remove')
    }
    if (!dry && yes) return await purge(ctx, modelId)
    const preview = await ask(ctx, { modelId, dryRun: true })
    const { nodes } = preview
    if (dry && ctx.out.json) ctx.out.value(preview)
    else if (dry || !ctx.out.json) await showPreview(ctx, nodes)
    if (dry) return failedOn(nodes) ? 1 : 0
    const nothing = nodes.every(({ removed }) => removed.length === 0)
    if (nothing && !ctx.out.json) return failedOn(nodes) ? 1 : 0
    if (nothing || await confirm(ctx, questionOf(nodes))) return await purge(ctx, modelId)
    ctx.err.line('nothing was removed')
    return 1
  }
} satisfies Verb

async function ask (
  { client }: VerbContext, body: { modelId: string | undefined, dryRun?: true }
): Promise<Answers['purge']> {
  return await client.json<Answers['purge']>('/store/purge-staging', { method: 'POST', body })
}

const failedOn = (nodes: readonly PurgedNode[]): boolean => nodes.some(({ error }) => error !== null)

async function showPreview (ctx: VerbContext, nodes: readonly PurgedNode[]): Promise<void> {
  const state = await ctx.client.json<StateView>('/state')
  const rows = nodes.flatMap((node) => {
    const { copies = [], removed } = node
    const name = nameOf(state, node.nodeId)
    const whole = new Set(copies.map(({ modelId }) => modelId))
    return [
      ...copies.map(({ modelId, sizeBytes, inUse, overBudget }) => [name, modelId, showBytes(sizeBytes),
        inUse ? 'yes, stays' : overBudget ? 'no, evicted next' : 'no']),
      ...removed.filter((modelId) => !whole.has(modelId))
        .map((modelId) => [name, modelId, '-', 'no, interrupted transfer'])
    ]
  })
  if (rows.length > 0) ctx.out.table(['NODE', 'MODEL', 'SIZE', 'IN USE'], rows)
  else if (!failedOn(nodes)) ctx.err.line('no staged copies: nothing to purge')
  for (const { nodeId, error } of nodes) {
    if (error !== null) ctx.err.line(plain(`${nameOf(state, nodeId)}: ${error}`))
  }
}

function questionOf (nodes: readonly PurgedNode[]): string {
  const count = nodes.reduce((sum, { removed }) => sum + removed.length, 0)
  const bytes = nodes.reduce((sum, { freedBytes }) => sum + freedBytes, 0)
  const on = nodes.filter(({ removed }) => removed.length > 0).length
  const what = `${count} staged ${count === 1 ? 'copy' : 'copies'}`
  return `Remove ${what} on ${on} ${on === 1 ? 'node' : 'nodes'} ` +
    `to free ${showBytes(bytes)}? Copies in use stay.`
}

async function purge (ctx: VerbContext, modelId: string | undefined): Promise<number> {
  const answer = await ask(ctx, { modelId })
  if (ctx.out.json) ctx.out.value(answer)
  else {
    const state = await ctx.client.json<StateView>('/state')
    ctx.out.table(['NODE', 'REMOVED', 'SKIPPED', 'FREED', 'ERROR'], answer.nodes.map((node) =>
      [nameOf(state, node.nodeId), node.removed.join(' ') || '-', node.skippedInUse.join(' ') || '-',
        showBytes(node.freedBytes), node.error ?? '-']))
  }
  return failedOn(answer.nodes) ? 1 : 0
}
