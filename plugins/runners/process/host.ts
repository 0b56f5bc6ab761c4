/**
 * The runner process for one engine and one model. spawn.ts starts it; frames arrive over file descriptor 3.
 * When that closes, the process ends together with its process group.
 */
import { spawn } from 'node:child_process'
import { Worker } from 'node:worker_threads'
import { createWork } from './activity.js'
import { reasonOf } from './errors.js'
import { FROM_RUNNER, TO_RUNNER, type Frame, type SpecMessage } from './protocol.js'
import { RateMeter, type HostLimits } from './limits.js'
import { NodeLink } from './node-link.js'
import { isEngineError, TaskServer, type StartedTask } from './serve.js'
import { BEAT_MS, PHASE, SLOT, SLOT_COUNT, type WatchdogData } from './watchdog.js'
import type { EngineEnv, EngineModule, EngineSession, ModelSpec } from '../../../kernel/api/engine.js'

const EXIT_ENGINE = 70
const LOGS_PER_SECOND = 100
const PROGRESS_MS = 100
/** Milliseconds to send the last frame before the process exits. */
const LAST_WORDS_MS = 1_000
const LOG_CHARS = 4_096
/** Heap limits of the watchdog thread, which stores almost nothing. */
const WATCHDOG_HEAP = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2, stackSizeMb: 1 }

// If the node has already died, the kernel sends no death signal, and this process would never end.
if (process.ppid !== Number(process.argv[2])) process.kill(process.pid, 'SIGKILL')
process.umask(0o077)

const state = new Int32Array(new SharedArrayBuffer(SLOT_COUNT * Int32Array.BYTES_PER_ELEMENT))
const link = new NodeLink(onFrame, endGroup)
const work = createWork(link, state)
const logMeter = new RateMeter(LOGS_PER_SECOND)
let server: TaskServer | null = null
let session: EngineSession | null = null
let stage = 'start'
let stopping = false

process.on('uncaughtException', (error) => { void fail(error) })

function onFrame (frame: Frame): void {
  const { kind, task, header } = frame
  if (kind === TO_RUNNER.spec) void boot(header as unknown as SpecMessage)
  else if (kind === TO_RUNNER.task) server?.start(task, header as unknown as StartedTask)
  else if (kind === TO_RUNNER.credit) server?.grant(task, Number(header['chunks']), Number(header['bytes']))
  else if (kind === TO_RUNNER.cancel) server?.cancel(task)
  else if (kind === TO_RUNNER.stop) void stop()
  else server?.onInput(task, frame)
}

async function boot ({ spec, engineModule, limits }: SpecMessage): Promise<void> {
  link.send(FROM_RUNNER.hello, 0, { pid: process.pid })
  startWatchdog(spec, limits)
  // In a PID namespace, all processes end with the first one. The guard shell would also kill the processes
  // that start the runner, sometimes before they report how the runner ended.
  if (process.argv[3] !== 'namespaces') guardFamily()
  try {
    session = await loadEngine(spec, engineModule)
    await warmUp(session)
    server = new TaskServer(session, { link, limits, log, now: () => performance.now() })
  } catch (error) {
    await fail(error)
  }
}

async function loadEngine (spec: ModelSpec, engineModule: string): Promise<EngineSession> {
  stage = 'import'
  const module = await import(engineModule) as { default?: Partial<EngineModule> }
  const load = module.default?.load
  if (typeof load !== 'function') {
    throw new TypeError('the engine module has no default export with a load function')
  }
  stage = 'load'
  const loaded = await load.call(module.default, spec, engineEnv())
  link.send(FROM_RUNNER.loaded, 0, { info: loaded.info() })
  return loaded
}

async function warmUp (loaded: EngineSession): Promise<void> {
  stage = 'warmup'
  link.send(FROM_RUNNER.warming, 0, {})
  // Send the frame first, because the engine may block this thread during warmup.
  if (link.behind) await link.flushed()
  const startedAt = performance.now()
  enter(PHASE.warmup)
  await loaded.warmup()
  enter(PHASE.serving)
  stage = 'serve'
  link.send(FROM_RUNNER.ready, 0, { warmupMs: performance.now() - startedAt })
}

function enter (phase: number): void {
  Atomics.store(state, SLOT.phase, phase)
  Atomics.notify(state, SLOT.phase)
}

function engineEnv (): EngineEnv {
  let sentAt = -Infinity
  let best = -1
  return {
    progress (loaded, total) {
      const now = performance.now()
      if (!(loaded > best && loaded <= total) || (now - sentAt < PROGRESS_MS && loaded < total)) return
      best = loaded
      sentAt = now
      link.send(FROM_RUNNER.progress, 0, { loaded, total })
    },
    work,
    log
  }
}

function log (level: 'info' | 'warn' | 'error', message: string, fields: Record<string, unknown> = {}): void {
  if (!logMeter.admit(performance.now())) return
  const text = String(message).slice(0, LOG_CHARS)
  try {
    const bounded = JSON.stringify(fields).length <= 4 * LOG_CHARS ? fields : { fieldsDropped: 'too large' }
    link.send(FROM_RUNNER.log, 0, { level, message: text, fields: bounded })
  } catch {
    link.send(FROM_RUNNER.log, 0, { level, message: text, fields: { fieldsDropped: 'not JSON' } })
  }
}

function startWatchdog (spec: ModelSpec, limits: HostLimits): void {
  const workerData: WatchdogData = {
    state, nodePid: Number(process.argv[2]), modelId: spec.card.modelId, warmupMs: limits.warmupMs,
    loopBlockedMs: limits.loopBlockedMs
  }
  const entry = new URL('./watchdog.js', import.meta.url)
  new Worker(entry, { workerData, resourceLimits: WATCHDOG_HEAP }).unref()
  setInterval(() => { Atomics.add(state, SLOT.beat, 1) }, BEAT_MS).unref()
}

/**
 * Starts a tiny shell in the runner's process group that waits until this process ends, for whatever reason,
 * and then kills the group, so that a child of the engine (an external server) never outlives its runner. The
 * shell ignores the signals of an orderly stop so that it ends last.
 */
function guardFamily (): void {
  const guard = spawn('/bin/sh', ['-c', 'trap "" TERM INT HUP; read -r _; kill -KILL 0'], {
    stdio: ['pipe', 'ignore', 'ignore'], env: {}
  })
  guard.on('error', ({ message: error }) => {
    log('warn', 'could not start the guard of the engine processes', { error })
  })
  guard.stdin.on('error', () => {})
  guard.unref()
}

async function fail (error: unknown): Promise<void> {
  const stack = error instanceof Error ? error.stack ?? error.message : String(error)
  process.stderr.write(`runner failed in ${stage}: ${stack}\n`)
  const reason = isEngineError(error) ? { reason: error.reason } : {}
  link.send(FROM_RUNNER.fatal, 0, { stage, ...reason, message: reasonOf(error) })
  setTimeout(() => { process.exit(EXIT_ENGINE) }, LAST_WORDS_MS)
  await link.flushed()
  process.exit(EXIT_ENGINE)
}

async function stop (): Promise<void> {
  if (stopping) return
  stopping = true
  await server?.cancelAll()
  try {
    await session?.close?.()
  } catch (error) {
    process.stderr.write(`the engine threw while closing: ${reasonOf(error)}\n`)
  }
  setImmediate(() => { process.exit(0) })
}

function endGroup (): void {
  if (stopping) process.exit(0)
  process.kill(0, 'SIGKILL')
}
