import { accessSync, constants } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { homeFile } from '../boot/home.js'
import { Reserve } from '../boot/reserve.js'
import type { Clock } from '../api/clock.js'
import type { Health } from '../plugins/health.js'

const GiB = 1024 ** 3
/** At most this much free: `disk_full`. */
export const DISK_FULL_BYTES = 2 * GiB
/** Less than this free: `disk_low`. */
export const DISK_LOW_BYTES = 10 * GiB
const PERIOD_MS = 10_000
/** Held on the disk so that the node starts again when it is full: enough for several starts. */
const RESERVE_BYTES = 256 * 1024
const LAG_LIMIT_MS = 250

/** Which disk fault a free space means. Pure. */
export function diskFault (freeBytes: number): 'disk_full' | 'disk_low' | null {
  return freeBytes <= DISK_FULL_BYTES ? 'disk_full' : freeBytes < DISK_LOW_BYTES ? 'disk_low' : null
}

export interface SelfWatchOptions {
  health: Health
  home: string
  clock: Clock
  /** Whether the election's promises reach the disk. */
  storing?: () => boolean
  /** Calls `fn` when that changes. Returns what ends that. */
  onStoring?: (fn: () => void) => () => void
}

/** Watches the node itself: disk, home, event loop. Returns what stops it. */
export function watchSelf (options: SelfWatchOptions): () => void {
  const { health, home } = options
  const loop = monitorLoop()
  const reserve = new Reserve(join(home, homeFile.reserve), RESERVE_BYTES)
  const look = async (): Promise<void> => {
    try {
      const { bavail, bsize } = await statfs(home)
      disk(health, bavail * bsize)
      await reserve.fill()
      accessSync(home, constants.W_OK)
      accessSync(join(home, 'state'), constants.W_OK)
      if (options.storing?.() === false) throw new Error('promises cannot be written; it cannot be master')
      health.clear('state_not_durable')
    } catch (error) {
      health.raise('state_not_durable', (error as Error).message.slice(0, 200))
    }
  }
  const check = (): void => {
    lag(health, loop.read().p99)
    loop.reset()
    void look()
  }
  check()
  const stop = options.clock.every(PERIOD_MS, check)
  const unwatch = options.onStoring?.(() => { void look() })
  return () => { stop(); unwatch?.(); loop.stop() }
}

function lag (health: Health, p99Ms: number): void {
  if (p99Ms > LAG_LIMIT_MS) {
    health.raise('event_loop_lag', `p99 over the last ${PERIOD_MS / 1000} s: ${Math.round(p99Ms)} ms.`)
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

const RESOLUTION_MS = 10

/** How late the event loop was, in ms beyond what a timer asks for. */
export interface LoopDelay { p50: number, p99: number, max: number }

export interface LoopMonitor {
  /** Figures since the start or the last reset. */
  read (): LoopDelay
  reset (): void
  stop (): void
}

/** Watches the event loop. Node's histogram counts its own sampling period in; it is taken off here. */
export function monitorLoop (): LoopMonitor {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  histogram.enable()
  const beyond = (ns: number): number => Math.max(0, ns / 1e6 - RESOLUTION_MS)
  return {
    read: () => ({
      p50: beyond(histogram.percentile(50)),
      p99: beyond(histogram.percentile(99)),
      max: beyond(histogram.max)
    }),
    reset () { histogram.reset() },
    stop () { histogram.disable() }
  }
}
