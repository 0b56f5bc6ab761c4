import './process-plain-spawn.js'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { systemClock } from '../../../kernel/api/clock.js'
import { kindOf } from '../process/states.js'
import { createSupervisor } from '../process/supervisor.js'
import { card } from './samples.js'
import type { Logger } from '../../../kernel/api/plugin.js'
import type { EngineChunk, ModelSpec } from '../../../kernel/api/engine.js'
import type { RunnerStatus } from '../service.js'
import type { RunnerError, RunnerOptions, Supervisor } from '../process/supervisor.js'

/** The parts of a tap test that this file uses. */
export interface TestCase { testdir (): string, teardown (fn: () => unknown): void }

export const ENGINE = new URL('./fixtures/engine.mjs', import.meta.url).href

const CARD = card('test/engine', {
  tasks: ['test'], engine: 'test', backends: ['cpu'], files: [], totalBytes: 1, nLayers: 4
})

export function testSpec (options: Record<string, unknown> = {}): ModelSpec {
  return { card: CARD, directory: '/', backend: 'cpu', threads: 1, options }
}

/** Waits until a condition holds; after the timeout throws an error that names the condition. */
export async function until (what: string, holds: () => boolean, timeoutMs = 20_000): Promise<void> {
  const deadline = performance.now() + timeoutMs
  while (!holds()) {
    if (performance.now() > deadline) throw new Error(`waited ${timeoutMs} ms in vain for: ${what}`)
    await sleep(5)
  }
}

/** True while a process with that id runs; a zombie does not count. */
export function lives (pid: number): boolean {
  return /^State:\s+[^ZX]/m.test(textOf(`/proc/${pid}/status`))
}

/** Content of a file; empty if the file does not exist. */
export function textOf (path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

export interface LogLine { level: string, message: string, fields: Record<string, unknown> }

export function recordingLog (): { log: Logger, lines: LogLine[] } {
  const lines: LogLine[] = []
  const at = (level: string) => (fields: Record<string, unknown>, message: string) => {
    lines.push({ level, message, fields })
  }
  const log = {
    debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), fatal: at('fatal')
  }
  return { log, lines }
}

export interface Bench {
  supervisor: Supervisor
  scratch: string
  statuses: RunnerStatus[]
  failures: { errorMessage: string, attempts: number }[]
  lines: LogLine[]
  /** Statuses reached so far, without the `Runner` prefix. */
  kinds (): string[]
  pid (): number
  ready (): Promise<void>
  failed (): Promise<string>
  open (
    payload: Record<string, unknown>, signal?: AbortSignal, input?: AsyncIterable<Uint8Array>
  ): AsyncIterable<EngineChunk>
}

/** A supervisor with a real runner process behind it, stopped at the end of the test. */
export function bench (
  t: TestCase, engineOptions: Record<string, unknown> = {}, options: Partial<RunnerOptions> = {}
): Bench {
  const statuses: RunnerStatus[] = []
  const failures: Bench['failures'] = []
  const { log, lines } = recordingLog()
  const scratch = mkdtempSync(join(tmpdir(), 'svc-runner-'))
  // Retried, because a runner's last lines may still be written to the folder.
  t.teardown(() => { rmSync(scratch, { recursive: true, force: true, maxRetries: 9, retryDelay: 100 }) })
  const supervisor = createSupervisor({
    runnerId: 'runner-1',
    instanceId: 'instance-1',
    spec: testSpec(engineOptions),
    engineModule: ENGINE,
    clock: systemClock,
    log,
    scratch,
    random: () => 0,
    onStatus: (status) => { statuses.push(status) },
    onFailed: (failure) => { failures.push(failure) },
    ...options,
    limits: { backoffFirstMs: 50, checkMs: 50, stopStepMs: 300, ...options.limits }
  })
  t.teardown(() => supervisor.stop())
  supervisor.start()
  let tasks = 0
  return {
    supervisor,
    scratch,
    statuses,
    failures,
    lines,
    kinds: () => statuses.map((status) => kindOf(status).replace('Runner', '')),
    /** Throws if there is no process yet, because a signal to pid -1 or 0 would reach other processes. */
    pid: () => {
      const { pid } = supervisor.report()
      if (pid === null) throw new Error('the supervisor has started no process yet')
      return pid
    },
    ready: () => until('ready', () => 'RunnerReady' in supervisor.status),
    failed: async () => {
      await until('failed', () => 'RunnerFailed' in supervisor.status)
      return failures[0]?.errorMessage ?? ''
    },
    open: (payload, signal = new AbortController().signal, input) =>
      supervisor.open(`task-${++tasks}`, { kind: 'test', payload, input }, signal)
  }
}

/** The data that a reader received: payloads of a stream, bytes of its media, and how it ended. */
export interface Heard {
  payloads: Record<string, unknown>[]
  bytes: number
  end: string
  error: RunnerError | null
}

/** Reads a stream to its end and calls `onChunk` for each chunk. */
export async function hear (
  stream: AsyncIterable<EngineChunk>,
  onChunk: (index: number, chunk: EngineChunk) => void | Promise<void> = () => {}
): Promise<Heard> {
  const heard: Heard = { payloads: [], bytes: 0, end: 'end', error: null }
  try {
    for await (const chunk of stream) {
      heard.payloads.push(chunk.payload)
      heard.bytes += chunk.media?.byteLength ?? 0
      await onChunk(heard.payloads.length - 1, chunk)
    }
  } catch (error) {
    heard.error = error as RunnerError
    heard.end = heard.error.reason
  }
  return heard
}
