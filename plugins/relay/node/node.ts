import { randomBytes } from 'node:crypto'
import { meetingOf } from '../relay-address.js'
import { answerDevice, dialRelay, type Channel } from '../channel/secure.js'
import { paths, writeHello, claimBytes, closes, purposes, readTexts, routeOf } from '../wire.js'
import { type Clock, type Logger, backoffMs, type Identity } from '../../../kernel/index.js'
import type { RelayContext } from '../manifest.js'
import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import type { Agreement } from '../channel/suite.js'

/** Time in ms without the relay after which the node raises a conflict. */
const ABSENT_CONFLICT_MS = 60_000

const NOWHERE = {
  url: null, route: null, connected: false, since: null, reason: null, connections: 0, streams: 0
}

/** Connects this node to the relay in its settings, and admits devices. */
export function startNode (ctx: RelayContext, chance: () => number) {
  const { clock, deps: { devices, identity, listeners }, log, settings: { relay: { url } } } = ctx
  if (url === null) return { view: () => NOWHERE }
  const inbound = new Inbound({
    url, own: { publicKey: identity.agreementKey, agree: (peer) => identity.agree(peer) }, clock, log,
    route: (): string => uplink.route, random: randomBytes, nodeId: ctx.node.nodeId,
    deviceWith: (key) => devices.deviceWith(key), stands: (id) => devices.stands(id),
    accept: (connection, from) => { listeners.accept(connection, from) }
  })
  const uplink = new Uplink({
    url, identity, clock, log, chance, device: (ticket) => { inbound.take(ticket) },
    changed: watchAway(ctx, url)
  })
  ctx.sections.relayMeetings.put('own', meetingOf(identity, url, ctx.node))
  ctx.effect('the relay', () => {
    uplink.stop()
    inbound.stop()
  })
  uplink.start()
  return { view: () => ({ url, route: uplink.route, ...uplink.state, ...inbound.counts }) }
}

/** Emits events when the relay is reached and lost, and raises a conflict after a long absence. */
function watchAway ({ clear, clock, emit, raise }: RelayContext, url: string): (state: UplinkState) => void {
  let stop: (() => void) | undefined
  let met = false
  return ({ connected, reason }) => {
    if (connected) {
      stop?.()
      stop = undefined
      met = true
      clear('relay_unreachable')
      emit('RelayConnected', { url })
      return
    }
    if (met) emit('RelayLost', { url, reason: reason ?? '' })
    met = false
    stop ??= clock.after(ABSENT_CONFLICT_MS, () => {
      raise('relay_unreachable',
        `${url}, for more than ${ABSENT_CONFLICT_MS / 1000} s: ${reason ?? 'no response'}`)
    })
  }
}

/** Maximum connections from one device; a new one closes the oldest. */
const PER_DEVICE = 8
/** Maximum connections in total, and from unproven devices, because a relay could open any number. */
const IN_ALL = 256
const UNPROVEN = 32
const CHECK_MS = 1000

interface InboundOptions {
  readonly url: string
  readonly route: () => string
  readonly own: Agreement, readonly clock: Clock, readonly log: Logger
  readonly random: (bytes: number) => Uint8Array
  /** Id of this process start, which devices include in the requests that they sign. */
  readonly nodeId: string
  /** Returns the id of the device with this X25519 key; undefined if it has no valid grant. */
  readonly deviceWith: (key: Uint8Array) => string | undefined
  readonly stands: (device: string) => boolean
  /** Serves HTTP on a stream. */
  readonly accept: (connection: Duplex, from: { device: string }) => void
}

class Inbound {
  readonly #options: InboundOptions
  /** Device ids of open connections, oldest first. */
  readonly #open = new Map<Channel, string>()
  readonly #sockets = new Set<WebSocket>()
  readonly #stopChecks: () => void

  constructor (options: InboundOptions) {
    this.#options = options
    this.#stopChecks = options.clock.every(CHECK_MS, () => { this.#checkGrants() })
  }

  get counts (): { connections: number, streams: number } {
    return {
      connections: this.#open.size,
      streams: [...this.#open.keys()].reduce((sum, { mux }) => sum + mux.size, 0)
    }
  }

  take (ticket: string): void {
    if (this.#sockets.size >= IN_ALL || this.#sockets.size - this.#open.size >= UNPROVEN) return
    const ws = dialRelay(this.#options.url, paths.accept, 10_000)
    this.#sockets.add(ws)
    ws.on('error', () => {})
    ws.once('close', () => { this.#sockets.delete(ws) })
    ws.once('open', () => {
      ws.send(JSON.stringify({ ticket }))
      // Log at debug level only, because connections without a valid device must not fill the log.
      this.#answer(ws).catch((err: unknown) => {
        this.#options.log.debug({ err }, 'a connection through the relay had no valid device')
      })
    })
  }

  stop (): void {
    this.#stopChecks()
    for (const ws of this.#sockets) ws.terminate()
  }

  async #answer (ws: WebSocket): Promise<void> {
    const { accept, clock, deviceWith, nodeId, own, random, route } = this.#options
    const channel = await answerDevice(ws, {
      clock, own, random, route: route(), admit: deviceWith, hello: () => writeHello(nodeId, clock.now()),
      accept: (stream, device) => { accept(stream, { device }) }
    })
    this.#open.set(channel, channel.device)
    const mine = [...this.#open].filter(([, device]) => device === channel.device)
    if (mine.length > PER_DEVICE) mine[0]![0].close(new Error('the device has opened newer connections'))
    await channel.ended
    this.#open.delete(channel)
  }

  #checkGrants (): void {
    for (const [channel, device] of this.#open) {
      if (!this.#options.stands(device)) channel.close(new Error('the grant of the device has ended'))
    }
  }
}

/** Backoff between dials, doubled after each failure and randomised so that nodes do not dial in step. */
const REDIAL = { minMs: 1000, maxMs: 30_000 }
/** Timeout in ms for connecting to the relay and claiming the route. */
const CLAIM_MS = 10_000
const SILENT_MS = 45_000
/** Time in ms for which a claimed route must last before the backoff is reset. */
const HELD_MS = 10_000

export interface UplinkOptions {
  /** URL of the relay: http(s) or ws(s), without a path. */
  readonly url: string
  readonly identity: Pick<Identity, 'publicKey' | 'sign'>
  readonly clock: Clock
  readonly log: Logger
  /** Random numbers, uniform in [0, 1), for the backoff. */
  readonly chance: () => number
  /** Called with the ticket of a device that waits at the relay. */
  readonly device: (ticket: string) => void
  readonly changed: (state: UplinkState) => void
}

export interface UplinkState {
  readonly connected: boolean
  /** Time at which this state began, ISO-8601. */
  readonly since: string
  /** Why the node is not connected; null while it is connected or the first dial is pending. */
  readonly reason: string | null
}

/** Maintains the connection on which the relay announces devices: redials if it is lost, until `stop`. */
export class Uplink {
  readonly route: string
  readonly #options: UplinkOptions
  #state: UplinkState
  #ws: WebSocket | undefined
  #failures = 0
  #stopTimer = (): void => {}
  #stopped = false

  constructor (options: UplinkOptions) {
    this.#options = options
    this.route = routeOf(options.identity.publicKey)
    this.#state = { connected: false, since: this.#now(), reason: null }
  }

  get state (): UplinkState { return this.#state }

  start (): void { if (!this.#stopped) this.#dial() }

  stop (): void {
    this.#stopped = true
    this.#stopTimer()
    this.#ws?.terminate()
  }

  #dial (): void {
    const { clock, url } = this.#options
    const ws = this.#ws = dialRelay(url, paths.node, CLAIM_MS)
    let why: string | undefined
    let claimedMs: number | undefined
    const watch = (ms: number, said: string): void => {
      this.#stopTimer()
      this.#stopTimer = clock.after(ms, () => {
        why ??= said
        ws.terminate()
      })
    }
    watch(CLAIM_MS, `no claim within ${CLAIM_MS / 1000} s`)
    const alive = (): void => {
      if (claimedMs !== undefined) watch(SILENT_MS, `silent for ${SILENT_MS / 1000} s`)
    }
    ws.on('error', ({ message }) => { why ??= message })
    ws.on('ping', alive)
    ws.on('message', (data: Buffer, binary: boolean) => {
      const [first] = [readTexts(data, binary, ['challenge'])]
      if (claimedMs === undefined && first !== undefined) this.#claim(ws, new URL(url).host, first.challenge)
      else if (claimedMs === undefined && readTexts(data, binary, ['route'])?.route === this.route) {
        claimedMs = clock.mono()
        this.#become({ connected: true, since: this.#now(), reason: null })
      } else {
        const ticket = claimedMs === undefined ? undefined : readTexts(data, binary, ['device'])?.device
        if (ticket === undefined) {
          why = 'it is not a relay of svc'
          ws.terminate()
          return
        }
        this.#options.device(ticket)
      }
      alive()
    })
    ws.once('close', (code: number) => {
      this.#stopTimer()
      if (this.#stopped) return
      if (claimedMs !== undefined && clock.mono() - claimedMs >= HELD_MS) this.#failures = 0
      this.#again(why ?? reasonOf(code))
    })
  }

  #claim (ws: WebSocket, host: string, challenge: string): void {
    const { publicKey, sign } = this.#options.identity
    ws.send(JSON.stringify({
      key: Buffer.from(publicKey).toString('base64url'),
      signature: Buffer.from(sign(purposes.claim, claimBytes(host, challenge))).toString('base64url')
    }))
  }

  #again (reason: string): void {
    this.#failures++
    const since = this.#state.connected ? this.#now() : this.#state.since
    this.#become({ connected: false, since, reason })
    const { chance, clock } = this.#options
    this.#stopTimer = clock.after(backoffMs(this.#failures, REDIAL, chance()), () => { this.#dial() })
  }

  #become (state: UplinkState): void {
    const before = this.#state
    this.#state = state
    if (before.connected !== state.connected || before.reason !== state.reason) this.#options.changed(state)
  }

  #now (): string { return new Date(this.#options.clock.now()).toISOString() }
}

function reasonOf (code: number): string {
  if (code === closes.unproven) return 'it refused the node\'s claim: does a proxy change the Host header?'
  if (code === closes.replaced) return 'another node connected with the same key'
  return code === 1006 ? 'the connection was cut' : `it closed the connection (${code})`
}
