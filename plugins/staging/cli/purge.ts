import { readCopies } from './api.js'
import { nameOf } from './cluster.js'
import { canAsk, confirm, readModelId, showBytes } from '../../../kernel/cli/index.js'
import type { ClusterCopy } from '../types.js'
import type { StateView } from './cluster.js'
import type { Verb, VerbContext } from '../../../kernel/cli/index.js'

/** The body of POST /store/purge-staging. */
interface PurgeAnswer {
  commandId: string
  message: string
  nodes: {
    nodeId: string, removed: string[], skippedInUse: string[], freedBytes: number, error: string | null
  }[]
}

/** A staged copy; `inUse` is null where only its own node knows. */
interface StagedCopy extends ClusterCopy { inUse: boolean | null }

export default {
  async run (ctx, [model], options) {
    const modelId = model === undefined ? undefined : readModelId(ctx, model)
    const dry = options['dryRun'] === true
    const yes = options['yes'] === true
    if (!dry && !yes && !canAsk(ctx)) {
      throw ctx.fail(2, 'svc purge asks before it removes, and there is no terminal to ask on: ' +
        'add -y, or --dry-run to see what would go')
    }
    if (!dry && yes) return await purge(ctx, modelId)
    const copies = await stagedCopies(ctx, modelId)
    if (dry || !ctx.out.json) showCopies(ctx, copies)
    if (dry || (copies.length === 0 && !ctx.out.json)) return
    if (copies.length === 0 || await confirm(ctx, questionOf(copies))) return await purge(ctx, modelId)
    ctx.err.line('nothing was removed')
    return 1
  }
} satisfies Verb

/** What a purge would look at; the node that is asked also says what it has in use. */
async function stagedCopies (ctx: VerbContext, modelId: string | undefined): Promise<StagedCopy[]> {
  const [copies, storage] = await Promise.all([
    readCopies(ctx, modelId),
    ctx.client.json<{ nodeId: string, stagedModels: { modelId: string, inUse: boolean }[] }>('/store/storage')
  ])
  const used = new Map(storage.stagedModels.map((copy) => [copy.modelId, copy.inUse]))
  return copies.filter((copy) => copy.kind === 'staged').map((copy) =>
    ({ ...copy, inUse: copy.nodeId === storage.nodeId ? used.get(copy.modelId) ?? null : null }))
}

function showCopies ({ out, err }: VerbContext, copies: readonly StagedCopy[]): void {
  if (out.json) out.value({ copies })
  else if (copies.length === 0) err.line('no staged copies: nothing to purge')
  else {
    const use = ({ inUse }: StagedCopy): string => inUse === null ? '-' : inUse ? 'yes, it stays' : 'no'
    out.table(['NODE', 'MODEL', 'SIZE', 'IN USE'], copies.map((copy) =>
      [copy.nodeName, copy.modelId, showBytes(copy.sizeBytes), use(copy)]))
  }
}

function questionOf (copies: readonly StagedCopy[]): string {
  const free = copies.filter((copy) => copy.inUse !== true)
  const bytes = free.reduce((sum, copy) => sum + copy.sizeBytes, 0)
  const nodes = new Set(free.map((copy) => copy.nodeId)).size
  const what = `${free.length} staged ${free.length === 1 ? 'copy' : 'copies'} (${showBytes(bytes)})`
  return `Remove up to ${what} on ${nodes} ${nodes === 1 ? 'node' : 'nodes'}? What is in use stays.`
}

/** Removes and says what each node did; 1 when one could not. */
async function purge (ctx: VerbContext, modelId: string | undefined): Promise<number> {
  const answer = await ctx.client.json<PurgeAnswer>('/store/purge-staging',
    { method: 'POST', body: modelId === undefined ? {} : { modelId } })
  if (ctx.out.json) ctx.out.value(answer)
  else {
    const state = await ctx.client.json<StateView>('/state')
    ctx.out.table(['NODE', 'REMOVED', 'SKIPPED', 'FREED', 'ERROR'], answer.nodes.map((node) =>
      [nameOf(state, node.nodeId), node.removed.join(' ') || '-', node.skippedInUse.join(' ') || '-',
        showBytes(node.freedBytes), node.error ?? '-']))
  }
  return answer.nodes.some((node) => node.error !== null) ? 1 : 0
}
