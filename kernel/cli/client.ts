import { request as httpRequest } from 'node:http'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { IncomingHttpHeaders, IncomingMessage, RequestOptions } from 'node:http'
import type { TrustingAgent, TrustOptions } from './trust.js'
import { orElse } from '../api/schema.js'
import { startTicks } from '../boot/home.js'
import { apiFailure, CliError, exitCodes, interrupted, readApiError } from './errors.js'

/** An answer whose body has not been read yet. Reading it throws CliError if the connection breaks. */
export interface ClientResponse {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly bytes: AsyncIterable<Uint8Array>
}

export interface ClientRequest {
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Request body, sent as JSON. */
  body?: unknown
  /** Request body of a media type, sent as it arrives, so the request cannot be repeated or signed. */
  upload?: { type: string, bytes: AsyncIterable<Uint8Array> }
  accept?: string
  signal?: AbortSignal
}

/** Client for a node's API. Methods throw CliError; its exit status is 7 if no answer comes. */
export interface Client {
  readonly url: string
  /** Sent as a bearer token with every request. */
  readonly token: string | undefined
  /** Agent for https WebSockets; undefined for http, which needs none. Throws CliError. */
  agent (): Promise<TrustingAgent | undefined>
  json<T = unknown> (path: string, ask?: ClientRequest): Promise<T>
  open (path: string, ask?: ClientRequest): Promise<ClientResponse>
  /** Authorization header for a WebSocket at this path; undefined without a credential. */
  credential (path: string): Promise<string | undefined>
}

/** Signs requests; `correct` adapts to the details of a refusal and returns whether to try again. */
export interface Signing {
  /** The Authorization header; `target` is the path and query exactly as sent. */
  authorization (method: string, target: string, body: Uint8Array<ArrayBuffer> | undefined): Promise<string>
  correct (details: unknown): Promise<boolean>
}

export interface ClientOptions {
  url: string
  token: string | undefined
  /** Path to the token's file if the token is the operator token of a local home. */
  tokenFile?: string | undefined
  /** Signs requests if there is no token. */
  signing?: (() => Promise<Signing | undefined>) | undefined
  /** Called after each successful answer. */
  answered?: () => void
  signal: AbortSignal
  trust: TrustOptions
  /** Idle time in ms after which the client checks that the node still answers; default 30,000. */
  quietMs?: number
}

const QUIET_MS = 30_000
/** Time limit in ms for checking that an idle node still answers. */
const SIGN_MS = 10_000

const BODY_LIMIT = 256 * 1024 * 1024

/** Throws CliError (2) for an invalid URL. */
export function createClient (options: ClientOptions): Client {
  const { answered, url, token, signal: outer, trust, quietMs: quiet = QUIET_MS } = options
  const base = parseBase(url)
  const addressOf = (path: string): URL => new URL(`${base.pathname.replace(/\/$/, '')}${path}`, base)
  let made: Promise<TrustingAgent> | undefined
  const agent = async (): Promise<TrustingAgent | undefined> => base.protocol !== 'https:'
    ? undefined
    : await (made ??= import('./trust.js').then(({ TrustingAgent }) => new TrustingAgent(base, trust)))
  let signer: Promise<Signing | undefined> | undefined
  const signing = async (): Promise<Signing | undefined> => await (signer ??= options.signing?.())
  const authorize = async (method: string, target: string, body?: Buffer<ArrayBuffer>) =>
    token === undefined ? await (await signing())?.authorization(method, target, body) : `Bearer ${token}`
  const attempt = async (path: string, ask: ClientRequest): Promise<ClientResponse> => {
    const signal = ask.signal === undefined ? outer : AbortSignal.any([outer, ask.signal])
    const body = ask.body === undefined ? undefined : Buffer.from(JSON.stringify(ask.body))
    const to = addressOf(path)
    const { upload, method = body === undefined && upload === undefined ? 'GET' : 'POST' } = ask
    const through = await agent()
    const authorization = await authorize(method, to.pathname + to.search, body)
    const response = await send(to, {
      method, signal, agent: through, timeout: quiet,
      headers: {
        accept: ask.accept ?? 'application/json',
        ...(body === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': body.byteLength }),
        ...(upload === undefined ? {} : { 'content-type': upload.type }),
        ...(authorization === undefined ? {} : { authorization })
      }
    }, upload?.bytes ?? body, () => isThere(addressOf('/healthz'), through, Math.min(quiet, SIGN_MS)))
      .catch((error: unknown) => { throw noAnswer(error, base, outer) })
    const status = response.statusCode ?? 0
    const bytes = guarded(response, base, outer)
    if (status >= 200 && status < 300) {
      answered?.()
      return { status, headers: response.headers, bytes }
    }
    const text = await readText(bytes)
    if (status === 401 && options.tokenFile !== undefined) throw notTaken(base, options.tokenFile)
    throw apiFailure(status, readApiError(text), text, response.headers)
  }
  const open = async (path: string, ask: ClientRequest = {}): Promise<ClientResponse> => {
    try {
      return await attempt(path, ask)
    } catch (error) {
      // The refusal contains the node's current id and time, with which a second attempt may succeed.
      const { api } = error as Partial<CliError>
      const final = token !== undefined || ask.upload !== undefined
      if (final || await (await signing())?.correct(api?.details) !== true) throw error
      return await attempt(path, ask)
    }
  }
  return {
    url: base.href.replace(/\/$/, ''), token, agent, open,
    async credential (path) {
      // A refused WebSocket gives no reason, so a plain request corrects the signer's id and clock first.
      if (token === undefined && await signing() !== undefined) await open('/node_id')
      return await authorize('GET', `${base.pathname.replace(/\/$/, '')}${path}`)
    },
    async json<T> (path: string, ask?: ClientRequest) {
      const text = await readText((await open(path, ask)).bytes)
      try {
        return JSON.parse(text) as T
      } catch {
        throw new CliError(exitCodes.failed,
          `${base.origin}${path} did not answer with JSON; is it an svc node?`)
      }
    }
  }
}

function parseBase (url: string): URL {
  const base = URL.canParse(url) ? new URL(url) : undefined
  if (base === undefined || (base.protocol !== 'http:' && base.protocol !== 'https:')) {
    throw new CliError(exitCodes.usage,
      `"${url}" is not an address such as http://127.0.0.1:52415 (--url, SVC_URL)`)
  }
  return base
}

/** Has no time limit while the node is alive, since the node itself limits how long each answer takes. */
async function send (
  url: URL, options: RequestOptions, body: Buffer | AsyncIterable<Uint8Array> | undefined,
  isThere: () => Promise<boolean>
): Promise<IncomingMessage> {
  const request = url.protocol === 'https:' ? (await import('node:https')).request : httpRequest
  return await new Promise((resolve, reject) => {
    let response: IncomingMessage | undefined
    const outgoing = request(url, options, (found) => { resolve(response = found) })
    outgoing.on('error', reject)
    const ask = (): void => {
      void isThere().then((there) => {
        const waiting = response ?? outgoing
        if (there) outgoing.socket?.setTimeout(options.timeout!)
        else waiting.destroy(new CliError(exitCodes.unreachable,
          `the node at ${url.origin} gives no sign of life; \`svc doctor\` checks for problems`))
      })
    }
    // Listens on the socket, because the request itself emits `timeout` only once.
    outgoing.on('socket', (socket) => {
      socket.on('timeout', ask)
      outgoing.on('close', () => { socket.off('timeout', ask) })
    })
    if (body === undefined || Buffer.isBuffer(body)) outgoing.end(body)
    // A server that refuses the body closes the connection; its answer, if any, tells why.
    else pipeline(body, outgoing).catch(() => {})
  })
}

/** Whether a node answers at the address within `ms`, with any status. */
const isThere = (url: URL, agent: RequestOptions['agent'], ms: number): Promise<boolean> =>
  send(url, { agent, signal: AbortSignal.timeout(ms) }, undefined, async () => false)
    .then((found) => { found.resume(); return true }, () => false)

const notTaken = (base: URL, file: string): CliError => new CliError(exitCodes.auth,
  `the node at ${base.origin} does not accept the token in ${file}: it is damaged, was replaced, or this ` +
  'user cannot read it. Stop the node and remove the file; the next start creates a new one', { status: 401 })

async function * guarded (
  response: IncomingMessage, base: URL, signal: AbortSignal
): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of response) yield chunk as Uint8Array
  } catch (error) {
    if (signal.aborted) throw interrupted()
    if (error instanceof CliError) throw error
    throw new CliError(exitCodes.failed,
      `the node at ${base.origin} ended the answer early; its log has the reason`)
  }
}

async function readText (bytes: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of bytes) {
    size += part.length
    if (size > BODY_LIMIT) throw new CliError(exitCodes.failed, `the answer exceeds ${BODY_LIMIT} bytes`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}

function noAnswer (error: unknown, base: URL, signal: AbortSignal): CliError {
  if (signal.aborted) return interrupted()
  if (error instanceof CliError) return error
  const { code, message } = error as NodeJS.ErrnoException
  const cause = code === 'ECONNREFUSED' ? 'nothing listens there'
    : code === 'EPROTO' || code?.startsWith('ERR_SSL_') === true ? `the server does not speak TLS (${code})`
      : message === '' ? String(code) : message
  return new CliError(exitCodes.unreachable,
    `no node answers at ${base.origin}: ${cause}; start one with \`svc up\`, or choose another with --url`)
}

export function isLoopbackUrl (url: string): boolean {
  if (!URL.canParse(url)) return false
  const { hostname } = new URL(url)
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(hostname)
}

const DEFAULT_URL = 'http://127.0.0.1:52415'

interface Running {
  url: string
  /** Fingerprint of the node's TLS key. */
  fingerprint: string | undefined
  processes: { pid: number, startTicks: string | null }[]
}

/** Contents of run/node.json, which a running node writes; undefined if there is none. */
function runningAt (home: string): Running | undefined {
  return orElse(undefined, () => {
    const text = readFileSync(join(home, 'run', 'node.json'), 'utf8')
    const { format, url, fingerprint, processes = [] } =
      JSON.parse(text) as Partial<Running & { format: unknown }>
    return format === 1 && typeof url === 'string' ? { url, fingerprint, processes } : undefined
  })
}

/** Whether the node's process, or its launcher during a restart, is still running. */
function isAlive ({ processes }: Running): boolean {
  return processes.some(({ pid, startTicks: since }) =>
    orElse(false, () => process.kill(pid, 0) && startTicks(pid) === since))
}

function devHomes (home: string): string[] {
  return orElse<string[]>([], () => readdirSync(join(home, 'dev'))).filter((name) => /^node\d+$/.test(name))
    .sort((a, b) => Number(a.slice(4)) - Number(b.slice(4))).map((name) => join(home, 'dev', name))
}

/** Address of this home's running node, else of the first node of its `svc dev`, else the default address. */
export function runningUrl (home: string): string {
  const own = runningAt(home)
  if (own !== undefined) return own.url
  const dev = devHomes(home).map(runningAt).find((node) => node !== undefined && isAlive(node))
  return dev?.url ?? DEFAULT_URL
}

/** The home whose running node has this address: this home, or that of one of its `svc dev` nodes. */
export function ownHome (home: string, url: string): string | undefined {
  const at = url.replace(/\/$/, '')
  return [home, ...devHomes(home)].find((one) => {
    const node = runningAt(one)
    return node?.url === at && isAlive(node)
  })
}

/**
 * The operator token of this home, or of its `svc dev` node at this address. Only for a running node's
 * address, so that no other listener gets the token. Undefined if it cannot be read.
 */
export function ownToken (home: string, url: string): string | undefined {
  const holder = ownHome(home, url)
  if (holder === undefined) return undefined
  return orElse('', () => readFileSync(join(holder, 'operator.token'), 'utf8').trim()) || undefined
}

/** Fingerprint of this home's node, or its `svc dev` node, at this https address; otherwise undefined. */
export function ownFingerprint (home: string, url: string): string | undefined {
  const holder = ownHome(home, url)
  return holder === undefined ? undefined : runningAt(holder)?.fingerprint
}
