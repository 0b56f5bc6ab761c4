import { plain, realPace } from '../../../kernel/cli/index.js'
import { rowsOf } from './ps.js'
import { count } from './state.js'
import type { SeenState } from './state.js'
import type { Pace, Verb, VerbContext } from '../../../kernel/cli/index.js'

/** Pause between two looks at the state, ms. */
const POLL_MS = 500

/** `svc drain`: has a node run no models, and may wait until it runs none. */
export function createDrain (pace: Pace): Verb {
  return {
    async run (ctx, [node]) {
      const path = `/nodes/${encodeURIComponent(node!)}/drain`
      const answer = await ctx.client.json<{ message: string, node_id: string }>(path, { method: 'PUT' })
      const left = ctx.wait === undefined ? 0 : await untilEmpty(ctx, pace, answer.node_id, ctx.wait)
      if (ctx.out.json) ctx.out.value(answer)
      else ctx.out.line(plain(answer.message))
      if (left === 0) return undefined
      ctx.err.line(`the time to wait is up and ${count(left, 'instance')} still runs there; ` +
        '`svc ps` shows what each waits for')
      return 4
    }
  }
}

/** How many instances are still there when none is or the time is up. */
async function untilEmpty (ctx: VerbContext, pace: Pace, nodeId: string, seconds: number): Promise<number> {
  const began = pace.mono()
  for (;;) {
    const rows = rowsOf(await ctx.client.json<SeenState>('/state'))
    const left = rows.filter(({ nodes }) => nodes.some((one) => one.nodeId === nodeId)).length
    if (left === 0 || pace.mono() - began >= seconds * 1000) return left
    await pace.pause(POLL_MS, ctx.signal)
    if (ctx.signal.aborted) throw ctx.fail(130, 'interrupted; the node stays drained until svc undrain')
  }
}

export default createDrain(realPace)
