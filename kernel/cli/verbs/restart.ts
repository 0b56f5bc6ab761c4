import { nearest } from '../../config/nearest.js'
import { CliError } from '../errors.js'
import { plain } from '../output.js'
import type { State } from '../cluster-view.js'
import type { Verb, VerbContext } from '../verb.js'

/** A node lets open work end for 10 s, and starts in a few. */
const BACK_SECONDS = 60

/** `svc restart`: replaces a node's process and waits until the new one answers. */
export default {
  async run (ctx, [node], options) {
    const state = await ctx.client.json<State>('/state')
    const ids = Object.keys(state.nodeIdentities)
    const named = (id: string): string => state.nodeIdentities[id]?.friendlyName ?? id
    const old = node === undefined ? state.localNodeId
      : ids.find((id) => [id, named(id), state.nodeIdentities[id]!.nodeInstallId].includes(node))
    if (old === undefined) {
      const near = nearest(node!, ids.map(named))
      throw ctx.fail(3, `there is no node "${node!}"${near === undefined ? '' : `; did you mean ${near}?`}\n` +
        '  `svc nodes` lists them')
    }
    const answer = await ctx.client.json(`/admin/restart?node_id=${encodeURIComponent(old)}`, { method: 'POST' })
    const name = plain(named(old))
    ctx.err.line(`${name} restarts as soon as its open requests have ended, in 10 s at most`)
    const back = options['wait'] === false ? null : await untilBack(ctx, state, old)
    if (ctx.out.json) ctx.out.value(back === null ? answer : { ...answer as object, new_node_id: back })
    else if (back !== null) ctx.out.line(`${name} is back, as ${back}`)
  }
} satisfies Verb

/** The id of the node's next process. Throws CliError (4) when the time is up. */
async function untilBack (ctx: VerbContext, before: State, old: string): Promise<string> {
  const installId = before.nodeIdentities[old]?.nodeInstallId
  const seconds = ctx.wait ?? BACK_SECONDS
  const late = `it has not come back within ${seconds} s; \`svc nodes\` shows whether it does, and its log why not`
  try {
    return await ctx.retry({ seconds, again: ctx.notYet }, async () => {
      const { nodeIdentities, topology } = await ctx.client.json<State>('/state')
      const found = Object.entries(nodeIdentities).find(([id, one]) =>
        id !== old && one.nodeInstallId === installId && topology?.nodes?.includes(id) !== false)
      if (found === undefined) throw ctx.fail(4, late)
      return found[0]
    })
  } catch (error) {
    if (ctx.signal.aborted) throw ctx.fail(130, 'interrupted; the node restarts all the same')
    throw error instanceof CliError && error.status === undefined ? ctx.fail(4, late) : error
  }
}
