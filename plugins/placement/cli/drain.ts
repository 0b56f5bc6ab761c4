import { plain, realPace, type WaitClock, type Verb } from '../../../kernel/cli/index.js'
import { rowsOf } from './ps.js'
import { count, waitUntilZero, type SeenState } from './state.js'

export function createDrain (pace: WaitClock): Verb {
  return {
    async run (ctx, [node]) {
      const path = `/nodes/${encodeURIComponent(node!)}/drain`
      const answer = await ctx.client.json<{ message: string, node_id: string }>(path, { method: 'PUT' })
      const there = (state: SeenState): number => rowsOf(state)
        .filter(({ nodes }) => nodes.some(({ nodeId }) => nodeId === answer.node_id)).length
      const left = ctx.wait === undefined ? 0
        : await waitUntilZero(ctx, pace, there, 'the node stays drained until svc undrain')
      if (ctx.out.json) ctx.out.value(answer)
      else ctx.out.line(plain(answer.message))
      if (left === 0) return undefined
      ctx.err.line(`the wait timed out: ${count(left, 'instance')} left there; \`svc ps\` shows what it ` +
        'waits for')
      return 4
    }
  }
}

export default createDrain(realPace)

export const undrain: Verb = {
  async run ({ client, out }, [node]) {
    const path = `/nodes/${encodeURIComponent(node!)}/drain`
    const answer = await client.json<{ message: string }>(path, { method: 'DELETE' })
    if (out.json) out.value(answer)
    else out.line(plain(answer.message))
  }
}
