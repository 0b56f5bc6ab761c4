import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { PassThrough, Readable, Writable } from 'node:stream'
import type { AddressInfo } from 'node:net'
import { encodeFrame } from '../../plugins/capabilities/frames/frames.js'
import { runCli } from '../cli/program.js'
import type { Plugin } from '../api/plugin.js'
import type { Io } from '../cli/output.js'
import type { WaitClock } from '../cli/waiting.js'

/** A writable stream that stores its input; `terminal` makes it look like a terminal. */
export class Kept extends Writable {
  readonly parts: Buffer[] = []
  readonly isTTY: boolean
  constructor (terminal: boolean) {
    super()
    this.isTTY = terminal
  }

  override _write (chunk: Buffer, _encoding: string, done: () => void): void {
    this.parts.push(Buffer.from(chunk))
    this.emit('written')
    done()
  }

  get text (): string { return this.bytes.toString() }
  get bytes (): Buffer { return Buffer.concat(this.parts) }

  /** Resolves when the stored text matches; the test times out otherwise. */
  async shows (pattern: RegExp): Promise<void> {
    while (!pattern.test(this.text)) await new Promise((resolve) => { this.once('written', resolve) })
  }
}

/** A clock for tests that do not wait: each pause advances its time immediately. */
export function quickPace (onPause: (count: number) => void = () => {}): WaitClock {
  let now = 0
  let count = 0
  return {
    mono: () => now,
    async pause (ms) {
      now += ms
      onPause(++count)
    }
  }
}

export interface Given {
  env?: NodeJS.ProcessEnv
  cwd?: string
  stdin?: string | Uint8Array[] | Readable
  /** True if stdout and stderr are a terminal. */
  terminal?: boolean
  /** Text that the user types; all streams then look like terminals. */
  typed?: string | Readable
  stdout?: Kept
  stderr?: Kept
  plugins?: readonly Plugin[]
  signal?: AbortSignal
}

export interface Ran { status: number, out: string, bytes: Buffer, err: string, pluginsAsked: number }

export type Outcome = Pick<Ran, 'status' | 'out' | 'err'>

/** Runs a command line in this process with its own streams. */
export async function cli (argv: readonly string[], given: Given = {}): Promise<Ran> {
  const { typed, stdin = typed ?? '' } = given
  const terminal = given.terminal ?? typed !== undefined
  const { stdout = new Kept(terminal), stderr = new Kept(terminal) } = given
  const input: Readable & { isTTY?: boolean } = stdin instanceof Readable ? stdin
    : Readable.from(typeof stdin === 'string' ? [stdin] : stdin)
  if (typed !== undefined) input.isTTY = true
  let pluginsAsked = 0
  const io: Io = { stdout, stderr, stdin: input, env: given.env ?? {}, cwd: given.cwd ?? process.cwd() }
  const status = await runCli(argv, {
    io,
    plugins: async () => { pluginsAsked++; return given.plugins ?? [] },
    signal: given.signal ?? new AbortController().signal
  })
  return { status, out: stdout.text, bytes: stdout.bytes, err: stderr.text, pluginsAsked }
}

export interface Asked { method: string, url: string, headers: IncomingMessage['headers'], body: unknown }

export type Answers = Record<string, (response: ServerResponse, asked: Asked) => void>

/** Starts an HTTP server with canned answers from a node; keys are `METHOD /path`. */
export async function standIn (
  t: { teardown (fn: () => unknown): void }, answers: Answers
): Promise<{ url: string, asked: Asked[] }> {
  const asked: Asked[] = []
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => { parts.push(part) })
    request.on('end', () => {
      const text = Buffer.concat(parts).toString()
      const one: Asked = { method: request.method!, url: request.url!, headers: request.headers,
        body: text === '' ? undefined : JSON.parse(text) }
      asked.push(one)
      const answer = answers[`${one.method} ${one.url.split('?')[0]!}`]
      if (answer === undefined) sendError(response, 404, 'not_found')
      else answer(response, one)
    })
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  t.teardown(() => { server.closeAllConnections(); server.close() })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}

/** Options of a command line run against a fake node; `pace` is the clock for verbs that wait. */
export interface NodeGiven extends Given { pace?: WaitClock }

/** A user's session at a terminal. */
export interface Session {
  stdout: Kept
  stderr: Kept
  type (text: string): void
  /** Ends the input without a key press. */
  hangUp (): void
  done: Promise<Outcome>
}

/** A fake node, and a command line that talks to it. */
export interface FakeNode {
  url: string
  asked: Asked[]
  /** The requests so far as `METHOD /path`. */
  requests (): string[]
  run (words: readonly string[], given?: NodeGiven): Promise<Outcome>
  sit (words: readonly string[], given?: NodeGiven): Session
}

/** Starts a fake node; `plugins` creates the plugins whose verbs are tested, with `pace` as their clock. */
export async function fakeNode (
  t: { teardown (fn: () => unknown): void }, answers: Answers,
  plugins: (pace?: WaitClock) => readonly Plugin[] = () => []
): Promise<FakeNode> {
  const { url, asked } = await standIn(t, answers)
  const run: FakeNode['run'] = async (words, { pace, ...given } = {}) => {
    const { status, out, err } = await cli(words.includes('--url') ? words : [...words, '--url', url],
      { plugins: plugins(pace), ...given, env: { NO_COLOR: '1', ...given.env } })
    return { status, out, err }
  }
  return {
    url, asked, run,
    requests: () => asked.map((one) => `${one.method} ${one.url}`),
    sit (words, given) {
      const typed = new PassThrough()
      const [stdout, stderr] = [new Kept(true), new Kept(true)]
      return {
        stdout, stderr,
        done: run(words, { ...given, typed, stdout, stderr }),
        type: (text) => { typed.write(text) },
        hangUp: () => { typed.end() }
      }
    }
  }
}

export function sendJson (response: ServerResponse, value: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

export function sendError (
  response: ServerResponse, status: number, reason: string, details: object = {}
): void {
  const message = `it is ${reason}`
  const error = { message, type: 'X', param: null, code: status, reason, retryable: false, requestId: 'r1',
    details }
  sendJson(response, { error, detail: message }, status)
}

/** A capability as GET /v1/capabilities lists it, with the fields that the command line reads. */
export function listed (more: object = {}): object {
  return { id: 'echo', version: '1.0.0', title: 'Echo', description: 'Says it again.',
    io_mode: 'server_streaming',
    input_schema: { type: 'object', additionalProperties: false, required: ['text'], properties: {
      text: { type: 'string' }, count: { type: 'integer', minimum: 1 } } },
    output_schema: null, input_chunk_schema: null, output_chunk_schema: { type: 'object' }, annotations: {},
    revision: '0123456789abcdef', node_id: 'n1', ...more }
}

export function listing (...capabilities: object[]): object {
  return { node_id: 'n1', capabilities, revisions: {} }
}

interface FrameLike { kind: string, payload?: unknown, bytes?: string, error?: unknown }

export function frames (...list: FrameLike[]): Buffer {
  return Buffer.concat(list.map(({ kind, payload = null, bytes, error = null }, sequence) => encodeFrame({
    header: { call_id: 'c1', sequence, kind, payload, error, media: bytes === undefined ? null : {
      media_type: 'audio/mpeg', codec: 'mp3', sample_rate: 16000, channels: 1, size: Buffer.byteLength(bytes),
      timestamp_seconds: sequence, duration_seconds: 1 } },
    media: bytes === undefined ? null : Buffer.from(bytes)
  })))
}
