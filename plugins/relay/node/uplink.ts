import { backoffMs, type Clock, type Identity, type Logger } from '../../../kernel/index.js'
import { dialRelay } from '../channel/secure.js'
import { claimBytes, closes, paths, purposes, readTexts, routeOf } from '../wire.js'
import type { WebSocket } from 'ws'

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
