/**
 * The watchdog thread of a runner. It runs while the main thread is blocked in native code, and ends the
 * process in three cases: the node is gone, the warmup deadline has passed, or the event loop stands
 * still outside announced work. It kills its whole process group, since `process.exit` of a thread ends
 * only the thread.
 */
import { writeSync } from 'node:fs'
import { workerData } from 'node:worker_threads'
import { processorWaitMs } from './proc.js'
import { BEAT_MS, PHASE, SLOT } from './shared.js'
import type { WatchdogData } from './shared.js'

const { state, nodePid, modelId, warmupMs, loopBlockedMs } = workerData as WatchdogData
const STDERR = 2

function die (line: string | null): never {
  try {
    if (line !== null) writeSync(STDERR, `CRITICAL ${line}\n`)
  } catch {
    // Nobody reads any more.
  }
  process.kill(-process.pid, 'SIGKILL')
  process.kill(process.pid, 'SIGKILL')
  throw new Error('unreachable')
}

function watch (): void {
  let warmupSince: number | null = null
  let lastBeat = -1
  let stillMs = 0
  let lastWaited = 0
  for (;;) {
    const phase = Atomics.load(state, SLOT.phase)
    const now = performance.now()
    warmupSince = phase === PHASE.warmup ? warmupSince ?? now : null
    const left = warmupSince === null ? BEAT_MS : warmupSince + warmupMs - now
    if (left <= 0) die(warmupLine())
    Atomics.wait(state, SLOT.phase, phase, Math.min(left, BEAT_MS))
    if (process.ppid !== nodePid) die(null)
    const beat = Atomics.load(state, SLOT.beat)
    const waited = processorWaitMs(process.pid)
    // Own ticks are counted, not time: a suspended process would otherwise wake up guilty. A tick in which
    // the main thread had no processor does not count either.
    const moves = beat !== lastBeat || phase !== PHASE.serving || Atomics.load(state, SLOT.announced) > 0
    stillMs = moves ? 0 : stillMs + Math.max(0, BEAT_MS - (waited - lastWaited))
    lastWaited = waited
    lastBeat = beat
    if (stillMs > loopBlockedMs) die(blockedLine())
  }
}

function warmupLine (): string {
  return `warmup of ${modelId} did not finish within ${warmupMs / 1000} s: the engine is blocked, or waits ` +
    'for something that does not come. Ending the runner. SVC_WARMUP_DEADLINE_SECONDS sets the deadline.'
}

function blockedLine (): string {
  return `the engine of ${modelId} has blocked its event loop for more than ${loopBlockedMs / 1000} s ` +
    'outside announced work (env.work). Ending the runner.'
}

watch()
