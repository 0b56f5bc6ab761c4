import type { Channel, Logger } from '../../../kernel/cluster.js'

interface Envelope { readonly channel: string, readonly message: unknown }

export interface ChannelsOptions {
  send: (to: string, body: Envelope) => boolean
  broadcast: (body: Envelope) => number
  dropped: Pick<DroppedMessages, 'add'>
}

/** Named channels over the links: messages between the same plugin on all nodes. */
export class Channels {
  readonly #options: ChannelsOptions
  readonly #receivers = new Map<string, (from: string, message: never) => unknown>()

  constructor (options: ChannelsOptions) { this.#options = options }

  /** Throws if the name is taken. `receive` returns false or throws for messages of an unknown shape. */
  open<T> (channel: string, receive: (from: string, message: T) => unknown): Channel<T> {
    if (this.#receivers.has(channel)) throw new Error(`the channel "${channel}" is open already`)
    this.#receivers.set(channel, receive)
    return {
      send: (to, message) => this.#options.send(to, { channel, message }),
      broadcast: (message) => this.#options.broadcast({ channel, message }),
      close: () => { this.#receivers.delete(channel) }
    }
  }

  /** False if the frame is not a channel message. Drops messages for channels not open on this node. */
  receive (from: string, body: unknown): boolean {
    const { channel, message } = (body ?? {}) as Partial<Envelope>
    if (typeof channel !== 'string') return false
    try {
      const taken = this.#receivers.get(channel)?.(from, message as never)
      if (taken === false) this.#options.dropped.add(from, channel)
    } catch (err) { this.#options.dropped.add(from, channel, err) }
    return true
  }
}

const MAX_KINDS = 32
const KIND_CHARS = 40

export class DroppedMessages {
  readonly #log: Logger
  readonly #nodes = new Map<string, Map<string, number>>()

  constructor (log: Logger) { this.#log = log }

  add (from: string, named: unknown, err?: unknown): void {
    const kinds = this.#nodes.get(from) ?? new Map<string, number>()
    this.#nodes.set(from, kinds)
    const name = String(named).slice(0, KIND_CHARS)
    const kind = kinds.has(name) || kinds.size < MAX_KINDS ? name : 'others'
    const count = (kinds.get(kind) ?? 0) + 1
    kinds.set(kind, count)
    if (count > 1) return
    this.#log.warn({ from, kind, err },
      'messages of an unknown shape are dropped: a node of another version?')
  }

  of (installId: string): ReadonlyMap<string, number> { return this.#nodes.get(installId) ?? new Map() }

  forget (installId: string): void { this.#nodes.delete(installId) }
}
