import type { Session } from '../../kernel/index.js'
import type { Plane } from './plane.js'

/** Time for runners to say what they need, once the cluster's decisions are known, ms. */
const SETTLE_MS = 15_000

/**
 * Runs the eviction pass of the start once it is known what is placed on this node: before, every copy looks
 * idle. Passes after the end of an instance follow from then on.
 */
export function startupPass (plane: Plane, session: Session): void {
  const { clock, keeper, uses, log, options: { ctx } } = plane
  let begun = false
  let over = false
  const begin = (): void => {
    if (begun || session.masterNodeId === null) return
    begun = true
    ctx.effect('startup eviction', clock.after(SETTLE_MS, () => { void run() }))
  }
  const run = async (): Promise<void> => {
    await plane.opened
    const stop = await keeper.start()
    // Stopped meanwhile: what begins now would never end.
    if (over) { stop(); return }
    ctx.effect('last uses', stop)
    ctx.effect('eviction', uses.onIdle((modelId) => {
      keeper.deactivated(modelId).catch((err: unknown) => {
        log.error({ err, modelId }, 'an eviction pass failed')
      })
    }))
  }
  ctx.effect('eviction passes', () => { over = true })
  ctx.effect('session', session.onChange(begin))
  begin()
}
