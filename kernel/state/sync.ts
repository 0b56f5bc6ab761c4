import { randomBytes } from 'node:crypto'
import * as decoding from 'lib0/decoding'
import * as encoding from 'lib0/encoding'
import { messageYjsSyncStep1, messageYjsSyncStep2, messageYjsUpdate } from 'y-protocols/sync'
import { decodeStateVector, mergeUpdates } from 'yjs'
import { delay, type Clock } from '../api/clock.js'
import { isObject } from '../api/schema.js'
import { KvDoc } from './documents/kv-doc.js'
import { TokenBucket } from '../net/token-bucket.js'
import { entryKey, partsOf, withoutTimes } from './entries.js'
import type { WebSocket } from 'ws'
import type { Caller, Logger, SocketRequest } from '../api/plugin.js'

/** The outer message kind of the y-websocket protocol that carries a sync message. */
const MESSAGE_SYNC = 0
/** Outer message kind for awareness; an empty message shows the reader that the connection is alive. */
const MESSAGE_AWARENESS = 1
const ALIVE = Uint8Array.of(MESSAGE_AWARENESS, 1, 0)
/** Milliseconds between keep-alives; y-websocket clients disconnect after 30 s without a message. */
const ALIVE_MS = 10_000
/** Maximum number of unanswered pings; a reader that reaches it is disconnected. */
const MOST_PINGS = 3
/** Milliseconds between writes of readings; link times are written less often if there are many. */
const READINGS_MS = 2000
/** Bandwidth limit for link times, in bytes per second per reader. */
const TIMES_PER_SECOND = 64 * 1024
/** Longest pause in ms after a write, during which changes are collected for the next one. */
const MOST_PAUSE_MS = 40
/** Pause after a write as a multiple of its duration, so that writes never use all of a node's time. */
const PAUSE = 4
/** Message rate limit per reader; a normal client sends one query, then a keep-alive every 15 s. */
const MESSAGES = { perSecond: 20, burst: 100 }
/** Time limit in ms for a reader to answer the WebSocket close. */
const CLOSE_MS = 1000

/** Maximum number of bytes that a reader may leave unread. */
const MOST_BUFFERED = 4 * 1024 * 1024
/** Maximum size in bytes of a client message, which holds a state vector. */
const MOST_INCOMING = 64 * 1024

/** WebSocket close codes: reader too slow or too many messages; protocol violation. */
export const SYNC_CLOSED = { slow: 4429, protocol: 4400 } as const

/**
 * Each document gets a fresh client id from here on; other clients' ids have 32 bits. Entries that a reader
 * holds under another id in this range are left over from an earlier document, and the reply deletes them.
 */
const FIRST_WRITER = 2 ** 40

export interface StateSyncOptions {
  /** Returns the cluster state as this caller may see it. */
  state: (caller: Caller) => Record<string, unknown>
  /** Resolves when `state` includes this machine's readings. */
  read: () => Promise<unknown>
  /** Resolves after the next state change, or when the signal aborts. */
  changed: (signal: AbortSignal) => Promise<void>
  /** State keys whose values change all the time, so they are written only periodically. */
  readings: ReadonlySet<string>
  clock: Clock
  log: Logger
}

/** Read-only replicas of /state for dashboards and tools. */
export interface StateSync {
  serve (socket: WebSocket, request: Pick<SocketRequest, 'caller'>): void
  close (): void
}

/** Creates one document per access mode and set of authorities, when the first such reader connects. */
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

/** `asked`: the reader has received the state, so later changes are sent to it. */
interface Reader { budget: TokenBucket, pings: number, asked: boolean }

/** The last value written under a key. */
interface Written {
  source: unknown
  text: string
  /** A part of the topology as text without link times, to detect other changes; null for other values. */
  links: string | null
  /** Number of the last write that included the key. */
  round: number
}

class Replica {
  readonly #options: StateSyncOptions
  readonly #caller: Caller
  readonly #readers = new Map<WebSocket, Reader>()
  readonly #kv = new KvDoc(FIRST_WRITER + randomBytes(4).readUInt32BE(), true)
  /** The last write of each entry, by state key, then by member of its value (null for the key itself). */
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

  /** Answers the reader's query; ignores writes by the reader. */
  async #answer (socket: WebSocket, reader: Reader, data: Buffer, binary: boolean): Promise<void> {
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
      // A frozen object cannot have changed since the last write.
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

  /** Closes the socket; cuts off a reader that does not answer. */
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

/** Extends the update so that it deletes all entries that the old writers wrote up to their clocks. */
function withoutOld (old: readonly (readonly [id: number, clock: number])[], update: Uint8Array): Uint8Array {
  if (old.length === 0) return update
  const encoder = encoding.createEncoder()
  // Encodes no structs, then a delete set with one range from clock 0 for each writer.
  encoding.writeVarUint(encoder, 0)
  encoding.writeVarUint(encoder, old.length)
  for (const [id, clock] of old) for (const n of [id, 1, 0, clock]) encoding.writeVarUint(encoder, n)
  return mergeUpdates([encoding.toUint8Array(encoder), update])
}

/** Caches the text of link lists, which never change. */
const texts = new WeakMap<object, string>()

/** JSON of a part of the topology, without link times. */
function textOfLinks (part: unknown): string {
  if (!isObject(part)) return JSON.stringify(part)
  return Object.entries(part).map(([node, links]) => {
    const held = isObject(links) && Object.isFrozen(links) ? links : undefined
    const text = (held && texts.get(held)) ?? JSON.stringify(withoutTimes(links))
    if (held !== undefined) texts.set(held, text)
    return `${node} ${text}`
  }).join('\n')
}
