/** From the times of tokens to figures. */
import { setTimeout as sleep } from 'node:timers/promises'
import { median } from '../lib/stats.mjs'

const END_MS = 5000

/** Median time between two tokens of one answer, ms. */
export function tokenMs ({ times }) {
  return median(times.slice(1).map((time, i) => time - times[i]))
}

/** Notes when tokens come, and what the processor has worked for this whole process until then, ms. */
export function stopwatch () {
  const startedAt = performance.now()
  const times = []
  const used = []
  return {
    token () {
      times.push(performance.now())
      const { user, system } = process.cpuUsage()
      used.push((user + system) / 1000)
    },
    get count () { return times.length },
    done: () => ({ startedAt, times, used })
  }
}

/** Time of the processor per token of one answer after its first, ms. */
export const processorMs = ({ used }) => (used.at(-1) - used[0]) / (used.length - 1)

export const firstMs = ({ startedAt, times }) => times[0] - startedAt

/** Tokens while all answers were being written: how many a second, and the time of the processor of one. */
export function together (streams) {
  const from = Math.max(...streams.map(({ times }) => times[0]))
  const to = Math.min(...streams.map(({ times }) => times.at(-1)))
  const inside = streams.flatMap(({ times, used }) => times.map((at, i) => ({ at, used: used[i] })))
    .filter(({ at }) => at >= from && at <= to).sort((a, b) => a.at - b.at)
  const count = inside.length - 1
  return { rate: count / (to - from) * 1000, processorMs: (inside.at(-1).used - inside[0].used) / count }
}

/** The same of answers written one after the other, prompts not counted. */
export function inTurn (streams) {
  const sum = (of) => streams.reduce((all, stream) => all + of(stream), 0)
  const count = sum(({ times }) => times.length - 1)
  return {
    rate: count / sum(({ times }) => times.at(-1) - times[0]) * 1000,
    processorMs: sum(({ used }) => used.at(-1) - used[0]) / count
  }
}

/** From the first request to the last token, seconds. */
export function wholeSeconds (streams) {
  const end = Math.max(...streams.map(({ times }) => times.at(-1)))
  return (end - Math.min(...streams.map(({ startedAt }) => startedAt))) / 1000
}

/** Runs `work` with what `open` starts, and stops it in any case. `open` may leave a peer undefined. */
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
    // One that has died by itself does not answer.
    await Promise.race([Promise.all(started.map((each) => each.stop())), sleep(END_MS)])
  }
}
