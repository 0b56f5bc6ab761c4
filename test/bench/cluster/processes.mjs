/** Clusters of real processes for the benchmarks, with the product's own timers. */
import { source } from '../lib/paths.mjs'

// Makes the cluster kit use the product's own timers instead of the short ones.
process.env.SVC_TEST_FULL = '1'

export const kit = await source('test/node/cluster-kit.ts')
export const { until } = await source('test/node/kit.ts')

/** Runs `work` with a `teardown` function like a tap test's, and always runs the registered teardowns. */
export async function withTeardown (work) {
  const undo = []
  try {
    return await work({ teardown: (fn) => { undo.unshift(fn) } })
  } finally {
    for (const fn of undo) await fn()
  }
}
