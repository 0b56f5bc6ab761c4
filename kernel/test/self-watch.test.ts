import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createHealth, type Health } from '../plugins/health.js'
import { kernelManifest } from '../plugins/kernel-manifest.js'
import { diskFault, watchSelf } from '../observe/self-watch.js'
import { manualClock } from '../testing/index.js'

const pause = (ms: number): Promise<void> => new Promise((resolve) => { setTimeout(resolve, ms) })
const codes = (health: Health): string[] => health.snapshot().reasons.map((r) => r.code)

/** Starts watching a home; returns a function that triggers the next check. */
function watched (t: Test): { health: Health, home: string, look: () => Promise<void> } {
  const home = mkdtempSync(join(tmpdir(), 'svc-watch-'))
  mkdirSync(join(home, 'state'))
  const health = createHealth()
  health.declare(kernelManifest.conflicts)
  const clock = manualClock()
  const stop = watchSelf({ health, home, clock })
  t.teardown(() => { stop(); rmSync(home, { recursive: true, force: true }) })
  return { health, home, look: async () => { await clock.advance(10_000) } }
}

/** Repeats checks until `seen` is true, since the disk is read asynchronously. */
async function until (look: () => Promise<void>, seen: () => boolean): Promise<void> {
  while (!seen()) {
    await look()
    await pause(5)
  }
}

const GiB = 1024 ** 3

t.test('how much free space is a fault', (t) => {
  const check = (bytes: number, expected: string | null): void => {
    t.equal(diskFault(bytes), expected, `${bytes}`)
  }
  check(0, 'disk_full')
  check(2 * GiB, 'disk_full')
  check(2 * GiB + 1, 'disk_low')
  check(10 * GiB - 1, 'disk_low')
  check(10 * GiB, null)
  t.end()
})

t.test('a home that is gone is state_not_durable, and mended when it is back', async (t) => {
  const { health, home, look } = watched(t)
  await look()
  t.notOk(codes(health).includes('state_not_durable'))
  rmSync(home, { recursive: true })
  await until(look, () => codes(health).includes('state_not_durable'))
  t.match(health.snapshot(), { level: /warn|error/ })
})

/** Blocks the event loop once, with a pause before and after in which timers run. */
async function block (ms: number): Promise<void> {
  await pause(50)
  const end = performance.now() + ms
  while (performance.now() < end) { /* keeps the event loop from running */ }
  await pause(50)
}

t.test('a blocked event loop is event_loop_lag, and is forgotten when it runs again', async (t) => {
  const { health, look } = watched(t)
  const lags = (): boolean => codes(health).includes('event_loop_lag')
  await until(async () => { await block(600); await look() }, lags)
  const { reasons } = health.snapshot()
  t.match(reasons.find((r) => r.code === 'event_loop_lag')?.message, /p90 over the last 10 s: \d{3,} ms/)
  await until(look, () => !lags())
})
