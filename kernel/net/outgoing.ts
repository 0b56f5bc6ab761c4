/** Guards every connection from svc to a server that is neither a member nor a child process. */
import { lookup as systemLookup } from 'node:dns/promises'
import { Agent as PlainAgent } from 'node:http'
import { Agent as TlsAgent } from 'node:https'
import { addressProblem, hostProblem, isOwnPort, type Trust } from './addresses.js'
import type { LookupAddress } from 'node:dns'
import type { LookupFunction } from 'node:net'
import type { Agent, Dispatcher } from 'undici'

export type Lookup = (hostname: string) => Promise<LookupAddress[]>

/** Trust for all hosts, or by host (IPv6 without brackets) for requests that may be redirected. */
export type TrustOf = Trust | ((host: string) => Trust)

/** svc must not connect to this host; `host` is as requested. */
export class AddressRefused extends Error {
  override readonly name = 'AddressRefused'
  readonly host: string
  readonly why: string

  constructor (host: string, why: string) {
    super(`svc does not connect to ${host}: ${why}`)
    this.host = host
    this.why = why
  }
}

const lookupAll: Lookup = (hostname) => systemLookup(hostname, { all: true, verbatim: true })

const bare = (hostname: string): string => hostname.replace(/^\[|\]$/g, '')
const trustIn = (trust: TrustOf, host: string): Trust => typeof trust === 'string' ? trust : trust(bare(host))

/**
 * A DNS lookup that checks each address, so that a name cannot resolve to one address for the check and to
 * another for the connection. Throws AddressRefused for a host that is refused before its name is resolved.
 */
function checkedLookup (host: string, port: number, trustOf: TrustOf, resolve: Lookup): LookupFunction {
  const trust = trustIn(trustOf, host)
  const problemOf = (address: string): string | null => isOwnPort(address, port)
    ? `${address}:${port} is this node itself`
    : addressProblem(address, trust)
  const refusal = hostProblem(host, trust) ?? (isOwnPort(bare(host), port) ? problemOf(bare(host)) : null)
  if (refusal !== null) throw new AddressRefused(host, refusal)
  return (name, { all }, done) => {
    resolve(name).then((found) => {
      const problems = found.map(({ address }) => problemOf(address))
      // Skips refused addresses: mDNS names often have an unusable link-local one next to a usable one.
      const usable = found.filter((_, i) => problems[i] === null)
      const [wrong] = problems.filter((problem) => problem !== null)
      const [first] = usable
      if (wrong !== undefined && (trust === 'public' || first === undefined)) {
        throw new AddressRefused(host, wrong)
      }
      if (first === undefined) throw new Error(`${host} has no address`)
      if (all === true) done(null, usable)
      else done(null, first.address, first.family)
    }).catch((error: unknown) => { done(error as NodeJS.ErrnoException, []) })
  }
}

interface DispatcherOptions
  extends Pick<Agent.Options, 'headersTimeout' | 'bodyTimeout' | 'connections' | 'pipelining'> {
  lookup?: Lookup | undefined
  connectMs?: number
  /** True to refuse all protocols but https. */
  secure?: boolean
}

/**
 * Creates an undici dispatcher that guards requests and redirects. Behind HTTPS_PROXY the proxy resolves
 * names, so only the name itself is checked.
 */
export async function outgoingDispatcher (
  trust: TrustOf, { lookup = lookupAll, connectMs, secure, ...options }: DispatcherOptions = {}
): Promise<Dispatcher> {
  const { buildConnector, EnvHttpProxyAgent } = await import('undici')
  const agent = new EnvHttpProxyAgent({
    ...options, httpProxy: '',
    connect: (to, done) => {
      try {
        const port = Number(to.port) || (to.protocol === 'https:' ? 443 : 80)
        const checked = checkedLookup(to.hostname, port, trust, lookup)
        const timeout = connectMs === undefined ? {} : { timeout: connectMs }
        buildConnector({ lookup: checked, ...timeout })(to, done)
      } catch (error) {
        done(error as Error, null)
      }
    }
  })
  return agent.compose((dispatch) => (request, handler) => {
    const { hostname, protocol } = new URL(String(request.origin))
    const plain = secure === true && protocol !== 'https:' ? 'it is not https' : null
    const problem = plain ?? hostProblem(hostname, trustIn(trust, hostname))
    if (problem !== null) throw new AddressRefused(hostname, problem)
    return dispatch(request, handler)
  })
}

/** Agent for guarded `http.request`, `https.request` and WebSocket connections to a URL. */
export function outgoingAgent (url: URL | string, trust: TrustOf): PlainAgent {
  const secure = /^(https|wss):/.test(String(url))
  const agent = new (secure ? TlsAgent : PlainAgent)({ keepAlive: true })
  const connect = agent.createConnection.bind(agent)
  agent.createConnection = (options, done) => {
    try {
      const lookup = checkedLookup(options.host ?? 'localhost', Number(options.port), trust, lookupAll)
      return connect({ ...options, lookup }, done)
    } catch (error) {
      process.nextTick(() => done?.(error as Error, undefined as never))
      return undefined
    }
  }
  return agent
}
