/** Compares a plan's memory estimate for a model with the memory of a real llama.cpp after an answer. */
import t from 'tap'
import { until } from '../node/kit.js'
import { ENDLESS, place, remove, answerOf, skip, started, STORIES } from './nodes-kit.js'

interface Memory { residentBytes: number | null, estimatedBytes: number | null }

/** Allowed relative difference between estimate and measurement. */
const SHARE = 0.15

t.test('the estimate', { skip, timeout: 300_000 }, async (t) => {
  const cluster = await started(t, 1)
  const { master } = await cluster.agreed()
  for (const model of [STORIES, ENDLESS]) {
    await t.test(model, async (t) => {
      const placed = await place(t, master, model, 1)
      const one = async (): Promise<unknown> => await answerOf(master, model, { max_tokens: 120 })
      await Promise.all(Array.from({ length: 16 }, one))
      const [runnerId] = Object.values(placed.shardAssignments.nodeToRunner)
      const memoryOf = async (): Promise<Memory | undefined> => {
        const { nodeSystem } = await master.state() as unknown as
          { nodeSystem: Record<string, { runnerMemory?: Record<string, Memory> }> }
        return nodeSystem[master.node.nodeId]?.runnerMemory?.[runnerId!]
      }
      let before = -1
      const { residentBytes, estimatedBytes } = await until('it takes no more', async () => {
        const memory = await memoryOf()
        const now = memory?.residentBytes ?? -1
        const rests = now > 0 && now === before
        before = now
        return rests && memory
      }, { seconds: 60, everyMs: 3000 })
      const ratio = residentBytes! / estimatedBytes!
      t.ok(Math.abs(ratio - 1) <= SHARE, `${residentBytes} of ${estimatedBytes} bytes: ${ratio.toFixed(3)}`)
      await remove(t, cluster, master, placed)
    })
  }
})
