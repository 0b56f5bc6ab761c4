/** Clusters of real processes for the benchmarks, with the product's own timers. */
import { source } from '../lib/paths.mjs'

// The kit of the fault tests, in its long form.
process.env.SVC_TEST_FULL = '1'

export const kit = await source('test/node/cluster-kit.ts')
export const { until } = await source('test/node/kit.ts')

/** Runs `work` with something to hang what must be undone on, as a test has; undoes it in any case. */
export async function withTeardown (work) {
  const undo = []
  try {
    return await work({ teardown: (fn) => { undo.unshift(fn) } })
  } finally {
    for (const fn of undo) await fn()
  }
}
