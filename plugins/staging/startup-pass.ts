import type { Session } from '../../kernel/index.js'
import type { Plane } from './plane.js'

/** Time for runners to say what they need, once the cluster's decisions are known, ms. */
const SETTLE_MS = 15_000

/**
 * Has uses written down, and copies that nobody uses any more evicted, from the start on. The eviction passes
 * wait until it is known what is placed on this node: before, every copy looks idle. What ended until then
 * has its pass after the one of the start.
 */
export function startupPass (plane: Plane, session: Session): void {
  const { clock, keeper, besideKeeper, stager, uses, log, options: { ctx } } = plane
  const early = new Set<string>()
  let begun = false
  let passed = false
  let over = false
  const begin = (): void => {
    if (begun || session.masterNodeId === null) return
    begun = true
    const failed = (err: unknown): void => { log.error({ err }, 'the eviction pass of the start failed') }
    ctx.effect('startup eviction', clock.after(SETTLE_MS, () => { run().catch(failed) }))
  }
  const idle = async (modelId: string): Promise<void> => {
    await stager.settle(modelId)
    await besideKeeper.deactivated(modelId)
    await keeper.deactivated(modelId)
  }
  const ended = (modelId: string): void => {
    if (!passed) { early.add(modelId); return }
    idle(modelId).catch((err: unknown) => { log.error({ err, modelId }, 'an eviction pass failed') })
  }
  const run = async (): Promise<void> => {
    await plane.opened
    if (over) return
    await keeper.startup()
    const beside = (await besideKeeper.storage()).copies.map(({ modelId }) => modelId)
    if (over) return
    passed = true
    for (const modelId of new Set([...early, ...beside])) if (!uses.has(modelId)) ended(modelId)
  }
  ctx.effect('eviction passes', () => { over = true })
  ctx.effect('last uses', keeper.watch())
  ctx.effect('eviction', uses.onIdle(ended))
  ctx.effect('session', session.onChange(begin))
  begin()
}
