import { accessSync, constants } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { createHistogram } from 'node:perf_hooks'
import { systemClock, type Clock } from '../api/clock.js'
import { homeFile } from '../boot/home.js'
import { DiskReserve } from '../boot/reserve.js'
import type { Health } from '../plugins/health.js'

const GiB = 1024 ** 3
/** Free bytes at or below which health reports `disk_full`. */
export const DISK_FULL_BYTES = 2 * GiB
/** Free bytes below which health reports `disk_low`. */
export const DISK_LOW_BYTES = 10 * GiB
const PERIOD_MS = 10_000
/** Disk space reserved for starting when the disk is full; enough for several starts. */
const RESERVE_BYTES = 256 * 1024
const LAG_LIMIT_MS = 250

export function diskFault (freeBytes: number): 'disk_full' | 'disk_low' | null {
  return freeBytes <= DISK_FULL_BYTES ? 'disk_full' : freeBytes < DISK_LOW_BYTES ? 'disk_low' : null
}

export interface SelfWatchOptions {
  health: Health
  home: string
  clock: Clock
  /** Whether votes can be written to disk. */
  storing?: () => boolean
  /** Calls `fn` when the result of `storing` changes. Returns a function that unregisters it. */
  onStoring?: (fn: () => void) => () => void
}

/** Watches the node's disk, home and event loop. Returns a function that stops it. */
export function watchSelf (options: SelfWatchOptions): () => void {
  const { health, home } = options
  const loop = monitorLoop()
  const reserve = new DiskReserve(join(home, homeFile.reserve), RESERVE_BYTES)
  const look = async (): Promise<void> => {
    try {
      const { bavail, bsize } = await statfs(home)
      disk(health, bavail * bsize)
      await reserve.fill()
      accessSync(home, constants.W_OK)
      accessSync(join(home, 'state'), constants.W_OK)
      if (options.storing?.() === false) throw new Error('votes cannot be written; it cannot be master')
      health.clear('state_not_durable')
    } catch (error) {
      health.raise('state_not_durable', (error as Error).message.slice(0, 200))
    }
  }
  const check = (): void => {
    lag(health, loop.read().p90)
    loop.reset()
    void look()
  }
  check()
  const stop = options.clock.every(PERIOD_MS, check)
  const unwatch = options.onStoring?.(() => { void look() })
  return () => { stop(); unwatch?.(); loop.stop() }
}

function lag (health: Health, p90Ms: number): void {
  if (p90Ms > LAG_LIMIT_MS) {
    health.raise('event_loop_lag', `p90 over the last ${PERIOD_MS / 1000} s: ${Math.round(p90Ms)} ms.`)
  } else {
    health.clear('event_loop_lag')
  }
}

function disk (health: Health, freeBytes: number): void {
  const fault = diskFault(freeBytes)
  for (const code of ['disk_full', 'disk_low'] as const) {
    if (code === fault) health.raise(code, `${(freeBytes / GiB).toFixed(1)} GiB are free.`)
    else health.clear(code)
  }
}

/** Sample interval for the event loop in ms, the same as the election's so that one wake-up serves both. */
const SAMPLE_MS = 200

const FIGURES = ['min', 'p50', 'p90', 'p99', 'max', 'mean', 'stddev'] as const

/** Event loop delays in ms: how much later a timer runs than it was set to. */
export type LoopDelay = Record<(typeof FIGURES)[number], number>

export interface LoopMonitor {
  /** Delays since the start or the last reset. */
  read (): LoopDelay
  reset (): void
  stop (): void
}

export function monitorLoop (): LoopMonitor {
  const histogram = createHistogram()
  let last: number | undefined
  const stop = systemClock.every(SAMPLE_MS, () => {
    const now = systemClock.mono()
    if (last !== undefined) histogram.record(Math.max(1, Math.round((now - last - SAMPLE_MS) * 1000)))
    last = now
  })
  const value = (name: keyof LoopDelay): number => {
    if (histogram.count === 0) return 0
    const us = name === 'p50' || name === 'p90' || name === 'p99'
      ? histogram.percentile(Number(name.slice(1)))
      : histogram[name]
    return us / 1000
  }
  return {
    read: () => Object.fromEntries(FIGURES.map((name) => [name, value(name)])) as LoopDelay,
    reset () { histogram.reset() }, stop
  }
}
