import { ByteQueue } from '../../../kernel/api/engine.js'
import { ProtocolError } from './errors.js'
import type { EngineChunk, ModelSpec } from '../../../kernel/api/engine.js'
import type { HostLimits } from './limits.js'

/**
 * The frame format between node and runner, over a stream socket:
 *
 *   u32 BE length of what follows | u8 kind | u32 BE task number | u32 BE length of JSON | JSON | media
 *
 * JSON is always an object. Media are raw bytes that belong to it (audio), never put into the JSON.
 */
export interface Frame {
  readonly kind: number
  /** Number of the frame's task; 0 for a frame about the runner itself. */
  readonly task: number
  readonly header: Record<string, unknown>
  readonly media: Uint8Array
  /** Size on the wire in bytes, in which credits are counted. */
  readonly bytes: number
}

const LENGTH_BYTES = 4
const HEAD_BYTES = 1 + 4 + 4
const NO_MEDIA = new Uint8Array(0)

/** Encodes a frame as pieces to write in order; the media are not copied. */
export function encodeFrame (
  kind: number, task: number, header: object, media: Uint8Array = NO_MEDIA
): Uint8Array[] {
  const json = JSON.stringify(header)
  const jsonBytes = Buffer.byteLength(json)
  const head = Buffer.allocUnsafe(LENGTH_BYTES + HEAD_BYTES + jsonBytes)
  head.writeUInt32BE(HEAD_BYTES + jsonBytes + media.byteLength, 0)
  head.writeUInt8(kind, 4)
  head.writeUInt32BE(task, 5)
  head.writeUInt32BE(jsonBytes, 9)
  head.write(json, 13, 'utf8')
  return media.byteLength === 0 ? [head] : [head, media]
}

/** Parses frames from a byte stream in pieces of any size. */
export class FrameParser {
  readonly #maxFrameBytes: number
  readonly #bytes = new ByteQueue()
  #length: number | null = null

  constructor (maxFrameBytes: number) { this.#maxFrameBytes = maxFrameBytes }

  get pending (): number { return this.#bytes.length + (this.#length === null ? 0 : LENGTH_BYTES) }

  push (bytes: Uint8Array): void { this.#bytes.push(bytes) }

  /** The next complete frame; undefined until more bytes arrive. Throws ProtocolError if it is malformed. */
  next (): Frame | undefined {
    if (this.#length === null) {
      if (this.#bytes.length < LENGTH_BYTES) return undefined
      const length = this.#take(LENGTH_BYTES).readUInt32BE()
      if (length < HEAD_BYTES || length > this.#maxFrameBytes) {
        throw new ProtocolError(
          `frame of ${length} bytes; allowed are ${HEAD_BYTES} to ${this.#maxFrameBytes}`)
      }
      this.#length = length
    }
    if (this.#bytes.length < this.#length) return undefined
    const bytes = this.#take(this.#length)
    this.#length = null
    return decode(bytes)
  }

  #take (count: number): Buffer<ArrayBuffer> { return Buffer.from(this.#bytes.take(count).buffer) }
}

function decode (bytes: Buffer<ArrayBuffer>): Frame {
  const jsonBytes = bytes.readUInt32BE(5)
  const jsonEnd = HEAD_BYTES + jsonBytes
  if (jsonEnd > bytes.length) throw new ProtocolError(`frame says ${jsonBytes} bytes of JSON but is shorter`)
  return {
    kind: bytes.readUInt8(0),
    task: bytes.readUInt32BE(1),
    header: parse(bytes, jsonEnd),
    media: new Uint8Array(bytes.buffer, jsonEnd),
    bytes: LENGTH_BYTES + bytes.length
  }
}

function parse (bytes: Buffer, end: number): Record<string, unknown> {
  let value: unknown
  try {
    value = JSON.parse(bytes.toString('utf8', HEAD_BYTES, end))
  } catch {
    throw new ProtocolError('frame header is not JSON')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ProtocolError('frame header is not a JSON object')
  }
  return value as Record<string, unknown>
}

export const TO_RUNNER = { spec: 1, task: 2, credit: 3, cancel: 4, stop: 5 } as const

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

export interface SpecMessage { spec: ModelSpec, engineModule: string, limits: HostLimits }

/** Work about to start. `units` is its amount, in a unit that the engine chooses. */
export interface OpenWork { id: number, label: string, units: number }

/** Work that has started or ended since the last message, and the total cost of ended work by label. */
export interface WorkMessage {
  open: OpenWork[]
  closed: number[]
  measured: { label: string, units: number, ms: number }[]
}

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
  | { type: 'fatal', stage: string, reason?: string, message: string }

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
  [FROM_RUNNER.fatal]: (h) => ({
    type: 'fatal', stage: text(h, 'stage'), message: text(h, 'message'),
    ...(h['reason'] === undefined ? {} : { reason: reason(h) })
  })
}

/** The message in a runner's frame. Throws ProtocolError naming the invalid field. */
export function readMessage (frame: Pick<Frame, 'kind' | 'header'>): RunnerMessage {
  const reader = READERS[frame.kind]
  if (reader === undefined) throw new ProtocolError(`frame of unknown kind ${frame.kind}`)
  return reader(frame.header)
}

export function chunkOf (
  { payload, timing }: RunnerMessage & { type: 'chunk' }, { media }: Pick<Frame, 'media'>
): EngineChunk {
  return {
    payload, ...(media.byteLength === 0 ? {} : { media }), ...(timing === undefined ? {} : { timing })
  }
}

/** The runner's span record of a traced task, which is not checked here. */
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

/**
 * Credit-based flow control in chunks and bytes. A chunk may be sent while both credits are above zero, so
 * that a chunk larger than the remaining bytes still passes and the next one waits.
 */
export class CreditWindow {
  #chunks: number
  #bytes: number

  constructor (chunks: number, bytes: number) {
    this.#chunks = chunks
    this.#bytes = bytes
  }

  get open (): boolean { return this.#chunks > 0 && this.#bytes > 0 }

  take (bytes: number): void {
    this.#chunks -= 1
    this.#bytes -= bytes
  }

  grant (chunks: number, bytes: number): void {
    this.#chunks += chunks
    this.#bytes += bytes
  }
}

/** Collects the credit for chunks that were read; returns it once it reaches a quarter of the window. */
export class CreditReturn {
  readonly #lotChunks: number
  readonly #lotBytes: number
  #chunks = 0
  #bytes = 0

  constructor (windowChunks: number, windowBytes: number) {
    this.#lotChunks = Math.max(1, windowChunks >> 2)
    this.#lotBytes = Math.max(1, windowBytes >> 2)
  }

  /** Counts one chunk that was read; returns the credit to grant, or null until enough has been collected. */
  countRead (bytes: number): { chunks: number, bytes: number } | null {
    this.#chunks += 1
    this.#bytes += bytes
    if (this.#chunks < this.#lotChunks && this.#bytes < this.#lotBytes) return null
    const lot = { chunks: this.#chunks, bytes: this.#bytes }
    this.#chunks = 0
    this.#bytes = 0
    return lot
  }
}
