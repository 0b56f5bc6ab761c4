// Runs the event store in a separate process and measures the event loop; without a home it runs no store.
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { serveWorker } from '../lib/worker.mjs'

const RESOLUTION_MS = 1
const MIB = 1024 * 1024
const FULL = 300 * MIB
const TEXT = 800
const PER_SECOND = 2000
const TICK_MS = 5
const APPEND_MS = 5000
const LONGEST_MS = 120_000
/** File size in bytes at which the store starts a new file, small so that the first deletion comes soon. */
const FILE = 4 * MIB

const monitor = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
const delay = (ns) => Math.max(0, ns / 1e6 - RESOLUTION_MS)

/** Event-loop delays in ms since the last call. */
function loop () {
  const { max } = monitor
  const read = { p99: delay(monitor.percentile(99)), max: delay(max) }
  monitor.reset()
  return read
}

async function storeIn (home) {
  const { entryMaker, store } = await import('./entries.mjs')
  const folder = join(home, 'events')
  const make = entryMaker(TEXT)
  let log = await store(folder, { totalBytes: Number.MAX_SAFE_INTEGER })

  /** Appends `PER_SECOND` events a second until `over` returns true; returns the event-loop delays. */
  async function appendUntil (over) {
    const start = performance.now()
    let made = 0
    let ms = 0
    do {
      const due = Math.floor(ms / 1000 * PER_SECOND)
      log.append(make(due - made))
      made = due
      await sleep(TICK_MS)
      ms = performance.now() - start
      if (ms > LONGEST_MS) throw new Error('the phase took too long')
    } while (!over(ms))
    return { seconds: ms / 1000, loop: loop() }
  }

  return {
    async fill () {
      let events = 0
      for (; log.status().bytes < FULL; events += 2000) {
        log.append(make(2000))
        await log.flushed()
      }
      return { events, mebibytes: log.status().bytes / MIB }
    },
    async append () {
      loop()
      return await appendUntil((ms) => ms > APPEND_MS)
    },
    async rotate () {
      await log.close()
      loop()
      log = await store(folder, { fileBytes: FILE })
      const { firstIdx } = log.status()
      return { ...await appendUntil(() => log.status().firstIdx > firstIdx), left: log.status().bytes / MIB }
    }
  }
}

await serveWorker(async ({ home }) => {
  const own = home === undefined ? {} : await storeIn(home)
  monitor.enable()
  return { ready: {}, handle: async ({ do: what }) => what === 'loop' ? { loop: loop() } : await own[what]() }
})
