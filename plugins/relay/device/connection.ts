import { once } from 'node:events'
import { request, type IncomingMessage, type RequestOptions } from 'node:http'
import { text } from 'node:stream/consumers'
import { x25519, kernelError, type Clock } from '../../../kernel/index.js'
import { RequestSigner } from '../../devices/signing/signer.js'
import { callNode, dialRelay, type Channel, type PulseTimes } from '../channel/secure.js'
import { routeAt, type RelayAddress } from '../relay-address.js'
import { closes, paths, readHello } from '../wire.js'
import type { DeviceKeys } from '../../devices/signing/device.js'
import type { MuxStream } from '../channel/stream.js'
import type { AskAsDevice, KnownRelays } from './known.js'

const DIAL_MS = 10_000
/** Seconds before its expiry at which a bearer token is renewed. */
const EARLY_SECONDS = 120

export interface LineOptions {
  readonly keys: DeviceKeys
  /** The stored relay addresses of the cluster, read before each dial and tried in order. */
  readonly known: () => KnownRelays
  /** Called when a node has proven its key and may be asked for new relay addresses. */
  readonly reached?: (ask: AskAsDevice) => Promise<unknown>
  readonly clock: Clock
  readonly random: (bytes: number) => Uint8Array
  /** Keep-alive times; `pulseTimes` by default. */
  readonly pulse?: PulseTimes
}

export interface RelayTransport {
  readonly meeting: RelayAddress
  readonly channel: Channel
  /** The bearer token for requests to this node; renewed before it expires. */
  bearer (): Promise<string>
}

/** Connects the device to its cluster through one node, and through another node if that connection ends. */
export class RelayConnection {
  readonly #options: LineOptions
  #transport: Promise<RelayTransport> | undefined
  #closed = false

  constructor (options: LineOptions) { this.#options = options }

  /** Returns the open connection or dials a node. Throws `unreachable` with the result of each attempt. */
  async transport (): Promise<RelayTransport> {
    if (this.#closed) throw kernelError('shutting_down')
    return await (this.#transport ??= this.#begin())
  }

  close (): void {
    this.#closed = true
    this.#transport?.then(({ channel }) => { channel.close(new Error('closed by this device')) }, () => {})
  }

  #begin (): Promise<RelayTransport> {
    const transport = this.#dialAny()
    const over = (): void => { if (this.#transport === transport) this.#transport = undefined }
    transport.then(async ({ channel }) => { await channel.ended }).then(over, over)
    return transport
  }

  async #dialAny (): Promise<RelayTransport> {
    const tried: string[] = []
    for (const meeting of this.#options.known().meetings) {
      try {
        return await this.#dial(meeting)
      } catch (error) {
        tried.push(`${meeting.name} at ${meeting.url}: ${(error as Error).message}`)
      }
    }
    const unknown = 'This device has no relay address: set relay.url on a node, then run ' +
      '`svc --url URL status` where the node is reachable directly.'
    throw kernelError('unreachable', tried.length === 0 ? unknown : `No node answers. ${tried.join('; ')}`)
  }

  async #dial (meeting: RelayAddress): Promise<RelayTransport> {
    const { clock, keys: { agreement }, pulse, random } = this.#options
    const ws = dialRelay(meeting.url, paths.device, DIAL_MS)
    ws.on('error', () => {})
    await once(ws, 'open')
    let closed: number | undefined
    ws.once('close', (code: number) => { closed = code })
    const route = routeAt(meeting)
    ws.send(JSON.stringify({ route }))
    const channel = await callNode(ws, {
      clock, random, route, nodeKey: Buffer.from(meeting.agreementKey, 'base64url'),
      own: { publicKey: agreement.publicKey, agree: (peer) => x25519(agreement.privateKey, peer) },
      ...pulse === undefined ? {} : { pulse }
    }).catch((error: unknown) => {
      throw closed === closes.nobody ? new Error('the node is not connected to the relay') : error
    })
    const transport = { meeting, channel, bearer: this.#bearers(channel, readHello(channel.hello)) }
    await transport.bearer().catch((error: unknown) => {
      channel.close(new Error('the node issued no bearer token'))
      throw error
    })
    this.#options.reached?.((path) => askOver(transport, path)).catch(() => {})
    return transport
  }

  /** Returns a function that supplies the bearer token and requests a new one before it expires. */
  #bearers (channel: Channel, hello: ReturnType<typeof readHello>): () => Promise<string> {
    const { clock, keys, known } = this.#options
    const seen = hello && { nodeId: hello.nodeId, aheadMs: hello.timeMs - clock.now() }
    const signer = new RequestSigner({
      keys, seen, now: () => clock.now(), fingerprints: known().fingerprints
    })
    let held: { token: Promise<string>, untilMs: number } | undefined
    const fetch = (): NonNullable<typeof held> => {
      const mine = {
        untilMs: Infinity,
        token: session(channel, signer).then(({ token, expiresInSeconds }) => {
          mine.untilMs = clock.mono() + (expiresInSeconds - EARLY_SECONDS) * 1000
          return token
        })
      }
      mine.token.catch(() => { if (held === mine) held = undefined })
      return mine
    }
    return async () => {
      if (held === undefined || clock.mono() >= held.untilMs) held = fetch()
      return await held.token
    }
  }
}

interface Session { readonly token: string, readonly expiresInSeconds: number }
interface Refusal { readonly error?: { readonly message: string, readonly details?: unknown } }

const SESSION = '/v1/devices/session'

/** Requests a bearer token; after a refusal with a signed time correction, applies it and retries once. */
async function session (channel: Channel, signer: RequestSigner): Promise<Session> {
  const body = Buffer.from('{}')
  for (let attempt = 0; ; attempt++) {
    const authorization = await signer.authorization('POST', SESSION, body)
    const headers = { 'content-type': 'application/json', 'content-length': body.length, authorization }
    const said = await exchange<Session>(channel, { method: 'POST', path: SESSION, headers }, body)
    if (said.error === undefined) return said
    if (attempt > 0 || !await signer.correct(said.error.details)) {
      throw kernelError('unauthenticated', said.error.message)
    }
  }
}

export const carrier = (stream: MuxStream): () => MuxStream => () => stream

async function exchange<T> (
  { mux }: Channel, { headers, ...options }: RequestOptions, body?: Uint8Array
): Promise<T & Refusal> {
  const createConnection = carrier(await mux.open())
  const call = request({ ...options, createConnection, headers: { host: 'relay', ...headers as object } })
  // Ignores the extra `error` event that is emitted if the connection is lost during the response.
  call.on('error', () => {}).end(body)
  const [response] = await once(call, 'response') as [IncomingMessage]
  return JSON.parse(await text(response)) as T & Refusal
}

/** Sends a GET request to the connected node. */
async function askOver<T> ({ bearer, channel }: RelayTransport, path: string): Promise<T> {
  const authorization = `Bearer ${await bearer()}`
  const said = await exchange<T>(channel, { path, headers: { authorization } })
  if (said.error !== undefined) throw kernelError('unreachable', said.error.message)
  return said
}
