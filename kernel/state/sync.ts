import { randomBytes } from 'node:crypto'
import * as decoding from 'lib0/decoding'
import * as encoding from 'lib0/encoding'
import { messageYjsSyncStep1, messageYjsSyncStep2, messageYjsUpdate } from 'y-protocols/sync'
import { decodeStateVector, mergeUpdates } from 'yjs'
import { delay } from '../api/clock.js'
import { isObject } from '../api/schema.js'
import { KvDoc } from './documents/kv-doc.js'
import { TokenBucket } from '../net/token-bucket.js'
import { entryKey, partsOf, withoutTimes } from './entries.js'
import type { WebSocket } from 'ws'
import type { Clock } from '../api/clock.js'
import type { Caller, Logger, SocketRequest } from '../api/plugin.js'

/** The outer message kind of the y-websocket protocol that carries a sync message. */
const MESSAGE_SYNC = 0
/** The outer message kind for awareness; an empty one proves to the reader that the connection is alive. */
const MESSAGE_AWARENESS = 1
const ALIVE = Uint8Array.of(MESSAGE_AWARENESS, 1, 0)
/** y-websocket clients close a connection without messages after 30 s. */
const ALIVE_MS = 10_000
/** A reader with this many unanswered pings is cut off. */
const MOST_PINGS = 3
/** Interval of readings, ms; times of links are written less often if there are many. */
const READINGS_MS = 2000
/** Most bytes per second of link times for a reader. */
const TIMES_PER_SECOND = 64 * 1024
/** Longest pause after a write, ms: changes during it are written together. */
const MOST_PAUSE_MS = 40
/** The pause as a multiple of the write's duration, so that writes never use all of a node's time. */
const PAUSE = 4
/** Messages of one reader: one query, then a sign of life every 15 s. */
const MESSAGES = { perSecond: 20, burst: 100 }
/** Grace period for a reader to answer the close, ms. */
const CLOSE_MS = 1000

/** Most unread bytes of a reader. */
const MOST_BUFFERED = 4 * 1024 * 1024
/** Upper bound of a client message (its state vector), bytes. */
const MOST_INCOMING = 64 * 1024

/** Close codes: the reader is too slow or asks too often; it violates the protocol. */
export const SYNC_CLOSED = { slow: 4429, protocol: 4400 } as const

/**
 * Each document gets a new client id above 32 bits, which no other client has. Such an id identifies entries
 * that a reader still has from an earlier document, even from before a restart, to delete them.
 */
const FIRST_WRITER = 2 ** 40

export interface StateSyncOptions {
  /** The cluster as visible to this caller. */
  state: (caller: Caller) => Record<string, unknown>
  /** Resolves when this machine's readings are available to `state`. */
  read: () => Promise<unknown>
  /** Resolves after the next change of state, or when the signal aborts. */
  changed: (signal: AbortSignal) => Promise<void>
  /** Keys that change constantly: they are written periodically. */
  readings: ReadonlySet<string>
  clock: Clock
  log: Logger
}

/** Read-only replicas of /state for dashboards and tools. */
export interface StateSync {
  serve (socket: WebSocket, request: Pick<SocketRequest, 'caller'>): void
  close (): void
}

/** One document for each set of authorities with a different view; created at the first read. */
export function createStateSync (options: StateSyncOptions): StateSync {
  const replicas = new Map<string, Replica>()
  return {
    serve (socket, { caller: { mode, authorities } }) {
      const key = [mode, ...[...authorities].sort()].join()
      const replica = replicas.get(key) ?? new Replica(options, { id: 'state-sync', mode, authorities })
      replicas.set(key, replica)
      replica.add(socket)
    },
    close () { for (const replica of replicas.values()) replica.close() }
  }
}

/** `asked`: it has received the state, and gets changes. */
interface Reader { budget: TokenBucket, pings: number, asked: boolean }

/** The last write under a key. */
interface Written {
  source: unknown
  text: string
  /** Of a part of the topology: the text without constantly measured times. */
  links: string | null
  /** The last writing that included it. */
  round: number
}

class Replica {
  readonly #options: StateSyncOptions
  readonly #caller: Caller
  readonly #readers = new Map<WebSocket, Reader>()
  readonly #kv = new KvDoc(FIRST_WRITER + randomBytes(4).readUInt32BE(), true)
  /** By key of the state, then by member. */
  readonly #written = new Map<string, Map<string | null, Written>>()
  #round = 0
  /** Resolves when the state for a new reader has been written. */
  #begun = Promise.resolve()
  #following: AbortController | undefined
  #quiet: (() => void)[] = []
  #readingsAt = -Infinity
  #timesAt = -Infinity
  #timesBytes = 0

  constructor (options: StateSyncOptions, caller: Caller) {
    this.#options = options
    this.#caller = caller
  }

  add (socket: WebSocket): void {
    const { perSecond, burst } = MESSAGES
    const reader: Reader = {
      budget: new TokenBucket(perSecond, burst, this.#options.clock.mono()), pings: 0, asked: false
    }
    this.#readers.set(socket, reader)
    socket.on('close', () => {
      this.#readers.delete(socket)
      if (this.#readers.size === 0) this.#stop()
    })
    socket.on('error', () => {})
    socket.on('pong', () => { reader.pings = 0 })
    socket.on('message', (data: Buffer, binary: boolean) => {
      if (socket.readyState !== socket.OPEN) return
      if (reader.budget.take(1, this.#options.clock.mono()) > 0) this.#end(socket, 'too many requests')
      else void this.#answer(socket, reader, data, binary)
    })
    if (this.#following === undefined || this.#following.signal.aborted) this.#follow()
  }

  close (): void {
    this.#stop()
    for (const socket of this.#readers.keys()) socket.close(1001)
    this.#kv.destroy()
  }

  /** Answers the reader's query; ignores its own writes. */
  async #answer (
    socket: WebSocket, reader: Reader, data: Buffer, binary: boolean
  ): Promise<void> {
    try {
      if (!binary || data.byteLength > MOST_INCOMING) throw new Error('not a small binary message')
      const decoder = decoding.createDecoder(data)
      if (decoding.readVarUint(decoder) !== MESSAGE_SYNC) return
      if (decoding.readVarUint(decoder) !== messageYjsSyncStep1) return
      const vector = decoding.readVarUint8Array(decoder)
      const had = decodeStateVector(vector)
      await this.#begun
      reader.asked = true
      const old = [...had].filter(([id]) => id >= FIRST_WRITER && id !== this.#kv.writer)
      this.#send(socket, framed(messageYjsSyncStep2, withoutOld(old, this.#kv.state(vector))))
    } catch {
      socket.close(SYNC_CLOSED.protocol, 'expected a y-websocket message')
    }
  }

  #stop (): void {
    this.#following?.abort()
    for (const stop of this.#quiet) stop()
  }

  #follow (): void {
    const { clock, log, changed, read } = this.#options
    this.#quiet = [
      clock.every(ALIVE_MS, () => { this.#ping() }),
      clock.every(READINGS_MS, () => { this.#refresh() })
    ]
    const following = new AbortController()
    const { signal } = following
    this.#following = following
    this.#begun = read().then(() => { this.#refresh() })
    const loop = async (): Promise<void> => {
      let news = changed(signal)
      await this.#begun
      for (;;) {
        await news
        if (signal.aborted) return
        news = changed(signal)
        const began = clock.mono()
        this.#refresh()
        const tookMs = clock.mono() - began
        if (tookMs > 0) await delay(clock, Math.min(MOST_PAUSE_MS, PAUSE * tookMs))
      }
    }
    loop().catch((err: unknown) => { log.error({ err }, 'the replica of /state stopped') })
  }

  #ping (): void {
    for (const [socket, reader] of this.#readers) {
      if (reader.pings++ >= MOST_PINGS) socket.terminate()
      else if (socket.readyState === socket.OPEN) {
        socket.ping()
        this.#send(socket, ALIVE)
      }
    }
  }

  #refresh (): void {
    const { state, log } = this.#options
    try {
      const changes = this.#changes(state(this.#caller))
      const update = changes.size === 0 ? null : this.#kv.write(changes)
      if (update !== null) this.#tell(update)
    } catch (err) {
      log.error({ err }, 'the replica of /state could not be written')
    }
  }

  #changes (state: Record<string, unknown>): Map<string, unknown> {
    const { clock, readings } = this.#options
    const now = clock.mono()
    const due = now - this.#readingsAt >= READINGS_MS
    if (due) this.#readingsAt = now
    const timesDue = due && now - this.#timesAt >= this.#timesBytes / TIMES_PER_SECOND * 1000
    if (timesDue) {
      this.#timesAt = now
      this.#timesBytes = 0
    }
    const changes = new Map<string, unknown>()
    this.#round++
    let group: Map<string | null, Written> = new Map()
    for (const { of, member, val } of partsOf(state)) {
      if (member === null) {
        group = this.#written.get(of) ?? new Map()
        this.#written.set(of, group)
      }
      const written = group.get(member)
      if (written !== undefined) written.round = this.#round
      // A frozen value is unchanged if it is the same object.
      if (written?.source === val && Object.isFrozen(val)) continue
      if (written !== undefined && !due && readings.has(of)) continue
      const links = of === 'topology' ? textOfLinks(val) : null
      if (links !== null && links === written?.links && !timesDue) continue
      const text = JSON.stringify(val)
      if (links !== null) this.#timesBytes += text.length
      if (text !== written?.text) changes.set(entryKey(of, member), JSON.parse(text))
      group.set(member, { source: val, text, links, round: this.#round })
    }
    for (const [of, members] of this.#written) {
      for (const [member, { round }] of members) {
        if (round === this.#round) continue
        members.delete(member)
        changes.set(entryKey(of, member), undefined)
      }
    }
    return changes
  }

  #tell (update: Uint8Array): void {
    const message = framed(messageYjsUpdate, update)
    for (const [socket, { asked }] of this.#readers) if (asked) this.#send(socket, message)
  }

  #send (socket: WebSocket, message: Uint8Array): void {
    if (socket.readyState !== socket.OPEN) return
    if (socket.bufferedAmount > MOST_BUFFERED) this.#end(socket, 'read faster')
    else socket.send(message)
  }

  /** Closes the socket, and cuts off a reader that does not answer the close. */
  #end (socket: WebSocket, why: string): void {
    socket.close(SYNC_CLOSED.slow, why)
    this.#options.clock.after(CLOSE_MS, () => { socket.terminate() })
  }
}

function framed (kind: number, update: Uint8Array): Uint8Array {
  const encoder = encoding.createEncoder()
  encoding.writeVarUint(encoder, MESSAGE_SYNC)
  encoding.writeVarUint(encoder, kind)
  encoding.writeVarUint8Array(encoder, update)
  return encoding.toUint8Array(encoder)
}

/** The update, extended to delete all entries that these writers wrote up to their clocks. */
function withoutOld (old: readonly (readonly [id: number, clock: number])[], update: Uint8Array): Uint8Array {
  if (old.length === 0) return update
  const encoder = encoding.createEncoder()
  // No entries, and a set of deletions: for each writer one range from 0.
  encoding.writeVarUint(encoder, 0)
  encoding.writeVarUint(encoder, old.length)
  for (const [id, clock] of old) for (const n of [id, 1, 0, clock]) encoding.writeVarUint(encoder, n)
  return mergeUpdates([encoding.toUint8Array(encoder), update])
}

/** Cache for links that never change, as text. */
const texts = new WeakMap<object, string>()

/** A part of the topology as text, without constantly measured times. */
function textOfLinks (part: unknown): string {
  if (!isObject(part)) return JSON.stringify(part)
  return Object.entries(part).map(([node, links]) => {
    const held = isObject(links) && Object.isFrozen(links) ? links : undefined
    const text = (held && texts.get(held)) ?? JSON.stringify(withoutTimes(links))
    if (held !== undefined) texts.set(held, text)
    return `${node} ${text}`
  }).join('\n')
}
