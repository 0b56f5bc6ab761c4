import { checkKey, checkValue, MAX_READING_BYTES } from '../../kernel/cluster.js'
import { problem, record, schemaOf } from './wire.js'
import type { Clock, GossipCounters, Logger } from '../../kernel/cluster.js'
import type { Of } from './wire.js'

const COUNTS = [
  'maxQueueDepth', 'readingsOffered', 'readingsCoalesced', 'readingsDropped', 'readingsPublished',
  'publishFailures', 'noPeerPublishes', 'bytesPublished'
] as const
type Counts = Record<typeof COUNTS[number], number>

/** Most readings in one body, and most that wait to be published. */
const MAX_READINGS = 64
/** Most bytes of readings in one body: half a frame of 1 MiB. */
const BODY_BYTES = 512 * 1024
/** Most keys kept of one peer; the one not heard of longest goes first. */
const PEER_KEYS = 256
const PERIOD_MS = 2000

export const bodySchema = record({
  v: schemaOf<1>({ const: 1 }),
  readings: schemaOf<Readonly<Record<string, unknown>>>({ type: 'object', maxProperties: MAX_READINGS })
})
/** The message between nodes. */
export type GossipBody = Of<typeof bodySchema>

/** Bytes of a reading as JSON; null when it is no plain JSON, is nested too deeply or is too large. */
function readingBytes (value: unknown): number | null {
  if (checkValue(value) !== null) return null
  const bytes = Buffer.byteLength(JSON.stringify(value))
  return bytes <= MAX_READING_BYTES ? bytes : null
}

const UNFIT = `is no plain JSON of at most ${MAX_READING_BYTES} bytes`

/** The fault of a peer's body; null without one. */
function bodyProblem (body: unknown): string | null {
  const wrong = problem(bodySchema, body)
  if (wrong !== null) return wrong
  for (const [key, value] of Object.entries((body as GossipBody).readings)) {
    const wrongKey = checkKey(key)
    if (wrongKey !== null) return `the key "${key.slice(0, 40)}" ${wrongKey}`
    if (readingBytes(value) === null) return `"${key}" ${UNFIT}`
  }
  return null
}

export interface GossipOptions {
  clock: Clock
  log: Logger
  enabled: boolean
  /** Hands a body to all peers; says how many took it and the bytes sent in all. Throws = failure. */
  publish (body: GossipBody): { peers: number, bytes: number }
  /** Milliseconds between two samples and between two publishes; 2000 when left out. */
  periodMs?: number
  sample (): Promise<object>
}

interface Heard { readonly value: unknown, readonly atMs: number }

/**
 * Readings that members exchange periodically: latest wins, lost ones are not resent. At most one of each key
 * waits for the next period.
 */
export class Gossip {
  readonly #options: GossipOptions
  /** Readings that wait, with their bytes, the oldest first. */
  readonly #waiting = new Map<string, { readonly value: unknown, readonly bytes: number }>()
  /** The newest readings of every peer. */
  readonly #peers = new Map<string, Map<string, Heard>>()
  /** Keys that callers offer: their readings replace those of the sample, which lack what plugins add. */
  readonly #offered = new Set<string>()
  readonly #warned = new Set<string>()
  readonly #counts = Object.fromEntries(COUNTS.map((name) => [name, 0])) as Counts

  #lastSuccessMs: number | null = null
  #sampling = false
  #stop: (() => void) | undefined
  #closed = false

  constructor (options: GossipOptions) { this.#options = options }

  /** Samples and publishes now, and then every period. */
  start (): void {
    const { clock, enabled, periodMs = PERIOD_MS } = this.#options
    if (!enabled || this.#closed || this.#stop !== undefined) return
    this.#stop = clock.every(periodMs, () => { this.#tick() })
    this.#tick()
  }

  close (): void {
    this.#closed = true
    this.#stop?.()
  }

  /** Throws RangeError for a key that is not `[a-zA-Z0-9/_.:@-]{1,200}`. */
  offer (key: string, value: unknown): void {
    const wrong = checkKey(key)
    if (wrong !== null) throw new RangeError(`"${key}" is no key of a reading: it ${wrong}`)
    this.#offered.add(key)
    this.#queue(key, value)
  }

  #queue (key: string, value: unknown): void {
    if (!this.#options.enabled || this.#closed) return
    const bytes = readingBytes(value)
    this.#counts.readingsOffered++
    if (bytes === null) {
      this.#counts.readingsDropped++
      this.#warnOnce(`reading ${key}`, { reading: key }, `the reading "${key}" ${UNFIT} and was dropped`)
      return
    }
    if (this.#waiting.has(key)) {
      this.#counts.readingsCoalesced++
    } else if (this.#waiting.size >= MAX_READINGS) {
      const [oldest] = this.#waiting.keys()
      this.#waiting.delete(oldest!)
      this.#counts.readingsDropped++
    }
    this.#waiting.set(key, { value, bytes })
    this.#counts.maxQueueDepth = Math.max(this.#counts.maxQueueDepth, this.#waiting.size)
  }

  /** A body from a peer. One that is not of the agreed form is ignored as a whole; what is wrong with it. */
  receive (from: string, body: unknown): string | null {
    const wrong = bodyProblem(body)
    if (wrong !== null) return wrong
    const kept = this.#peers.get(from) ?? new Map<string, Heard>()
    this.#peers.set(from, kept)
    const atMs = this.#options.clock.mono()
    for (const [key, value] of Object.entries((body as GossipBody).readings)) {
      // Out first: a map is ordered by when a key was added.
      kept.delete(key)
      kept.set(key, { value, atMs })
    }
    for (const key of kept.keys()) {
      if (kept.size <= PEER_KEYS) break
      kept.delete(key)
    }
    return null
  }

  latest (installId: string, key: string): Heard | undefined { return this.#peers.get(installId)?.get(key) }

  forget (installId: string): void { this.#peers.delete(installId) }

  counters (): GossipCounters {
    const { enabled, clock } = this.#options
    const last = this.#lastSuccessMs
    return {
      enabled,
      transport: 'websocket',
      admissionCapacity: MAX_READINGS,
      pendingReadings: this.#waiting.size,
      queueDepth: this.#waiting.size,
      ...this.#counts,
      lastSuccessfulPublishAgeSeconds: last === null ? null : (clock.mono() - last) / 1000
    }
  }

  /** A sample that hangs holds back its own readings only. */
  #tick (): void {
    if (this.#sampling) this.#flush()
    else void this.#sample().then(() => { if (!this.#closed) this.#flush() })
  }

  async #sample (): Promise<void> {
    this.#sampling = true
    try {
      for (const [key, value] of Object.entries(await this.#options.sample())) {
        if (!this.#offered.has(key)) this.#queue(key, value)
      }
    } catch (err) {
      this.#warnOnce('sample', { err }, 'this machine could not be sampled; its readings are missing')
    } finally {
      this.#sampling = false
    }
  }

  /** Publishes the oldest readings that fit into one body. */
  #flush (): void {
    const readings: Record<string, unknown> = {}
    let left = BODY_BYTES
    for (const [key, { value, bytes }] of this.#waiting) {
      if (bytes > left) break
      left -= bytes
      readings[key] = value
    }
    const keys = Object.keys(readings)
    if (keys.length === 0) return
    try {
      const { peers, bytes } = this.#options.publish({ v: 1, readings })
      if (peers === 0) {
        this.#counts.noPeerPublishes++
        return
      }
      for (const key of keys) this.#waiting.delete(key)
      this.#counts.readingsPublished += keys.length
      this.#counts.bytesPublished += bytes
      this.#lastSuccessMs = this.#options.clock.mono()
    } catch (err) {
      this.#counts.publishFailures++
      this.#warnOnce('publish', { err }, 'readings could not be published; they go with the next ones')
    }
  }

  #warnOnce (topic: string, fields: Record<string, unknown>, message: string): void {
    if (this.#warned.has(topic)) return
    this.#warned.add(topic)
    this.#options.log.warn(fields, message)
  }
}
