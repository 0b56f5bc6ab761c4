import { jsonBytes, MAX_KEYS, MAX_READING_BYTES, readBody, validKey } from './message.js'
import { createQueue } from './queue.js'
import type { Clock } from '../../api/clock.js'
import type { Logger } from '../../api/plugin.js'
import type { Vitals } from '../../machine/vitals.js'
import type { GossipCounters } from './counters.js'
import type { GossipBody } from './message.js'

/** What a node reads of its machine. */
export type Reading = Vitals

export interface GossipOptions {
  clock: Clock
  log: Logger
  /** False with SVC_TELEMETRY_DISABLE=1. */
  enabled: boolean
  /** Hands a body to all peers; says how many took it and the bytes sent in all. Throws = failure. */
  publish (body: GossipBody): { peers: number, bytes: number }
  /** Time between two samples and between two publishes. */
  periodMs?: number
  sample (): Promise<Reading>
}

export interface Gossip {
  /**
   * A reading to publish at the next period; a newer one of the same key takes its place. Plain JSON of at
   * most 64 KiB. Throws RangeError naming a key that is not `[a-zA-Z0-9/_.:@-]{1,200}`.
   */
  offer (key: string, value: unknown): void
  /** The newest reading of a peer and the monotonic time it came; a peer's `null` means unknown. */
  latest (installId: string, key: string): { value: unknown, atMs: number } | undefined
  /** A body from a peer. One that is not of the agreed form is counted and ignored as a whole. */
  receive (from: string, body: unknown): void
  /** Drops all readings of a peer. */
  forget (installId: string): void
  counters (): GossipCounters
  /** Bodies from peers that were ignored. */
  readonly refusedBodies: number
  /** Samples and publishes now, and then every period. */
  start (): void
  close (): void
}

const PERIOD_MS = 2000
/** Most bytes of readings in one body: half a frame of 1 MiB. */
const BODY_BYTES = 512 * 1024
/** Most keys kept of one peer; the one not heard of longest goes first. */
const PEER_KEYS = 256

export function createGossip (options: GossipOptions): Gossip {
  const { clock, log, enabled } = options
  const warnOnce = onceEach(log)
  const inbox = createInbox(clock)
  const outbox = createOutbox(options, warnOnce)
  let refusedBodies = 0
  let stop: (() => void) | undefined
  let closed = false
  let sampling = false

  const sample = async (): Promise<void> => {
    if (sampling) return
    sampling = true
    try {
      const reading = await options.sample()
      if (!closed) for (const [key, value] of Object.entries(reading)) outbox.offer(key, value)
    } catch (err) {
      warnOnce('sample', { err }, 'this machine could not be sampled; its readings are missing')
    } finally {
      sampling = false
    }
  }
  /** A sample that hangs holds back its own readings only. */
  const tick = (): void => {
    const busy = sampling
    const sampled = sample()
    if (busy) outbox.flush()
    else void sampled.then(() => { if (!closed) outbox.flush() })
  }

  return {
    offer (key, value) {
      if (!validKey(key)) {
        throw new RangeError(`"${key}" is no key of a reading: it takes 1 to 200 of a-z A-Z 0-9 / _ . : @ -`)
      }
      if (enabled && !closed) outbox.offer(key, value)
    },
    latest: inbox.latest,
    receive (from, body) {
      const read = readBody(body)
      if ('readings' in read) return inbox.put(from, read.readings)
      refusedBodies++
      warnOnce(`body of ${from}`, { peer: from, why: read.wrong }, 'a peer\'s readings were ignored')
    },
    forget: inbox.forget,
    counters: outbox.counters,
    get refusedBodies () { return refusedBodies },
    start () {
      if (!enabled || closed || stop !== undefined) return
      stop = clock.every(options.periodMs ?? PERIOD_MS, tick)
      tick()
    },
    close () {
      closed = true
      stop?.()
    }
  }
}

type WarnOnce = (topic: string, fields: Record<string, unknown>, message: string) => void

/** Warns of each topic once; the topics are bounded, so that no peer fills the memory with them. */
function onceEach (log: Logger): WarnOnce {
  const told = new Set<string>()
  return (topic, fields, message) => {
    if (told.has(topic) || told.size >= 1000) return
    told.add(topic)
    log.warn(fields, message)
  }
}

interface Outbox {
  offer (key: string, value: unknown): void
  flush (): void
  counters (): GossipCounters
}

/** What waits for the peers, and how publishing went. */
function createOutbox (options: GossipOptions, warnOnce: WarnOnce): Outbox {
  const { clock, enabled } = options
  const queue = createQueue(MAX_KEYS)
  const counts = { publishFailures: 0, noPeerPublishes: 0, bytesPublished: 0 }
  let lastSuccessMs: number | null = null
  return {
    offer (key, value) {
      const bytes = jsonBytes(value)
      if (bytes !== null) return queue.offer({ key, value, bytes })
      queue.refuse()
      warnOnce(`reading ${key}`, { reading: key },
        `the reading "${key}" is no plain JSON of at most ${MAX_READING_BYTES} bytes and was dropped`)
    },
    flush () {
      const batch = queue.batch(BODY_BYTES)
      if (batch.length === 0) return
      const readings = Object.fromEntries(batch.map(({ key, value }) => [key, value]))
      try {
        const { peers, bytes } = options.publish({ v: 1, readings })
        if (peers === 0) { counts.noPeerPublishes++; return }
        queue.remove(batch)
        counts.bytesPublished += bytes
        lastSuccessMs = clock.mono()
      } catch (err) {
        counts.publishFailures++
        warnOnce('publish', { err }, 'readings could not be published; they go with the next ones')
      }
    },
    counters () {
      const { offered, coalesced, dropped, taken, depth, maxDepth } = queue.counts()
      return {
        enabled,
        transport: 'websocket',
        admissionCapacity: MAX_KEYS,
        pendingReadings: depth,
        queueDepth: depth,
        maxQueueDepth: maxDepth,
        readingsOffered: offered,
        readingsCoalesced: coalesced,
        readingsDropped: dropped,
        readingsPublished: taken,
        ...counts,
        lastSuccessfulPublishAgeSeconds: lastSuccessMs === null ? null : (clock.mono() - lastSuccessMs) / 1000
      }
    }
  }
}

interface Inbox {
  put (from: string, readings: readonly [string, unknown][]): void
  latest: Gossip['latest']
  forget: Gossip['forget']
}

/** The newest readings of every peer. */
function createInbox (clock: Clock): Inbox {
  const peers = new Map<string, Map<string, { value: unknown, atMs: number }>>()
  return {
    put (from, readings) {
      const kept = peers.get(from) ?? new Map<string, { value: unknown, atMs: number }>()
      peers.set(from, kept)
      for (const [key, value] of readings) {
        kept.delete(key)
        kept.set(key, { value, atMs: clock.mono() })
      }
      for (const key of kept.keys()) {
        if (kept.size <= PEER_KEYS) break
        kept.delete(key)
      }
    },
    latest: (installId, key) => peers.get(installId)?.get(key),
    forget: (installId) => { peers.delete(installId) }
  }
}
