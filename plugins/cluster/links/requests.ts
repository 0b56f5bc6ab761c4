import { Agent, request as httpRequest, type ClientRequest, type IncomingMessage } from 'node:http'
import {
  CALLER_HEADER, kernelError, writeCaller, type Clock, type MemberRequest, type MemberResponse, type NodeKey
} from '../../../kernel/cluster.js'
import { readAddress } from '../identity/addresses.js'
import { dial } from '../identity/tls.js'
import { dialReason, MEMBERS_HOST } from './dialler.js'
import { pipeline, type Duplex } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import type { Member } from '../members/member.js'
import type { LinkLimits } from './limits.js'

export interface RequestsOptions {
  key: NodeKey, clock: Clock, limits: LinkLimits
  member: (installId: string) => Member | undefined
  addresses: (installId: string) => readonly string[]
}

/** Errors of a reused connection that broke before the response arrived. */
const stale = new WeakSet<object>()

/** HTTP requests to members over connections whose key is checked before the first byte. */
export class Requests {
  readonly #options: RequestsOptions
  readonly #agents = new Map<string, MemberAgent>()

  constructor (options: RequestsOptions) { this.#options = options }

  async request (installId: string, request: MemberRequest): Promise<MemberResponse> {
    const member = this.#options.member(installId)
    if (installId === this.#options.key.installId || member === undefined) {
      throw kernelError('unreachable', `${installId} is not another member of this cluster.`)
    }
    const agent = this.#agents.get(installId) ?? new MemberAgent(member, this.#options)
    this.#agents.set(installId, agent)
    try {
      return await exchange(agent, request, this.#options)
    } catch (error) {
      // A reused connection may break because the other end restarted; repeating a read is harmless.
      if (request.method !== 'GET' || !stale.has(error as Error)) throw error
      return await exchange(agent, request, this.#options)
    }
  }

  /** Ends all requests to a member and closes its idle connections. */
  drop (installId: string): void {
    this.#agents.get(installId)?.stop()
    this.#agents.delete(installId)
  }

  /** Drops members that are gone or have another key; `keys`: fingerprints by install id. */
  keep (keys: ReadonlyMap<string, string>): void {
    for (const [installId, agent] of [...this.#agents]) {
      if (keys.get(installId) !== agent.fingerprint) this.drop(installId)
    }
  }

  close (): void { this.keep(new Map()) }
}

class MemberAgent extends Agent {
  readonly fingerprint: string
  readonly who: string
  readonly #installId: string
  readonly #options: RequestsOptions
  readonly #stop = new AbortController()

  constructor ({ installId, fingerprint, name }: Member, options: RequestsOptions) {
    const { requestSockets: maxSockets, idleMs: timeout } = options.limits
    super({ keepAlive: true, maxSockets, maxFreeSockets: 8, timeout })
    this.fingerprint = fingerprint
    this.#installId = installId
    this.who = `Node ${name}`
    this.#options = options
  }

  override createConnection (
    _options: unknown, done: (error: Error | null, socket?: Duplex) => void
  ): undefined {
    this.#dial().then((socket) => { done(null, socket) }, done)
  }

  stop (): void {
    this.#stop.abort()
    this.destroy()
  }

  /** Connects to the first address that answers with the member's key. */
  async #dial (): Promise<TLSSocket> {
    const { key, clock, limits, addresses } = this.#options
    const failures: { address: string, reason: string }[] = []
    for (const address of addresses(this.#installId)) {
      const at = readAddress(address)
      if (at === undefined || this.#stop.signal.aborted) continue
      try {
        return await dial({
          key, ...at, expect: this.fingerprint, timeoutMs: limits.dialMs, clock, signal: this.#stop.signal
        })
      } catch (error) { failures.push({ address, reason: dialReason(error) }) }
    }
    const list = failures.map(({ address, reason }) => `${address} ${reason}`).join(', ')
    throw kernelError('unreachable',
      `${this.who} cannot be reached: ${list === '' ? 'no address is known' : list}.`,
      { addresses: failures, begun: false })
  }
}

function headersOf (request: MemberRequest, body: string | undefined): Record<string, string> {
  const headers = Object.fromEntries(
    Object.entries(request.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]))
  headers['host'] = MEMBERS_HOST
  headers[CALLER_HEADER] = writeCaller(request.caller)
  delete headers['connection']
  delete headers['transfer-encoding']
  delete headers['content-length']
  if (request.upload !== undefined) headers['content-type'] = request.upload.type
  if (body === undefined) return headers
  headers['content-type'] = 'application/json'
  headers['content-length'] = String(Buffer.byteLength(body))
  return headers
}

function exchange (
  agent: MemberAgent, request: MemberRequest, { clock, limits }: RequestsOptions
): Promise<MemberResponse> {
  const { signal, method } = request
  const timeoutMs = request.timeoutMs ?? limits.requestHeadMs
  const body = request.body === undefined ? undefined : JSON.stringify(request.body)
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(kernelError('cancelled'))
      return
    }
    const path = `/api${request.path}`
    const call = httpRequest({ agent, method, path, headers: headersOf(request, body) })
    let response: IncomingMessage | undefined
    const onAbort = (): void => { (response ?? call).destroy(kernelError('cancelled')) }
    const stopTimer = clock.after(timeoutMs, () => {
      call.destroy(kernelError('timeout', `${agent.who} did not respond to ${method} ${request.path} ` +
      `within ${timeoutMs} ms.`))
    })
    signal?.addEventListener('abort', onAbort, { once: true })
    call.once('close', () => {
      stopTimer()
      signal?.removeEventListener('abort', onAbort)
    })
    call.on('error', (error) => { reject(failure(agent.who, call, error)) })
    call.once('response', (head: IncomingMessage) => {
      stopTimer()
      response = head
      // Without this, a connection that breaks after the caller stops reading would crash the process.
      head.on('error', () => {})
      head.once('close', () => { if (!call.writableEnded) call.destroy() })
      resolve({ status: head.statusCode!, headers: plainHeaders(head), body: head })
    })
    if (request.upload === undefined) call.end(body)
    else pipeline(request.upload.bytes, call, () => {})
  })
}

function failure (who: string, call: ClientRequest, error: Error): Error {
  if (error.name === 'SvcError') return error
  const { code } = error as NodeJS.ErrnoException
  const lost = kernelError('unreachable',
    `${who} closed the connection before it responded (${code ?? error.message}).`)
  if (call.reusedSocket) stale.add(lost)
  return lost
}

function plainHeaders ({ headers }: IncomingMessage): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, [value].flat().join(', ')]]))
}
