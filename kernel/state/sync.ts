import { randomBytes } from 'node:crypto'
import * as decoding from 'lib0/decoding'
import * as encoding from 'lib0/encoding'
import { messageYjsSyncStep1, messageYjsSyncStep2, messageYjsUpdate } from 'y-protocols/sync'
import { decodeStateVector, mergeUpdates } from 'yjs'
import { KvDoc } from '../cluster/documents/kv-doc.js'
import { Budget } from '../cluster/links/limits.js'
import type { WebSocket } from 'ws'
import type { Clock } from '../api/clock.js'
import type { Caller, Logger, RouteDecl } from '../api/plugin.js'

/** The outer message kind of the y-websocket protocol that carries a sync message. */
const MESSAGE_SYNC = 0
/** The outer message kind for awareness; an empty one shows the reader that the connection lives. */
const MESSAGE_AWARENESS = 1
const ALIVE = Uint8Array.of(MESSAGE_AWARENESS, 1, 0)
/** A y-websocket client gives up a connection that says nothing for 30 s. */
const ALIVE_MS = 10_000
/** A reader that leaves so many pings unanswered is gone. */
const MOST_PINGS = 3
/** Readings are written this often. */
const READINGS_MS = 2000
/** Messages of one reader: it asks once, and then tells every 15 s that it lives. */
const MESSAGES = { perSecond: 20, burst: 100 }
/** How long a reader has to answer that its connection closes. */
const CLOSE_MS = 1000

/** A reader may leave so much unread, bytes. */
const MOST_BUFFERED = 4 * 1024 * 1024
/** What the largest sensible client message (its state vector) stays below, bytes. */
const MOST_INCOMING = 64 * 1024

/** Close codes: the reader reads too slowly or asks too often; it speaks nonsense. */
export const SYNC_CLOSED = { slow: 4429, protocol: 4400 } as const

/**
 * Each document is written under a new client id above 32 bits, which no other client has. Entries that a
 * reader still has from an earlier document, even from before a restart, are known by such an id and deleted.
 */
const FIRST_WRITER = 2 ** 40

/** The replica's route. It is not part of the OpenAPI document, which knows no WebSockets. */
export const stateSyncRoute = {
  method: 'GET', url: '/state/sync', authority: 'read', stream: true,
  summary: 'The state as a read-only Yjs document (WebSocket, y-websocket protocol): a list `entries` of ' +
    '{ key, val }, one for each key of /state.'
} as const satisfies RouteDecl

export interface StateSyncOptions {
  /** What a caller sees of the cluster. */
  state: (caller: Caller) => Promise<Record<string, unknown>>
  /** Resolves after the next change of state, or when the signal aborts. */
  changed: (signal: AbortSignal) => Promise<void>
  /** Keys that change all the time: they are written now and then. */
  readings: ReadonlySet<string>
  clock: Clock
  log: Logger
}

/** Read-only replicas of /state for dashboards and tools. */
export interface StateSync {
  serve (socket: WebSocket, caller: Caller): void
  close (): void
}

/** One document for each set of authorities that may see something else; made when first read. */
export function createStateSync (options: StateSyncOptions): StateSync {
  const replicas = new Map<string, Replica>()
  return {
    serve (socket, { mode, authorities }) {
      const key = [mode, ...[...authorities].sort()].join()
      const replica = replicas.get(key) ?? new Replica(options, { id: 'state-sync', mode, authorities })
      replicas.set(key, replica)
      replica.add(socket)
    },
    close () { for (const replica of replicas.values()) replica.close() }
  }
}

interface Reader { budget: Budget, pings: number }

class Replica {
  readonly #options: StateSyncOptions
  readonly #caller: Caller
  readonly #readers = new Map<WebSocket, Reader>()
  #kv = newDoc()
  #following: AbortController | undefined
  #quiet: (() => void)[] = []
  #refreshing: Promise<void> | undefined
  #next: Promise<void> | undefined
  #readingsAt = -Infinity

  constructor (options: StateSyncOptions, caller: Caller) {
    this.#options = options
    this.#caller = caller
  }

  add (socket: WebSocket): void {
    const { perSecond, burst } = MESSAGES
    const reader = { budget: new Budget(perSecond, burst, this.#options.clock.mono()), pings: 0 }
    this.#readers.set(socket, reader)
    socket.on('close', () => {
      this.#readers.delete(socket)
      if (this.#readers.size === 0) this.#stop()
    })
    socket.on('error', () => {})
    socket.on('pong', () => { reader.pings = 0 })
    socket.on('message', (data: Buffer, binary: boolean) => {
      if (socket.readyState !== socket.OPEN) return
      if (reader.budget.take(1, this.#options.clock.mono()) > 0) this.#end(socket, 'ask less often')
      else void this.#answer(socket, data, binary)
    })
    if (this.#following === undefined || this.#following.signal.aborted) this.#follow()
  }

  close (): void {
    this.#stop()
    for (const socket of this.#readers.keys()) socket.close(1001)
    this.#kv.destroy()
  }

  /** The reader's question is answered; whatever it would write is not looked at. */
  async #answer (socket: WebSocket, data: Buffer, binary: boolean): Promise<void> {
    try {
      if (!binary || data.byteLength > MOST_INCOMING) throw new Error('not a small binary message')
      const decoder = decoding.createDecoder(data)
      if (decoding.readVarUint(decoder) !== MESSAGE_SYNC) return
      if (decoding.readVarUint(decoder) !== messageYjsSyncStep1) return
      const vector = decoding.readVarUint8Array(decoder)
      const had = decodeStateVector(vector)
      await this.#refresh()
      const old = [...had].filter(([id]) => id >= FIRST_WRITER && id !== this.#kv.writer)
      this.#send(socket, framed(messageYjsSyncStep2, withoutOld(old, this.#kv.state(vector))))
    } catch {
      socket.close(SYNC_CLOSED.protocol, 'a y-websocket message is expected')
    }
  }

  #stop (): void {
    this.#following?.abort()
    for (const stop of this.#quiet) stop()
  }

  #follow (): void {
    const { clock, log, changed } = this.#options
    const failed = (err: unknown): void => { log.error({ err }, 'the replica of /state stopped') }
    this.#quiet = [
      clock.every(ALIVE_MS, () => { this.#ping() }),
      clock.every(READINGS_MS, () => { this.#refresh().catch(failed) })
    ]
    const following = new AbortController()
    this.#following = following
    const loop = async (): Promise<void> => {
      while (!following.signal.aborted) {
        const news = changed(following.signal)
        await this.#refresh()
        await news
      }
    }
    loop().catch(failed)
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

  /** One at a time: who asks meanwhile shares the one that follows. */
  #refresh (): Promise<void> {
    if (this.#refreshing === undefined) {
      this.#refreshing = this.#write().finally(() => { this.#refreshing = undefined })
      return this.#refreshing
    }
    this.#next ??= this.#refreshing.catch(() => {}).then(() => {
      this.#next = undefined
      return this.#refresh()
    })
    return this.#next
  }

  /** Writes what has changed, and tells everyone who follows. */
  async #write (): Promise<void> {
    const changes = this.#changes(await this.#options.state(this.#caller))
    if (changes.size === 0) return
    const first = this.#kv.live.size === 0
    const update = this.#kv.write(changes)
    if (update === null) return
    this.#tell(update)
    // A document that was just filled is large, not worn: a new one would not be smaller.
    if (!first && this.#kv.worn()) this.#renew()
  }

  #changes (state: Record<string, unknown>): Map<string, unknown> {
    const { clock, readings } = this.#options
    const now = clock.mono()
    const due = now - this.#readingsAt >= READINGS_MS
    if (due) this.#readingsAt = now
    const shown = Object.entries(state).filter(([key]) => due || !readings.has(key))
    return new Map(shown.flatMap(([key, value]): [string, unknown][] => {
      const next = JSON.stringify(key === 'topology' ? withoutTimes(value) : value)
      return next === JSON.stringify(this.#kv.live.get(key)) ? [] : [[key, JSON.parse(next)]]
    }))
  }

  /** Too much has been written: the same in a new document, and the old one is taken away. */
  #renew (): void {
    const { writer, clock, live } = this.#kv
    const next = newDoc()
    const update = next.write(live)
    this.#kv.destroy()
    this.#kv = next
    if (update !== null) this.#tell(withoutOld([[writer, clock]], update))
  }

  #tell (update: Uint8Array): void {
    const message = framed(messageYjsUpdate, update)
    for (const socket of this.#readers.keys()) this.#send(socket, message)
  }

  #send (socket: WebSocket, message: Uint8Array): void {
    if (socket.readyState !== socket.OPEN) return
    if (socket.bufferedAmount > MOST_BUFFERED) this.#end(socket, 'read faster')
    else socket.send(message)
  }

  /** A reader that does not answer the closing is cut off. */
  #end (socket: WebSocket, why: string): void {
    socket.close(SYNC_CLOSED.slow, why)
    this.#options.clock.after(CLOSE_MS, () => { socket.terminate() })
  }
}

const newDoc = (): KvDoc => new KvDoc(FIRST_WRITER + randomBytes(4).readUInt32BE(), true)

function framed (kind: number, update: Uint8Array): Uint8Array {
  const encoder = encoding.createEncoder()
  encoding.writeVarUint(encoder, MESSAGE_SYNC)
  encoding.writeVarUint(encoder, kind)
  encoding.writeVarUint8Array(encoder, update)
  return encoding.toUint8Array(encoder)
}

/** The update, which also deletes all that these writers wrote up to their clocks. */
function withoutOld (old: readonly (readonly [id: number, clock: number])[], update: Uint8Array): Uint8Array {
  if (old.length === 0) return update
  const encoder = encoding.createEncoder()
  // No entries, and a set of deletions: for each writer one range from 0.
  encoding.writeVarUint(encoder, 0)
  encoding.writeVarUint(encoder, old.length)
  for (const [id, clock] of old) for (const n of [id, 1, 0, clock]) encoding.writeVarUint(encoder, n)
  return mergeUpdates([encoding.toUint8Array(encoder), update])
}

/** The topology without what is measured anew all the time. */
function withoutTimes (topology: unknown): unknown {
  return JSON.parse(JSON.stringify(topology, (key, value: unknown) =>
    key === 'rttMs' || key === 'bytesPerSecond' ? undefined : value))
}
