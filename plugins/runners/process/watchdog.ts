import { writeSync } from 'node:fs'
import { isMainThread, workerData } from 'node:worker_threads'
import { processorWaitMs } from './proc.js'

export const SLOT = {
  phase: 0,
  /** Number of open announcements; while there are any, the node checks the deadline of the work. */
  announced: 1,
  /** Incremented by a timer of the main thread, which proves that its event loop runs. */
  beat: 2
} as const
export const SLOT_COUNT = 3

export const PHASE = { loading: 0, warmup: 1, serving: 2 } as const

/** Milliseconds between two beats, and between two checks by the watchdog. */
export const BEAT_MS = 1_000

export interface WatchdogData {
  state: Int32Array
  nodePid: number
  modelId: string
  warmupMs: number
  loopBlockedMs: number
}

const STDERR = 2

/**
 * The watchdog thread of a runner. It runs even while native code blocks the main thread, and kills the
 * process group if the node is gone, the warmup deadline has passed, or the event loop is blocked outside
 * announced work. `process.exit` in a thread would end only that thread.
 */
function watch ({ state, nodePid, modelId, warmupMs, loopBlockedMs }: WatchdogData): never {
  let warmupSince: number | null = null
  let lastBeat = -1
  let stillMs = 0
  let lastWaited = 0
  for (;;) {
    const phase = Atomics.load(state, SLOT.phase)
    const now = performance.now()
    warmupSince = phase === PHASE.warmup ? warmupSince ?? now : null
    const left = warmupSince === null ? BEAT_MS : warmupSince + warmupMs - now
    if (left <= 0) die(warmupLine(modelId, warmupMs))
    Atomics.wait(state, SLOT.phase, phase, Math.min(left, BEAT_MS))
    if (process.ppid !== nodePid) die(null)
    const beat = Atomics.load(state, SLOT.beat)
    const waited = processorWaitMs(process.pid)
    // Count the watchdog's own ticks instead of time, because a suspended process would otherwise seem
    // blocked. Ticks in which the main thread had no CPU do not count either.
    const moves = beat !== lastBeat || phase !== PHASE.serving || Atomics.load(state, SLOT.announced) > 0
    stillMs = moves ? 0 : stillMs + Math.max(0, BEAT_MS - (waited - lastWaited))
    lastWaited = waited
    lastBeat = beat
    if (stillMs > loopBlockedMs) die(blockedLine(modelId, loopBlockedMs))
  }
}

function die (line: string | null): never {
  try {
    if (line !== null) writeSync(STDERR, `CRITICAL ${line}\n`)
  } catch {
    // stderr is already closed.
  }
  process.kill(0, 'SIGKILL')
  process.kill(process.pid, 'SIGKILL')
  throw new Error('unreachable')
}

function warmupLine (modelId: string, warmupMs: number): string {
  return `warmup of ${modelId} did not finish within ${warmupMs / 1000} s: the engine is blocked or waits ` +
    'forever. Killing the runner. SVC_WARMUP_DEADLINE_SECONDS sets the deadline.'
}

function blockedLine (modelId: string, loopBlockedMs: number): string {
  return `the engine of ${modelId} has blocked its event loop for more than ${loopBlockedMs / 1000} s ` +
    'outside announced work (env.work). Killing the runner.'
}

// The main thread imports this file for its constants and also starts it as the watchdog thread.
if (!isMainThread) watch(workerData as WatchdogData)
