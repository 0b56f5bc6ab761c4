import type { WebSocket } from 'ws'
import type { Clock } from '../../../kernel/index.js'
import type { Bucket, RelayLimits } from './limits.js'

export interface Traffic { messages: number, bytes: number, queued: number }

export interface SpliceOptions {
  readonly clock: Pick<Clock, 'after'>
  readonly limits: RelayLimits
  readonly traffic: Traffic
  readonly budget: Bucket
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
