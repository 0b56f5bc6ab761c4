import { checkKey, checkValue, MAX_READING_BYTES } from '../../kernel/cluster.js'
import { problem, record, schemaOf, type Of } from './wire.js'
import type { Clock, GossipCounters, Logger } from '../../kernel/cluster.js'

const COUNTS = [
  'maxQueueDepth', 'readingsOffered', 'readingsCoalesced', 'readingsDropped', 'readingsPublished',
  'publishFailures', 'noPeerPublishes', 'bytesPublished'
] as const
type Counts = Record<typeof COUNTS[number], number>

/** Maximum number of readings in one message, and in the queue. */
const MAX_READINGS = 64
/** Maximum bytes of readings in one body: half a frame of 1 MiB. */
const BODY_BYTES = 512 * 1024
/** Maximum reading keys kept per peer; the least recently received are dropped first. */
const PEER_KEYS = 256
const PERIOD_MS = 2000

export const bodySchema = record({
  v: schemaOf<1>({ const: 1 }),
  readings: schemaOf<Readonly<Record<string, unknown>>>({ type: 'object', maxProperties: MAX_READINGS })
})
export type GossipBody = Of<typeof bodySchema>

/** Bytes of a reading as JSON; null if it is not plain JSON, too deep or too large. */
function readingBytes (value: unknown): number | null {
  if (checkValue(value) !== null) return null
  const bytes = Buffer.byteLength(JSON.stringify(value))
  return bytes <= MAX_READING_BYTES ? bytes : null
}

const UNFIT = `is not plain JSON of at most ${MAX_READING_BYTES} bytes`

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
  clock: Clock, log: Logger, enabled: boolean
  /** Sends a body to all peers; returns how many accepted it and the total bytes. Throws on failure. */
  publish (body: GossipBody): { peers: number, bytes: number }
  /** Interval of samples and publishes in ms; default 2000. */
  periodMs?: number
  sample (): Promise<object>
}

interface Received { readonly value: unknown, readonly atMs: number }

/** Exchanges readings periodically. Only the latest for a key matters, so lost ones are not resent. */
export class Gossip {
  readonly #options: GossipOptions
  /** Queued readings with their sizes, oldest first. */
  readonly #waiting = new Map<string, { readonly value: unknown, readonly bytes: number }>()
  readonly #peers = new Map<string, Map<string, Received>>()
  /** Keys passed to `offer`. Their values replace the sample's, which lack the plugins' fields. */
  readonly #offered = new Set<string>()
  readonly #warned = new Set<string>()
  readonly #counts = Object.fromEntries(COUNTS.map((name) => [name, 0])) as Counts
  #lastSuccessMs: number | null = null
  #sampling = false
  #stop: (() => void) | undefined
  #closed = false

  constructor (options: GossipOptions) { this.#options = options }

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
    if (wrong !== null) throw new RangeError(`"${key}" is not a valid key of a reading: it ${wrong}`)
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

  /** Accepts a body from a peer. Ignores an invalid one and returns the problem. */
  receive (from: string, body: unknown): string | null {
    const wrong = bodyProblem(body)
    if (wrong !== null) return wrong
    const kept = this.#peers.get(from) ?? new Map<string, Received>()
    this.#peers.set(from, kept)
    const atMs = this.#options.clock.mono()
    for (const [key, value] of Object.entries((body as GossipBody).readings)) {
      // Delete first, so that the key moves to the end of the Map's insertion order.
      kept.delete(key)
      kept.set(key, { value, atMs })
    }
    for (const key of kept.keys()) {
      if (kept.size <= PEER_KEYS) break
      kept.delete(key)
    }
    return null
  }

  latest (installId: string, key: string): Received | undefined {
    return this.#peers.get(installId)?.get(key)
  }

  forget (installId: string): void { this.#peers.delete(installId) }

  counters (): GossipCounters {
    const { enabled, clock } = this.#options
    const last = this.#lastSuccessMs
    return {
      enabled, transport: 'websocket', admissionCapacity: MAX_READINGS,
      pendingReadings: this.#waiting.size, queueDepth: this.#waiting.size, ...this.#counts,
      lastSuccessfulPublishAgeSeconds: last === null ? null : (clock.mono() - last) / 1000
    }
  }

  /** A hanging sample delays only its own readings. */
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
      this.#warnOnce('sample', { err }, 'the readings of this machine are unavailable')
    } finally { this.#sampling = false }
  }

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
      this.#warnOnce('publish', { err }, 'readings could not be published; they are sent with the next ones')
    }
  }

  #warnOnce (topic: string, fields: Record<string, unknown>, message: string): void {
    if (this.#warned.has(topic)) return
    this.#warned.add(topic)
    this.#options.log.warn(fields, message)
  }
}
