/** HTTP client for tests: any header, one connection per request, streams that can be aborted. */
import { request, type IncomingHttpHeaders, type IncomingMessage, type RequestOptions } from 'node:http'
import { request as requestTls } from 'node:https'
import { connect, type Socket } from 'node:net'
import { decodeFrames, type Frame } from '../../plugins/capabilities/frames/frames.js'

/** Address of a node, and the operator's token, which a request may replace. */
export interface At {
  url: string
  token?: string
  /** PEM text of the certificate authority to trust, for https. */
  ca?: string | undefined
}

export interface Ask {
  method?: string
  body?: unknown
  /** Body bytes sent unchanged instead of `body`. */
  raw?: string | Buffer
  headers?: Record<string, string>
  /** Null sends no credential. */
  token?: string | null
}

export interface Answer {
  status: number
  headers: IncomingHttpHeaders
  bytes: Buffer
  text: string
  /** The body as JSON; undefined if the body is not JSON. */
  json: unknown
}

/** The fields of an error body that tests read. */
export interface Refusal { error: { reason: string, code: number, message: string, retryable: boolean,
  param: string | null, requestId: string, details: Record<string, unknown> }, detail: string }

/**
 * The error in a response body from any API. Ollama's format has a string in `error` and the other fields
 * beside it; JSON-RPC has the fields in `data`.
 */
export function refusal (answer: { json: unknown }): Refusal['error'] | undefined {
  const body = answer.json as
    Refusal | { jsonrpc: string, error: { data: Refusal['error'] } } |
    Refusal['error'] & { error: string } | undefined
  if (typeof body === 'object' && 'jsonrpc' in body) return body.error.data
  if (typeof body?.error !== 'string') return body?.error
  const { error: message, detail: _, ...rest } = body as Refusal['error'] & { error: string, detail: string }
  return { ...rest, message }
}

function optionsOf (
  at: At, path: string, ask: Ask, body: string | Buffer | undefined
): RequestOptions & { ca?: string } {
  const url = new URL(at.url)
  const token = ask.token === undefined ? at.token : ask.token
  return {
    host: url.hostname, port: url.port, path, agent: false, ...at.ca === undefined ? {} : { ca: at.ca },
    method: ask.method ?? (body === undefined ? 'GET' : 'POST'),
    headers: {
      ...(body === undefined ? {} : { 'content-type': 'application/json',
        'content-length': String(Buffer.byteLength(body)) }),
      ...(token === null || token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...ask.headers
    }
  }
}

/** Sends a request; resolves when the response headers arrive. */
export function open (at: At, path: string, options: Ask = {}): Promise<IncomingMessage> {
  const body = options.raw ?? (options.body === undefined ? undefined : JSON.stringify(options.body))
  return new Promise((resolve, reject) => {
    const to = at.url.startsWith('https:') ? requestTls : request
    const req = to(optionsOf(at, path, options, body), resolve)
    req.on('error', reject)
    req.end(body)
  })
}

/** Sends a request and reads the whole answer. */
export async function ask (at: At, path: string, options: Ask = {}): Promise<Answer> {
  const response = await open(at, path, options)
  const bytes = await readBody(response)
  // Decoded on first access: decoding a model's bytes takes longer than receiving them.
  return {
    status: response.statusCode ?? 0, headers: response.headers, bytes,
    get text () { return bytes.toString() },
    get json () { return parsed(bytes) }
  }
}

export async function readBody (response: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = []
  for await (const part of response) parts.push(part as Buffer)
  return Buffer.concat(parts)
}

function parsed (bytes: Buffer): unknown {
  try { return JSON.parse(bytes.toString()) as unknown } catch { return undefined }
}

/** A node to which capability calls are sent; `revision` returns a capability's descriptor revision. */
export interface Host extends At { revision (name: string): string }

/** The body of a capability call. */
export function call (node: Host, name: string, payload: unknown, extra: Record<string,
  unknown> = {}): object {
  const [id, version] = name.split('@')
  return { capability_id: id, version, descriptor_revision: node.revision(name), payload, ...extra }
}

export interface Stream {
  status: number
  headers: IncomingHttpHeaders
  frames: AsyncGenerator<Frame>
  response: IncomingMessage
  /** Closes the connection before the stream ends. */
  abort (): void
}

/** Opens a stream of frames. Throws the error body if the node refuses. */
export async function stream (node: Host, name: string, payload: unknown, options: {
  extra?: Record<string, unknown>, token?: string | null
} = {}): Promise<Stream> {
  const response = await open(node, '/v1/capabilities/stream', {
    body: call(node, name, payload, options.extra), headers: { accept: 'application/vnd.svc.frames' },
    ...(options.token === undefined ? {} : { token: options.token })
  })
  response.on('error', () => {})
  if (response.statusCode !== 200) {
    const text = (await readBody(response)).toString()
    throw Object.assign(new Error(`${response.statusCode}: ${text}`), { status: response.statusCode, text })
  }
  return {
    status: response.statusCode, headers: response.headers, response,
    frames: decodeFrames(response as AsyncIterable<Uint8Array>),
    abort () { response.destroy() }
  }
}

/** A whole stream: its frames, payload bytes and last frame, with the number of terminal frames. */
export interface StreamResult { frames: Frame[], bytes: Buffer, last: Frame | undefined, terminals: number,
  headers: IncomingHttpHeaders }

/** Reads a stream to its end; `terminals` is 0 if the connection breaks first. */
export async function readStream (opened: Stream): Promise<StreamResult> {
  const frames: Frame[] = []
  try {
    for await (const frame of opened.frames) frames.push(frame)
  } catch { /* cut: there is no terminal then */ }
  return {
    frames, headers: opened.headers, last: frames.at(-1),
    bytes: Buffer.concat(frames.flatMap((f) => f.media === null ? [] : [f.media])),
    terminals: frames.filter(({ header: { kind } }) => ['completed', 'failed',
      'cancelled'].includes(kind)).length
  }
}

/** Opens a stream and reads it to its end. */
export const streamed = async (node: Host, name: string, payload: unknown,
  options?: Parameters<typeof stream>[3]):
Promise<StreamResult> => await readStream(await stream(node, name, payload, options))

/** Limit in bytes on the text kept for a raw connection; the rest is only counted. */
const KEPT_BYTES = 64 * 1024

/** A raw TCP connection. `text` is the start of the received data, `bytes` the length of all of it. */
export interface Raw { socket: Socket, text (): string, bytes (): number, closed: Promise<void>,
  isClosed (): boolean }

export function dial (port: number, host = '127.0.0.1'): Promise<Raw> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host, allowHalfOpen: false })
    const parts: Buffer[] = []
    let bytes = 0
    let over = false
    const closed = new Promise<void>((done) => { socket.on('close', () => { over = true; done() }) })
    socket.on('data', (b: Buffer) => {
      if (bytes < KEPT_BYTES) parts.push(b)
      bytes += b.byteLength
    })
    socket.on('error', (error) => { if (socket.pending) reject(error) })
    socket.once('connect', () => {
      resolve({ socket, text: () => Buffer.concat(parts).toString(), bytes: () => bytes, closed,
        isClosed: () => over })
    })
  })
}

/** The head of an HTTP/1.1 request as text, with the operator's token. */
export const headOf = (
  at: { port: number, token: string }, method: string, path: string, fields: readonly string[] = []
): string => [
  `${method} ${path} HTTP/1.1`, `host: 127.0.0.1:${at.port}`, `authorization: Bearer ${at.token}`, ...fields,
  '', ''
].join('\r\n')
