import { Readable } from 'node:stream'
import { request } from 'undici'
import type { Agent, Dispatcher } from 'undici'
import { statusError } from './answers.js'
import type { Headers } from './answers.js'
import { HubError } from './types.js'
import type { HostRules, Trust } from './hosts.js'

const REDIRECTS = new Set([301, 302, 303, 307, 308])
const REDIRECT_BODY_BYTES = 65_536

/** One GET with its redirects. */
export interface Get {
  url: URL
  /** What is asked for, in words for messages. */
  what: string
  /** Lower-case names. */
  headers?: Record<string, string>
  signal?: AbortSignal | undefined
  /** Told the headers of each answer of the hub's own origin that is a success or a redirect. */
  onHub?: (headers: Headers) => void
}

/** A successful answer. Its body must be read or destroyed. */
export interface Answer { status: number, headers: Headers, body: Dispatcher.ResponseData['body'] }

/** What GETs go through. */
export interface Wire {
  rules: HostRules
  agents: Record<Trust, Agent>
  token: string | undefined
  /** Redirects followed. */
  redirects: number
  /** Wall time, milliseconds. */
  now: () => number
  /** Told each host a redirect leads to. */
  onRedirect: (host: string, what: string) => void
}

/**
 * Sends a GET and follows redirects by hand: each target is judged, and the token goes to the hub's own
 * origin only, never again once a redirect has left it. Throws HubError for anything but 2xx.
 */
export async function get (wire: Wire, asked: Get): Promise<Answer> {
  let url = asked.url
  const { authorization: given, ...headers } = asked.headers ?? {}
  // The hub's token, or one that a store of the hub's was given for itself: each for where it begins.
  let authorization = wire.rules.isHub(url) && wire.token !== undefined ? `Bearer ${wire.token}` : given
  for (let hops = 0; hops <= wire.redirects; hops++) {
    const trust = wire.rules.trust(url)
    const atHub = wire.rules.isHub(url)
    if (url.origin !== asked.url.origin) authorization = undefined
    const secret: Record<string, string> = authorization === undefined ? {} : { authorization }
    const answer = await send(url, wire.agents[trust], { ...headers, ...secret }, asked)
    const redirect = REDIRECTS.has(answer.status)
    const keep = answer.status >= 200 && answer.status < 300
    try {
      if (!redirect && !keep) {
        const ask = { what: asked.what, host: url.host, atHub }
        throw statusError(answer.status, answer.headers, ask, wire.now())
      }
      if (atHub) asked.onHub?.(answer.headers)
      if (keep) return answer
      url = locationOf(answer, url, asked.what)
      wire.onRedirect(url.host, asked.what)
    } catch (error) {
      discard(answer)
      throw error
    }
    // Read to its end, not destroyed: the connection to the hub is used for every file.
    void answer.body.dump({ limit: REDIRECT_BODY_BYTES }).catch(() => undefined)
  }
  throw new HubError('refused_redirect', `${asked.what}: more than ${wire.redirects} redirects`)
}

/** Drops an answer's body and its connection. */
export function discard (answer: Answer): void {
  // Destroying an unread body makes it emit an error that nobody needs.
  answer.body.on('error', () => undefined)
  answer.body.destroy()
}

async function send (
  url: URL, dispatcher: Agent, headers: Record<string, string>, asked: Get
): Promise<Answer> {
  try {
    const { statusCode, headers: answered, body } = await request(url, {
      dispatcher,
      headers: { 'user-agent': 'svc', 'accept-encoding': 'identity', ...headers },
      signal: asked.signal ?? null
    })
    return { status: statusCode, headers: answered, body }
  } catch (error) {
    throw wireError(error, `${asked.what} at ${url.host}`, asked.signal)
  }
}

function locationOf (answer: Answer, from: URL, what: string): URL {
  const location = answer.headers['location']
  if (typeof location !== 'string' || !URL.canParse(location, from.href)) {
    throw new HubError('bad_answer', `${what}: a redirect without a usable location`)
  }
  return new URL(location, from)
}

/**
 * The bytes of an answer, at most so many. Throws HubError `too_long` or what became of the connection, which
 * goes when the reader stops early.
 */
export async function * bodyOf (
  answer: Answer, mostBytes: number, { what, signal }: Pick<Get, 'what' | 'signal'>
): AsyncGenerator<Uint8Array, void, undefined> {
  let bytes = 0
  try {
    for await (const part of answer.body as AsyncIterable<Uint8Array>) {
      bytes += part.length
      if (bytes > mostBytes) throw new HubError('too_long', `${what}: the answer is over ${mostBytes} bytes`)
      yield part
    }
  } catch (error) {
    throw wireError(error, what, signal)
  } finally {
    discard(answer)
  }
}

/** A `fetch` for the hub's library, and what ends the connections it left open. */
export interface LibraryFetch { fetch: typeof fetch, failure (): HubError | null, end (): void }

/**
 * A `fetch` that asks as `get` does, with its checks, and reads at most `mostBytes` of each answer. In places
 * the library hides what `fetch` throws: `failure` is the first such error.
 */
export function libraryFetch (
  wire: Wire, asked: Omit<Get, 'url' | 'headers'>, mostBytes: number
): LibraryFetch {
  const open = new Set<Answer>()
  let failure: HubError | null = null
  const note = (error: unknown): never => {
    if (error instanceof HubError) failure ??= error
    throw error
  }
  async function * read (answer: Answer): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      yield * bodyOf(answer, mostBytes, asked)
    } catch (error) {
      note(error)
    }
  }
  const ask = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const url = new URL(input instanceof Request ? input.url : input)
    const headers = Object.fromEntries(new Headers(init?.headers).entries())
    const answer = await get(wire, { ...asked, url, headers }).catch(note)
    open.add(answer)
    const body = answer.status === 204 ? null : Readable.toWeb(Readable.from(read(answer)))
    const told = Object.entries(answer.headers).flatMap(([name, value]): [string, string][] =>
      value === undefined ? [] : [[name, String(value)]])
    return new Response(body as ReadableStream<Uint8Array> | null, { status: answer.status, headers: told })
  }
  return {
    fetch: ask,
    failure: () => failure,
    end: () => { for (const answer of open) discard(answer) }
  }
}

/** What a failed connection means; the signal's own reason when that was the cause. */
export function wireError (error: unknown, what: string, signal: AbortSignal | undefined): Error {
  if (signal?.aborted === true) return signal.reason as Error
  if (error instanceof HubError) return error
  const code = codeOf(error)
  if (code === 'UND_ERR_HEADERS_TIMEOUT') {
    return new HubError('stalled', `no answer in time: ${what}`, { cause: error })
  }
  if (code === 'UND_ERR_BODY_TIMEOUT') {
    return new HubError('stalled', `the bytes stopped coming: ${what}`, { cause: error })
  }
  // An HTTPParserError has no code of its own when the parser gives none.
  const unparsable = error instanceof Error && error.name === 'HTTPParserError'
  if (unparsable || code === 'UND_ERR_HEADERS_OVERFLOW') {
    return new HubError('bad_answer', `no proper HTTP answer: ${what}`, { cause: error })
  }
  const why = code === '' ? String(error) : code
  return new HubError('unavailable', `no connection, or one that broke (${why}): ${what}`, { cause: error })
}

/** The code of an error, or of one inside an AggregateError (all addresses of a host failed). */
function codeOf (error: unknown): string {
  if (!(error instanceof Error)) return ''
  const { code } = error as NodeJS.ErrnoException
  if (typeof code === 'string') return code
  return error instanceof AggregateError ? codeOf(error.errors[0]) : ''
}
