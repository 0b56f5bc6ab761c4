import { nameOf, type ClusterState } from '../cluster-state.js'
import type { Verb, VerbContext } from '../verb.js'

/** Seconds to wait for the restart; a node drains for 10 s and starts in a few seconds. */
const BACK_SECONDS = 60

export default {
  async run (ctx, [node], options) {
    const state = await ctx.client.json<ClusterState>('/state')
    const query = node === undefined ? '' : `?node_id=${encodeURIComponent(node)}`
    const answer = await ctx.client.json<{ node_id: string }>(`/admin/restart${query}`, { method: 'POST' })
    const { node_id: old } = answer
    const name = nameOf(state, old)
    ctx.err.line(`${name} restarts as soon as its open requests have ended, after 10 s at most`)
    const back = options['wait'] === false ? null : await untilBack(ctx, state, old)
    if (ctx.out.json) ctx.out.value(back === null ? answer : { ...answer, new_node_id: back })
    else if (back !== null) ctx.out.line(`${name} is back, as ${back}`)
  }
} satisfies Verb

/** Waits for the restarted node and returns its new id. Throws CliError: 4 at the timeout, 130 at Ctrl-C. */
async function untilBack (ctx: VerbContext, before: ClusterState, old: string): Promise<string> {
  const seconds = ctx.wait ?? BACK_SECONDS
  const late = ctx.fail(4, `${nameOf(before, old)} has not come back within ${seconds} s; its log has the ` +
    'reason, and `svc nodes` shows when it is back')
  return await ctx.retry({ seconds, again: ctx.notYet }, async () => {
    const { nodeIdentities, topology } = await ctx.client.json<ClusterState>('/state')
    const found = Object.entries(nodeIdentities).find(([id, one]) => id !== old &&
      one.nodeInstallId === before.nodeIdentities[old]?.nodeInstallId &&
      topology?.nodes?.includes(id) !== false)
    if (found === undefined) throw late
    return found[0]
  }).catch((error: unknown) => {
    throw ctx.signal.aborted ? ctx.fail(130, 'interrupted; the node restarts nevertheless') : error
  })
}
