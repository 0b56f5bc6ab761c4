/** Clusters of real processes for the benchmarks, with the product's own timers. */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { root } from '../lib/paths.mjs'

// The kit of the fault tests, in its long form; compiled by `tsc -p test/bench/tsconfig.json`.
process.env.SVC_TEST_FULL = '1'
const built = (path) => import(pathToFileURL(join(root, '.tap/bench/test', path)).href)

export const kit = await built('node/cluster-kit.js')
export const { until } = await built('node/kit.js')

/** Runs `work` with something to hang what must be undone on, as a test has; undoes it in any case. */
export async function withTeardown (work) {
  const undo = []
  try {
    return await work({ teardown: (fn) => { undo.unshift(fn) } })
  } finally {
    for (const fn of undo) await fn()
  }
}
