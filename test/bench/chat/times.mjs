/** Computes speeds and delays from the arrival times of tokens. */
import { setTimeout as sleep } from 'node:timers/promises'
import { median } from '../lib/stats.mjs'

const END_MS = 5000

/** Median time between two consecutive tokens of one answer, in ms. */
export function tokenMs ({ times }) {
  return median(times.slice(1).map((time, i) => time - times[i]))
}

export const firstMs = ({ startedAt, times }) => times[0] - startedAt

/** Seconds from the first request to the last token of any stream. */
export function wholeSeconds (streams) {
  const end = Math.max(...streams.map(({ times }) => times.at(-1)))
  return (end - Math.min(...streams.map(({ startedAt }) => startedAt))) / 1000
}

/** Starts the workers in `open`, runs `work` with them and always stops them. A worker may be undefined. */
export async function withWorkers (open, work) {
  const started = []
  try {
    const workers = {}
    for (const [name, start] of Object.entries(open)) {
      workers[name] = await start()
      if (workers[name] !== undefined) started.push(workers[name])
    }
    return await work(workers)
  } finally {
    // Do not wait forever for a worker that has crashed.
    await Promise.race([Promise.all(started.map((each) => each.stop())), sleep(END_MS)])
  }
}
