import { schemaChecker } from '../../../kernel/api/validate.js'
import type { Channel } from '../../../kernel/index.js'
import type { StagingContext } from '../manifest.js'
import type { Swarm } from './swarm.js'

/** Milliseconds to gather received chunks before announcing them. */
const GATHER_MS = 100

type Held = 'all' | (() => Uint8Array | 'all')

/** Announces this node's chunks and tracks those of other nodes. A manifest's digest identifies a model. */
export class ChunkAnnouncements {
  readonly #channel: Channel<HoldingsMessage>
  readonly #clock: StagingContext['clock']
  readonly #unwatch: () => void
  readonly #offers = new Map<string, { held: Held }>()
  readonly #followed = new Map<string, Set<Swarm>>()
  readonly #news = new Map<string, number[]>()

  constructor ({ clock, deps: { cluster } }: Pick<StagingContext, 'clock' | 'deps'>) {
    this.#clock = clock
    this.#channel = cluster.channel('staging.chunks', (from, message) => this.#receive(from, message))
    this.#unwatch = cluster.onPeers(({ installId, up }) => {
      for (const [m, swarms] of this.#followed) {
        if (up) this.#channel.send(installId, { t: 'ask', m })
        else for (const swarm of swarms) swarm.dropPeer(installId)
      }
    })
  }

  close (): void {
    this.#unwatch()
    this.#channel.close()
  }

  /** Announces the chunks that this node can send (`held`). Returns a function that ends it. */
  offer (digest: string, held: Held): () => void {
    const mine = { held }
    this.#offers.set(digest, mine)
    const have = this.#state(digest)
    if (have !== undefined) this.#channel.broadcast(have)
    return () => {
      // A later offer with the same digest may have replaced this one and must stay.
      if (this.#offers.get(digest) !== mine) return
      this.#offers.delete(digest)
      this.#news.delete(digest)
      this.#channel.broadcast({ t: 'end', m: digest })
    }
  }

  /** Updates a swarm with other nodes' chunks until the returned function is called. */
  follow (digest: string, swarm: Swarm): () => void {
    const set = this.#followed.get(digest) ?? new Set()
    this.#followed.set(digest, set.add(swarm))
    this.#channel.broadcast({ t: 'ask', m: digest })
    return () => {
      set.delete(swarm)
      if (set.size === 0 && this.#followed.get(digest) === set) this.#followed.delete(digest)
    }
  }

  /** Handles a message from another node; returns false if its shape is unknown. */
  #receive (from: string, unknown: unknown): boolean {
    if (problemOf(unknown) !== null) return false
    const message = unknown as HoldingsMessage
    if (message.t !== 'ask') {
      for (const swarm of this.#followed.get(message.m) ?? []) this.#learn(swarm, from, message)
      return true
    }
    const have = this.#state(message.m)
    if (have !== undefined) this.#channel.send(from, have)
    return true
  }

  announce (digest: string, chunk: number): void {
    if (!this.#offers.has(digest)) return
    const waiting = this.#news.get(digest)
    if (waiting === undefined) {
      this.#news.set(digest, [chunk])
      this.#clock.after(GATHER_MS, () => { this.#flush(digest) })
      return
    }
    waiting.push(chunk)
    if (waiting.length >= MAX_CHUNKS_PER_MESSAGE) this.#flush(digest)
  }

  claim (digest: string, chunk: number): void {
    this.#channel.broadcast({ t: 'take', m: digest, i: chunk })
  }

  #state (digest: string): HoldingsMessage | undefined {
    const offer = this.#offers.get(digest)
    if (offer === undefined) return undefined
    const held = offer.held === 'all' ? 'all' : offer.held()
    if (held === 'all') return { t: 'have', m: digest, all: true }
    return { t: 'have', m: digest, bits: Buffer.from(held).toString('base64') }
  }

  #flush (digest: string): void {
    const chunks = this.#news.get(digest)
    this.#news.delete(digest)
    if (chunks === undefined || !this.#offers.has(digest)) return
    this.#channel.broadcast({ t: 'got', m: digest, i: chunks })
  }

  #learn (swarm: Swarm, from: string, message: Exclude<HoldingsMessage, { t: 'ask' }>): void {
    switch (message.t) {
      case 'have': swarm.setPeer(from, 'all' in message ? 'all' : Buffer.from(message.bits, 'base64')); break
      case 'got': for (const chunk of message.i) swarm.got(from, chunk); break
      case 'take': swarm.taken(from, message.i, this.#clock.mono()); break
      case 'end': swarm.dropPeer(from); break
    }
  }
}

/** A message between nodes about the chunks of the model whose manifest has the digest `m`. */
export type HoldingsMessage =
  | { t: 'ask', m: string }
  /** The sender has all chunks, or those in the base64 bitmap `bits`. */
  | { t: 'have', m: string, all: true }
  | { t: 'have', m: string, bits: string }
  | { t: 'got', m: string, i: number[] }
  /** The sender is fetching chunk `i` from the store. */
  | { t: 'take', m: string, i: number }
  | { t: 'end', m: string }

export const MAX_CHUNKS_PER_MESSAGE = 1000
const MOST_BASE64 = 128 * 1024

const chunk = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER }
const kind = (t: string, properties: object = {}) =>
  ({ required: Object.keys(properties), properties: { t: { const: t }, ...properties } })

export const problemOf = schemaChecker({
  type: 'object', required: ['t', 'm'], properties: { m: { type: 'string', pattern: '^[0-9a-f]{64}$' } },
  anyOf: [
    kind('ask'), kind('end'), kind('take', { i: chunk }),
    kind('got', { i: { type: 'array', maxItems: MAX_CHUNKS_PER_MESSAGE, items: chunk } }),
    kind('have', { all: { const: true } }), kind('have', { bits: { type: 'string', maxLength: MOST_BASE64 } })
  ]
})
