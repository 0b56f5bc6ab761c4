import { createCapabilities, type Capabilities, type CapabilitiesOptions } from '../capabilities.js'
import { createCommands } from '../../../kernel/plugins/commands.js'
import { kernelError, SvcError } from '../../../kernel/api/errors.js'
import { errorBody, errorHeaders, type ErrorBody } from '../../../kernel/http/error-body.js'
import {
  Reply, type Caller, type CapabilityCall, type CapabilityChunk, type CapabilityDecl, type IoMode,
  type Logger, type RouteRequest
} from '../../../kernel/api/plugin.js'
import { manualClock, type ManualClock } from '../../../kernel/testing/manual-clock.js'
import { decodeFrames } from '../frames/frames.js'
import type { CapabilityHandler, RouteSocket } from '../../../kernel/index.js'
import type { CallOutcome } from '../service.js'

export const NODE = { nodeId: 'node-1', installId: '00000000-0000-4000-8000-000000000001' }

export const caller = (id = 'ann', ...authorities: string[]): Caller =>
  ({ id, mode: 'direct', authorities: new Set(['invoke', 'read', ...authorities]) })

const input = { type: 'object', additionalProperties: false,
  properties: { n: { type: 'integer', minimum: 0 } } } as const
const chunk = { type: 'object', additionalProperties: false, required: ['i'],
  properties: { i: { type: 'integer' } } } as const

/** A declaration with the schemas that its mode requires. */
export function declaration (io: IoMode, more: Partial<CapabilityDecl> = {}): CapabilityDecl {
  const clientSide = io === 'client_streaming' || io === 'bidirectional'
  const serverSide = io === 'server_streaming' || io === 'bidirectional'
  return {
    id: `probe-${io.replace('_', '-')}`,
    version: '1.0.0',
    title: 'Probe',
    description: 'A probe.',
    io_mode: io,
    input_schema: input,
    output_schema: serverSide ? null
      : { type: 'object', required: ['sum'], properties: { sum: { type: 'integer' } } },
    input_chunk_schema: clientSide ? chunk : null,
    output_chunk_schema: serverSide ? chunk : null,
    annotations: { stability: 'stable' },
    ...more
  }
}

interface Served extends Capabilities {
  session (ws: RouteSocket, caller: Caller): void
  /** Ends all calls as a stopping node does; resolves when no command is open. */
  close (): Promise<void>
}

export interface Bench {
  capabilities: Served
  clock: ManualClock
  commands: ReturnType<typeof createCommands>
  logged: { level: string, fields: Record<string, unknown>, message: string }[]
  outcomes: CallOutcome[]
}

/** The capability layer with a manual clock and recorded output. */
export function bench (options: Partial<CapabilitiesOptions> = {}): Bench {
  const clock = manualClock()
  const commands = createCommands(() => () => {})
  const logged: Bench['logged'] = []
  const outcomes: CallOutcome[] = []
  const at = (level: string) => (fields: Record<string, unknown>, message: string): void => {
    logged.push({ level, fields, message })
  }
  const log: Logger = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'),
    fatal: at('fatal') }
  const made = createCapabilities({
    clock, log, commands, node: NODE, onOutcome: (outcome) => { outcomes.push(outcome) }, ...options
  })
  const stopping = new AbortController()
  const capabilities: Served = {
    ...made,
    session: (ws, caller) => { made.handlers.session(ws, { caller, signal: stopping.signal }) },
    async close () {
      commands.abortAll('shutting_down')
      stopping.abort(kernelError('shutting_down'))
      await until(() => commands.open === 0, 'the end of all commands')
    }
  }
  return { capabilities, clock, commands, logged, outcomes }
}

export function probe (
  b: Pick<Bench, 'capabilities'>, io: IoMode, handler: unknown, more: Partial<CapabilityDecl> = {}
): Record<string, unknown> {
  const decl = declaration(io, more)
  b.capabilities.register('probes', decl, handler as CapabilityHandler)
  return {
    capability_id: decl.id,
    version: decl.version,
    descriptor_revision: b.capabilities.registry.list().revisions[`${decl.id}@${decl.version}`],
    payload: {}
  }
}

export type View = CapabilityCall
export type Piece = CapabilityChunk
export type Source = (input: { n?: number }, call: View) => AsyncIterable<unknown>

/** A chunk with `size` media bytes. */
export const piece = (i: number, size?: number): Piece => size === undefined
  ? { payload: { i } }
  : {
      payload: { i },
      media: { bytes: new Uint8Array(size).fill(i % 256), mediaType: 'audio/mpeg', codec: 'mp3',
        sampleRate: 22050, channels: 1,
        timestampSeconds: i, durationSeconds: 1 }
    }

/** A response reader that accepts all writes, or only one at a time on request. */
export class FakeReader {
  status = 0
  headers: Record<string, string> = {}
  contentType = ''
  readonly received: Uint8Array[] = []
  opened = false
  ended = false
  wasCut = false
  stuck = false
  stall: { clock: ManualClock, ms: number } | undefined
  #waiting: { accept: () => void, refuse: (error?: Error) => void }[] = []

  async write (bytes: Uint8Array | string): Promise<void> {
    if (this.wasCut) throw kernelError('cancelled', 'The client disconnected.')
    if (this.stuck) {
      await new Promise<void>((resolve, reject) => {
        const gone = kernelError('cancelled', 'The client disconnected.')
        const refuse = (error: Error = gone): void => { reject(error) }
        const stop = this.stall?.clock.after(this.stall.ms, () => { refuse(kernelError('slow_consumer')) })
        this.#waiting.push({ accept: () => { stop?.(); resolve() }, refuse })
      })
    }
    this.received.push(typeof bytes === 'string' ? Buffer.from(bytes) : Uint8Array.from(bytes))
  }

  async end (): Promise<void> { this.ended = true }

  cut (): void {
    this.wasCut = true
    for (const { refuse } of this.#waiting.splice(0)) refuse()
  }

  get closed (): boolean { return this.ended || this.wasCut }
  get bytes (): number { return this.received.reduce((sum, b) => sum + b.byteLength, 0) }
  get text (): string { return Buffer.concat(this.received).toString() }

  /** Accepts one waiting write; false if none waits. */
  takeOne (): boolean {
    const next = this.#waiting.shift()
    next?.accept()
    return next !== undefined
  }

  flow (): void {
    this.stuck = false
    while (this.takeOne()) { /* empty */ }
  }

  /** The frames received so far, which must form a complete stream. */
  async frames (): Promise<{ kind: string, sequence: number, payload: unknown,
    error: ErrorBody['error'] | null, media: Uint8Array | null }[]> {
    const out = []
    const source = this.received
    for await (const { header, media } of decodeFrames((async function * () { yield * source })())) {
      out.push({ kind: header.kind, sequence: header.sequence, payload: header.payload, error: header.error,
        media })
    }
    return out
  }
}

export interface Request {
  reader: FakeReader
  leave: () => void
  /** Resolves to the handler's reply, or to null if the handler opened a stream; rejects if it throws. */
  answer: Promise<{ status: number, body: unknown, headers: Record<string, string> } | null>
}

export function ask (
  b: Pick<Bench, 'capabilities'> & Partial<Pick<Bench, 'clock'>>,
  route: 'list' | 'call' | 'stream' | 'cancel', body: unknown,
  more: { accept?: string, caller?: Caller, query?: Record<string, string>, headers?: Record<string, string>,
    reader?: FakeReader, member?: string } = {}
): Request {
  const reader = more.reader ?? new FakeReader()
  const controller = new AbortController()
  const request: RouteRequest = {
    params: {},
    query: more.query ?? {},
    body,
    headers: { ...(more.accept === undefined ? {} : { accept: more.accept }), ...more.headers },
    member: more.member ?? null,
    caller: more.caller ?? caller(),
    requestId: 'request-1',
    remoteAddress: '127.0.0.1',
    signal: controller.signal,
    note () {},
    open (head) {
      reader.opened = true
      reader.status = head.status ?? 200
      reader.contentType = head.contentType
      reader.headers = head.headers ?? {}
      reader.stall = b.clock && { clock: b.clock, ms: head.stallMs ?? 30_000 }
      return reader
    }
  }
  const handler = b.capabilities.handlers[route] as (request: RouteRequest) => unknown
  const run = async (): Promise<Awaited<Request['answer']>> => {
    const result = await Promise.resolve(handler(request)).catch(async (error: unknown) => {
      if (!(error instanceof SvcError) || reader.opened) throw error
      const [body, headers] = [errorBody(error, request.requestId), errorHeaders(error)]
      if (route !== 'stream') return new Reply(body, error.status, headers)
      const contentType = 'application/json; charset=utf-8'
      const writer = request.open({ status: error.status, contentType, headers })
      await writer.write(JSON.stringify(body))
      await writer.end()
    })
    if (reader.opened) return null
    const reply = result instanceof Reply ? result : new Reply(result)
    return { status: reply.status, body: reply.body, headers: reply.headers }
  }
  return { reader, leave: () => { controller.abort(kernelError('cancelled', 'The client disconnected.')) },
    answer: run() }
}

/** The error for a refused request, taken from either the reply or a JSON body written to the stream. */
export function errorOf (request: Request,
  answer: Awaited<Request['answer']>): ErrorBody['error'] & { status: number } {
  const body = (answer === null ? JSON.parse(request.reader.text) : answer.body) as ErrorBody
  return { ...body.error, status: answer?.status ?? request.reader.status }
}

/** Resolves when the condition holds; yields without waiting for time to pass. */
export async function until (condition: () => boolean, what = 'the condition'): Promise<void> {
  for (let turn = 0; turn < 20_000; turn++) {
    if (condition()) return
    await new Promise((resolve) => { setImmediate(resolve) })
  }
  throw new Error(`${what} never came true`)
}

/** Resolves when the condition holds; for events of real sockets. */
export async function eventually (condition: () => boolean, what: string): Promise<void> {
  for (let turn = 0; turn < 5000; turn++) {
    if (condition()) return
    await new Promise((resolve) => { setTimeout(resolve, 2) })
  }
  throw new Error(`${what} never came true`)
}

/** Lets all pending work run, except for work that needs time or I/O. */
export async function settle (turns = 3): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => { setImmediate(resolve) })
}

export function gate (): { opened: Promise<void>, open: () => void } {
  let open = (): void => {}
  const opened = new Promise<void>((resolve) => { open = resolve })
  return { opened, open }
}

/** Expected fields of a thrown error. */
export const like = (fields: Record<string, unknown>): Error => fields as unknown as Error
