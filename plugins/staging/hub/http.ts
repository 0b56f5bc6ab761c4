import { buffer } from 'node:stream/consumers'
import type { Dispatcher } from 'undici'
import { AddressRefused, hostProblem, outgoingDispatcher } from '../../../kernel/index.js'
import { statusError, type Headers } from './answers.js'
import { HubError, type HubClientOptions, type HubLimits, type HubReason } from './types.js'

const REDIRECTS = new Set([301, 302, 303, 307, 308])
const REDIRECT_BODY_BYTES = 65_536

export interface Get {
  url: URL
  what: string
  /** Request headers with lower-case names. */
  headers?: Record<string, string>
  signal?: AbortSignal | undefined
  /** Receives the headers of each success or redirect from the hub's own origin; may throw. */
  onHub?: (headers: Headers) => void
  /** Checks the head of the last response, before its body is read; throws to refuse it. */
  check?: (status: number, headers: Headers) => void
}

/** An open response; the receiver must read or destroy the body. */
interface Answer { status: number, headers: Headers, body: Dispatcher.ResponseData['body'] }

export class HubHttp {
  readonly #rules: HostRules
  readonly #agents: Record<'named' | 'public', Promise<Dispatcher>>
  readonly #options: HubClientOptions
  readonly #limits: HubLimits

  constructor (base: URL, options: HubClientOptions, limits: HubLimits) {
    this.#rules = new HostRules(base, options.redirectHosts)
    const timeouts = {
      connectMs: limits.connectMs, headersTimeout: limits.headersMs, bodyTimeout: limits.idleMs
    }
    const agentFor = async (trust: 'named' | 'public'): Promise<Dispatcher> =>
      await outgoingDispatcher(trust, { ...timeouts, lookup: options.lookup })
    this.#agents = { named: agentFor('named'), public: agentFor('public') }
    this.#options = options
    this.#limits = limits
  }

  async close (): Promise<void> {
    await Promise.all(Object.values(this.#agents).map(async (agent) => { await (await agent).destroy() }))
  }

  /**
   * Sends a GET and follows redirects manually: checks each target, and sends the token only to the hub's own
   * origin, never again after a redirect to another host. Throws HubError for anything but 2xx.
   */
  async #get (asked: Get): Promise<Answer> {
    const { token, clock, log } = this.#options
    let url = asked.url
    let authorization = this.#rules.isHub(url) && token !== undefined ? `Bearer ${token}` : undefined
    for (let hops = 0; hops <= this.#limits.redirects; hops++) {
      const trust = this.#rules.trust(url)
      const atHub = this.#rules.isHub(url)
      if (url.origin !== asked.url.origin) authorization = undefined
      const secret: Record<string, string> = authorization === undefined ? {} : { authorization }
      const answer = await send(url, await this.#agents[trust], { ...asked.headers, ...secret }, asked)
      const redirect = REDIRECTS.has(answer.status)
      const success = answer.status >= 200 && answer.status < 300
      try {
        if (!redirect && !success) {
          const about = { what: asked.what, host: url.host, atHub }
          throw statusError(answer.status, answer.headers, about, clock.now())
        }
        if (atHub) asked.onHub?.(answer.headers)
        if (success) {
          asked.check?.(answer.status, answer.headers)
          return answer
        }
        url = locationOf(answer, url, asked.what)
        log?.debug({ host: url.host, what: asked.what }, 'the hub redirects')
      } catch (error) {
        discard(answer)
        throw error
      }
      // Read the body instead of destroying it, so that the connection to the hub stays reusable.
      void answer.body.dump({ limit: REDIRECT_BODY_BYTES }).catch(() => undefined)
    }
    throw new HubError('refused_redirect', `${asked.what}: more than ${this.#limits.redirects} redirects`)
  }

  /** Streams a response body. Throws `too_long` above `mostBytes`. */
  async bytes (asked: Get, mostBytes: number): Promise<AsyncIterable<Uint8Array>> {
    return bodyOf(await this.#get(asked), mostBytes, asked)
  }

  libraryFetch (what: string, signal?: AbortSignal): typeof fetch {
    return async (input, init) => {
      const url = new URL(input instanceof Request ? input.url : input)
      const headers = Object.fromEntries(new Headers(init?.headers).entries())
      const answer = await this.#get({ what, signal, url, headers })
      const body = await buffer(bodyOf(answer, this.#limits.metadataBytes, { what, signal }))
      const answered = Object.entries(answer.headers).flatMap(([name, value]): [string, string][] =>
        value === undefined ? [] : [[name, String(value)]])
      return new Response(body.length === 0 ? null : new Uint8Array(body),
        { status: answer.status, headers: answered })
    }
  }
}

function discard (answer: Answer): void {
  // Ignore the error event that destroying an unread body emits.
  answer.body.on('error', () => undefined)
  answer.body.destroy()
}

async function send (
  { origin, pathname, search, host }: URL, dispatcher: Dispatcher, headers: Record<string, string>, asked: Get
): Promise<Answer> {
  try {
    const { statusCode, headers: answered, body } = await dispatcher.request({
      origin, path: pathname + search, method: 'GET',
      headers: { 'user-agent': 'svc', 'accept-encoding': 'identity', ...headers },
      signal: asked.signal ?? null
    })
    return { status: statusCode, headers: answered, body }
  } catch (error) {
    if (error instanceof AddressRefused) throw refused({ host }, error.why)
    throw wireError(error, `${asked.what} at ${host}`, asked.signal)
  }
}

function locationOf (answer: Answer, from: URL, what: string): URL {
  const location = answer.headers['location']
  if (typeof location !== 'string' || !URL.canParse(location, from.href)) {
    throw new HubError('bad_answer', `${what}: a redirect without a usable location`)
  }
  return new URL(location, from)
}

/** At most `mostBytes` of a response. Closes the connection if the reader stops early. */
async function * bodyOf (
  answer: Answer, mostBytes: number, { what, signal }: Pick<Get, 'what' | 'signal'>
): AsyncGenerator<Uint8Array, void, undefined> {
  let bytes = 0
  try {
    for await (const part of answer.body as AsyncIterable<Uint8Array>) {
      bytes += part.length
      if (bytes > mostBytes) {
        throw new HubError('too_long', `${what}: the response has more than ${mostBytes} bytes`)
      }
      yield part
    }
  } catch (error) {
    throw wireError(error, what, signal)
  } finally { discard(answer) }
}

const WIRE: Readonly<Record<string, [HubReason, string]>> = {
  UND_ERR_HEADERS_TIMEOUT: ['stalled', 'no response within the timeout'],
  UND_ERR_BODY_TIMEOUT: ['stalled', 'the response stalled'],
  UND_ERR_HEADERS_OVERFLOW: ['bad_answer', 'invalid HTTP response']
}

/** Maps a connection error to a HubError; returns the signal's reason if the signal caused it. */
function wireError (error: unknown, what: string, signal: AbortSignal | undefined): Error {
  if (signal?.aborted === true) return signal.reason as Error
  if (error instanceof HubError) return error
  const { code = '' } = error as NodeJS.ErrnoException
  // HTTPParserError may have no code, so recognise it by its name.
  const unparsable = error instanceof Error && error.name === 'HTTPParserError'
  const known = WIRE[unparsable ? 'UND_ERR_HEADERS_OVERFLOW' : code]
  if (known !== undefined) return new HubError(known[0], `${known[1]}: ${what}`, { cause: error })
  const why = code === '' ? String(error) : code
  return new HubError('unavailable', `connection failed (${why}): ${what}`, { cause: error })
}

export class HostRules {
  readonly #origin: string
  readonly #named: readonly string[]

  constructor (base: URL, redirectHosts: readonly string[]) {
    this.#origin = base.origin
    this.#named = redirectHosts.map((host) => host.toLowerCase())
  }

  isHub (url: URL): boolean { return url.origin === this.#origin }

  /** Checks a redirect URL; resolved IP addresses are checked later. Throws HubError `refused_redirect`. */
  trust (url: URL): 'named' | 'public' {
    if (url.protocol !== 'https:' && url.protocol !== 'http:') {
      throw refused(url, 'only http and https are allowed')
    }
    if (url.username !== '' || url.password !== '') throw refused(url, 'it has credentials')
    const names = [url.host, `${url.hostname}:${portOf(url)}`]
    const named = this.isHub(url) || names.some((name) => this.#named.includes(name))
    const known = named || this.#named.some((entry) => matchesPattern(entry, url))
    if (url.protocol === 'http:' && !known) throw refused(url, 'it is not https')
    const trust = named ? 'named' : 'public'
    const problem = hostProblem(url.hostname, trust)
    if (problem !== null) throw refused(url, problem)
    return trust
  }
}

const portOf = ({ port, protocol }: URL): string => port || (protocol === 'https:' ? '443' : '80')

/** `*.example.org` or `*.example.org:8443`: any subdomain, at the standard port or the given one. */
function matchesPattern (entry: string, url: URL): boolean {
  const match = /^\*(\.[^:]+)(?::(\d+))?$/.exec(entry)
  if (match === null) return false
  const [, suffix, port] = match
  return url.hostname.endsWith(suffix!) && (port === undefined ? url.port === '' : port === portOf(url))
}

function refused (url: { host: string }, why: string): HubError {
  return new HubError('refused_redirect', `the hub redirects to ${url.host}, which is refused: ${why}. ` +
    `If you trust it, add "${url.host}" to model_store.hub.redirect_hosts in svc.yaml`)
}
