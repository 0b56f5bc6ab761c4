import { createHash } from 'node:crypto'
import { claimBytes, closes, provenRoute, readTexts, SECRET_BYTES } from '../wire.js'
import { Bucket, type RelayLimits } from './limits.js'
import type { WebSocket } from 'ws'
import type { Clock } from '../../../kernel/index.js'

interface RelayRouterOptions {
  readonly clock: Clock
  readonly limits: RelayLimits
  readonly random: (bytes: number) => Uint8Array
}

/** A route, kept while its node or any device is connected. */
interface Route {
  node: WebSocket | undefined
  /** Bandwidth budget shared by all devices of the route. */
  readonly budget: Bucket
  /** Number of connected and waiting devices. */
  devices: number
}

interface Waiting {
  readonly ws: WebSocket
  readonly route: Route
  /** Data from the device before the node accepts it; at most the handshake message. */
  readonly held: readonly Uint8Array[]
  readonly stop: () => void
}

export type Refusal = keyof typeof closes

/** Connects devices with nodes. Looks up hashes of routes and tickets, so that timing reveals nothing. */
export class RelayRouter {
  readonly #options: RelayRouterOptions
  readonly #routes = new Map<string, Route>()
  readonly #waiting = new Map<string, Waiting>()
  readonly traffic: Traffic = { messages: 0, bytes: 0, queued: 0 }
  readonly refused: Record<Refusal, number> = { wrong: 0, unproven: 0, nobody: 0, replaced: 0, full: 0 }
  #joined = 0

  constructor (options: RelayRouterOptions) { this.#options = options }

  get counts (): { nodes: number, devices: number, waiting: number } {
    const nodes = [...this.#routes.values()].filter(({ node }) => node !== undefined).length
    return { nodes, devices: this.#joined, waiting: this.#waiting.size }
  }

  /** Lets a node claim its route. `host` is the name by which the node dialled the relay. */
  node (ws: WebSocket, host: string): void {
    const challenge = this.#secret()
    this.#awaitFirst(ws, ['key', 'signature'], (claim) => {
      const route = provenRoute(claim, claimBytes(host, challenge))
      if (route === undefined) this.refuse(ws, 'unproven')
      else this.#claimed(ws, route)
    })
    ws.send(JSON.stringify({ challenge }))
  }

  #claimed (ws: WebSocket, name: string): void {
    const key = hashed(name)
    const route = this.#routes.get(key) ?? this.#newRoute(key)
    const before = route.node
    route.node = ws
    // The node has reconnected after a cut that this relay has not detected yet.
    if (before !== undefined) this.refuse(before, 'replaced')
    ws.once('close', () => {
      if (route.node === ws) route.node = undefined
      this.#forget(key, route)
    })
    ws.on('message', () => { this.refuse(ws, 'wrong') })
    ws.send(JSON.stringify({ route: name }))
  }

  device (ws: WebSocket): void {
    this.#awaitFirst(ws, ['route'], ({ route }) => { this.#requestRoute(ws, hashed(route)) })
  }

  #requestRoute (ws: WebSocket, key: string): void {
    const { clock, limits } = this.#options
    const held: Uint8Array[] = []
    const hold = (data: Buffer, binary: boolean): void => {
      if (binary && held.length === 0) held.push(data)
      else this.refuse(ws, 'wrong')
    }
    ws.on('message', hold)
    const route = this.#routes.get(key)
    if (route?.node === undefined || route.devices >= limits.devicesPerRoute) {
      // Unknown nodes, absent nodes and too many devices get the same refusal, so strangers learn nothing.
      clock.after(limits.refuseMs, () => { this.refuse(ws, 'nobody') })
      return
    }
    const ticket = this.#secret()
    const at = hashed(ticket)
    route.devices++
    const stop = clock.after(limits.joinMs, () => { this.refuse(ws, 'nobody') })
    this.#waiting.set(at, {
      ws, route, held,
      stop: () => {
        stop()
        ws.off('message', hold)
      }
    })
    ws.once('close', () => {
      stop()
      route.devices--
      this.#waiting.delete(at)
      this.#forget(key, route)
    })
    route.node.send(JSON.stringify({ device: ticket }))
  }

  accept (ws: WebSocket): void {
    this.#awaitFirst(ws, ['ticket'], ({ ticket }) => {
      const at = hashed(ticket)
      const waiting = this.#waiting.get(at)
      if (waiting === undefined) {
        this.refuse(ws, 'nobody')
        return
      }
      this.#waiting.delete(at)
      waiting.stop()
      this.#joined++
      waiting.ws.once('close', () => { this.#joined-- })
      const { clock, limits } = this.#options
      splice(ws, waiting.ws, waiting.held,
        { clock, limits, traffic: this.traffic, budget: waiting.route.budget })
    })
  }

  /** Closes a connection; only the close code gives the reason. */
  refuse (ws: WebSocket, why: Refusal): void {
    if (ws.readyState !== ws.OPEN) return
    this.refused[why]++
    ws.close(closes[why])
    // Terminate a connection that does not answer the close frame in time.
    this.#options.clock.after(this.#options.limits.refuseMs, () => { ws.terminate() })
  }

  /** Passes the first text message to `then`; closes the connection on any other message or a timeout. */
  #awaitFirst<const K extends string> (
    ws: WebSocket, keys: readonly K[], then: (texts: Record<K, string>) => void
  ): void {
    const stop = this.#options.clock.after(this.#options.limits.firstMs, () => { this.refuse(ws, 'wrong') })
    ws.once('close', stop)
    ws.once('message', (data: Buffer, binary: boolean) => {
      stop()
      const texts = readTexts(data, binary, keys)
      if (texts === undefined) this.refuse(ws, 'wrong')
      // Call `then` synchronously, so that its new listeners get all later messages in the same packet.
      else if (ws.readyState === ws.OPEN) then(texts)
    })
  }

  #newRoute (key: string): Route {
    const { clock, limits: { bytesPerSecond } } = this.#options
    const budget = new Bucket(clock, bytesPerSecond, bytesPerSecond)
    const route: Route = { node: undefined, devices: 0, budget }
    this.#routes.set(key, route)
    return route
  }

  #forget (key: string, route: Route): void {
    if (route.node === undefined && route.devices === 0) this.#routes.delete(key)
  }

  #secret (): string { return Buffer.from(this.#options.random(SECRET_BYTES)).toString('base64url') }
}

const hashed = (text: string): string => createHash('sha256').update(text).digest('base64url')

export interface Traffic { messages: number, bytes: number, queued: number }

interface SpliceOptions {
  readonly clock: Pick<Clock, 'after'>
  readonly limits: RelayLimits, readonly traffic: Traffic, readonly budget: Bucket
}

export function splice (
  node: WebSocket, device: WebSocket, held: readonly Uint8Array[], options: SpliceOptions
): void {
  const [toNode, toDevice] = [new OneWay(device, node, options), new OneWay(node, device, options)]
  for (const message of held) toNode.pass(message)
  for (const [ws, other, way] of [[node, device, toDevice], [device, node, toNode]] as const) {
    ws.on('message', (data: Buffer, binary: boolean) => {
      if (binary) way.pass(data)
      else ws.close()
    })
    ws.once('close', () => {
      way.stop()
      other.terminate()
    })
  }
  if (node.readyState !== node.OPEN) device.terminate()
  if (device.readyState !== device.OPEN) node.terminate()
}

/** Forwards one direction. Pauses the sender while its budget is used up or the receiver is slow. */
class OneWay {
  readonly #from: WebSocket
  readonly #to: WebSocket
  readonly #options: SpliceOptions
  #queued = 0
  #full = false
  #stopStall = (): void => {}
  #stopWait: (() => void) | undefined

  constructor (from: WebSocket, to: WebSocket, options: SpliceOptions) {
    this.#from = from
    this.#to = to
    this.#options = options
  }

  pass (message: Uint8Array): void {
    const { budget, clock, limits, traffic } = this.#options
    const { length } = message
    if (this.#to.readyState !== this.#to.OPEN) return
    traffic.messages++
    traffic.bytes += length
    traffic.queued += length
    this.#queued += length
    this.#to.send(message, () => { this.#sent(length) })
    const most = traffic.queued > limits.queuedBytesInAll ? 0 : limits.queuedBytes
    if (!this.#full && this.#queued > most) {
      this.#full = true
      this.#stopStall = clock.after(limits.stallMs, () => { this.#to.terminate() })
    }
    const waitMs = budget.take(length)
    if (waitMs > 0) {
      this.#stopWait ??= clock.after(waitMs, () => {
        this.#stopWait = undefined
        this.#readOn()
      })
    }
    if (this.#full || waitMs > 0) this.#from.pause()
  }

  stop (): void {
    this.#stopStall()
    this.#stopWait?.()
  }

  #sent (length: number): void {
    this.#options.traffic.queued -= length
    this.#queued -= length
    if (!this.#full || this.#queued > this.#options.limits.queuedBytes / 4) return
    this.#full = false
    this.#stopStall()
    this.#readOn()
  }

  #readOn (): void {
    if (!this.#full && this.#stopWait === undefined && this.#from.readyState === this.#from.OPEN) {
      this.#from.resume()
    }
  }
}
