import { ProtocolError } from './errors.js'
import type { EngineChunk, ModelSpec } from '../../../kernel/api/engine.js'
import type { Frame } from './frames.js'
import type { HostLimits } from './limits.js'

/** Frame kinds from the node to the runner. */
export const TO_RUNNER = { spec: 1, task: 2, credit: 3, cancel: 4, stop: 5 } as const

/** Frame kinds from the runner to the node. */
export const FROM_RUNNER = {
  hello: 16,
  progress: 17,
  loaded: 18,
  warming: 19,
  ready: 20,
  work: 21,
  chunk: 22,
  end: 23,
  fail: 24,
  log: 25,
  fatal: 26
} as const

/** First frame a runner gets. */
export interface SpecMessage { spec: ModelSpec, engineModule: string, limits: HostLimits }

/** A piece of work that is about to start; `units` in the engine's own measure. */
export interface OpenWork { id: number, label: string, units: number }

/** Work announced, work ended, and what ended work has cost, summed per label. */
export interface WorkMessage {
  open: OpenWork[]
  closed: number[]
  measured: { label: string, units: number, ms: number }[]
}

/** What a runner says, checked. */
export type RunnerMessage =
  | { type: 'hello', pid: number }
  | { type: 'progress', loaded: number, total: number }
  | { type: 'loaded', info: Record<string, unknown> }
  | { type: 'warming' }
  | { type: 'ready', warmupMs: number }
  | ({ type: 'work' } & WorkMessage)
  | { type: 'chunk', index: number, payload: Record<string, unknown>, timing?: Timing }
  | { type: 'end', trace?: unknown }
  | { type: 'fail', reason: string, message: string, details: Record<string, unknown>, trace?: unknown }
  | { type: 'log', level: 'info' | 'warn' | 'error', message: string, fields: Record<string, unknown> }
  | { type: 'fatal', stage: string, message: string }

type Header = Record<string, unknown>

const MAX_LIST = 1_024
type Timing = NonNullable<EngineChunk['timing']>

const READERS: Readonly<Record<number, (header: Header) => RunnerMessage>> = {
  [FROM_RUNNER.hello]: (h) => ({ type: 'hello', pid: count(h, 'pid') }),
  [FROM_RUNNER.progress]: (h) => ({
    type: 'progress', loaded: amount(h, 'loaded'), total: amount(h, 'total')
  }),
  [FROM_RUNNER.loaded]: (h) => ({ type: 'loaded', info: object(h, 'info') }),
  [FROM_RUNNER.warming]: () => ({ type: 'warming' }),
  [FROM_RUNNER.ready]: (h) => ({ type: 'ready', warmupMs: amount(h, 'warmupMs') }),
  [FROM_RUNNER.work]: readWork,
  [FROM_RUNNER.chunk]: (h) => ({
    type: 'chunk', index: count(h, 'index'), payload: object(h, 'payload'),
    ...(h['timing'] === undefined ? {} : { timing: timing(object(h, 'timing')) })
  }),
  [FROM_RUNNER.end]: (h) => ({ type: 'end', ...traceIn(h) }),
  [FROM_RUNNER.fail]: (h) => ({
    type: 'fail', reason: reason(h), message: text(h, 'message'), details: object(h, 'details'),
    ...traceIn(h)
  }),
  [FROM_RUNNER.log]: (h) => ({
    type: 'log', level: level(h), message: text(h, 'message'), fields: object(h, 'fields')
  }),
  [FROM_RUNNER.fatal]: (h) => ({ type: 'fatal', stage: text(h, 'stage'), message: text(h, 'message') })
}

/** The message in a frame from a runner. Throws ProtocolError naming the field that is wrong. */
export function readMessage (frame: Pick<Frame, 'kind' | 'header'>): RunnerMessage {
  const reader = READERS[frame.kind]
  if (reader === undefined) throw new ProtocolError(`frame of unknown kind ${frame.kind}`)
  return reader(frame.header)
}

/** What the runner recorded of a traced task; checked where it is read. */
const traceIn = (h: Header): { trace?: unknown } => h['trace'] === undefined ? {} : { trace: h['trace'] }

function timing (t: Header): Timing {
  return { timestampSeconds: amount(t, 'timestampSeconds'), durationSeconds: amount(t, 'durationSeconds') }
}

function readWork (header: Header): RunnerMessage {
  const open = list(header, 'open').map((entry) => (
    { id: count(entry, 'id'), label: text(entry, 'label', 64), units: amount(entry, 'units') }
  ))
  const measured = list(header, 'measured').map((entry) => (
    { label: text(entry, 'label', 64), units: amount(entry, 'units'), ms: amount(entry, 'ms') }
  ))
  const closed = header['closed']
  const isId = (id: unknown): boolean => Number.isSafeInteger(id)
  if (!Array.isArray(closed) || !closed.every(isId)) throw wrong('closed', 'a list of whole numbers')
  return { type: 'work', open, closed: closed as number[], measured }
}

const wrong = (field: string, expected: string): ProtocolError =>
  new ProtocolError(`frame field "${field}" must be ${expected}`)

function count (header: Header, field: string): number {
  const value = header[field]
  if (!Number.isSafeInteger(value) || (value as number) < 0) throw wrong(field, 'a whole number from 0')
  return value as number
}

function amount (header: Header, field: string): number {
  const value = header[field]
  if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) throw wrong(field, 'a number from 0')
  return value
}

function text (header: Header, field: string, maxLength = 8_192): string {
  const value = header[field]
  if (typeof value !== 'string' || value.length > maxLength) throw wrong(field, `text up to ${maxLength}`)
  return value
}

function object (header: Header, field: string): Record<string, unknown> {
  const value = header[field]
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw wrong(field, 'an object')
  return value as Record<string, unknown>
}

function list (header: Header, field: string): Header[] {
  const value = header[field]
  const isObject = (entry: unknown): boolean => typeof entry === 'object' && entry !== null
  if (!Array.isArray(value) || value.length > MAX_LIST || !value.every(isObject)) {
    throw wrong(field, `a list of at most ${MAX_LIST} objects`)
  }
  return value as Header[]
}

function reason (header: Header): string {
  const value = text(header, 'reason', 64)
  if (!/^[a-z][a-z0-9_]*$/.test(value)) throw wrong('reason', 'in snake_case')
  return value
}

function level (header: Header): 'info' | 'warn' | 'error' {
  const value = header['level']
  if (value !== 'info' && value !== 'warn' && value !== 'error') throw wrong('level', 'info, warn or error')
  return value
}
