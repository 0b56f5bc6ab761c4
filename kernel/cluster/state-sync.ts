import * as decoding from 'lib0/decoding'
import * as encoding from 'lib0/encoding'
import { messageYjsSyncStep1, writeSyncStep2, writeUpdate } from 'y-protocols/sync'
import { KvDoc } from './documents/index.js'
import type { WebSocket } from 'ws'
import type { Clock } from '../clock.js'
import type { Caller, Logger, RouteDecl } from '../define.js'

/** The outer message kind of the y-websocket protocol that carries a sync message. */
const MESSAGE_SYNC = 0
/** The outer message kind for awareness; an empty one shows the reader that the connection lives. */
const MESSAGE_AWARENESS = 1
const ALIVE = Uint8Array.of(MESSAGE_AWARENESS, 1, 0)
/** A y-websocket client gives up a connection that says nothing for 30 s. */
const ALIVE_MS = 10_000

/** A reader may leave so much unread, bytes. */
const MOST_BUFFERED = 4 * 1024 * 1024
/** What the largest sensible client message (its state vector) stays below, bytes. */
const MOST_INCOMING = 64 * 1024

/** Close codes: the reader starts again with an empty document; it reads too slowly; it speaks nonsense. */
export const SYNC_CLOSED = { renewed: 4408, slow: 4429, protocol: 4400 } as const

/** The replica's route. It is not part of the OpenAPI document, which knows no WebSockets. */
export const stateSyncRoute = {
  method: 'GET', url: '/state/sync', authority: 'read', stream: true,
  summary: 'The state as a read-only Yjs document (WebSocket, y-websocket protocol): a list `entries` of ' +
    '{ key, val }, one for each key of /state.'
} as const satisfies RouteDecl

/** Keys that come over the telemetry plane: they change all the time and belong to no document. */
const READINGS: ReadonlySet<string> = new Set([
  'lastSeen', 'nodeMemory', 'nodeSystem', 'nodeDisk', 'nodeNetwork', 'tasks', 'downloads',
  'lastEventAppliedIdx'
])

export interface StateSyncOptions {
  /** What a caller sees of the cluster. */
  state: (caller: Caller) => Promise<Record<string, unknown>>
  /** Resolves after the next change of state, or when the signal aborts. */
  changed: (signal: AbortSignal) => Promise<void>
  clock: Clock
  log: Logger
}

/** Read-only replicas of /state for dashboards and tools. */
export interface StateSync {
  serve (socket: WebSocket, caller: Caller): void
  close (): void
}

/** One document for operators and one for all others, who do not see addresses; made when first read. */
export function createStateSync (options: StateSyncOptions): StateSync {
  const replicas = new Map<boolean, Replica>()
  return {
    serve (socket, caller) {
      const operator = caller.authorities.has('operator')
      const replica = replicas.get(operator) ?? new Replica(options, caller)
      replicas.set(operator, replica)
      replica.add(socket)
    },
    close () { for (const replica of replicas.values()) replica.close() }
  }
}

class Replica {
  readonly #options: StateSyncOptions
  readonly #caller: Caller
  readonly #sockets = new Set<WebSocket>()
  #kv = new KvDoc()
  #following: AbortController | undefined
  #quiet: (() => void) | undefined

  constructor (options: StateSyncOptions, caller: Caller) {
    this.#options = options
    this.#caller = caller
  }

  add (socket: WebSocket): void {
    this.#sockets.add(socket)
    socket.on('close', () => {
      this.#sockets.delete(socket)
      if (this.#sockets.size === 0) this.#stop()
    })
    socket.on('error', () => {})
    socket.on('message', (data: Buffer, binary: boolean) => { void this.#answer(socket, data, binary) })
    if (this.#following === undefined || this.#following.signal.aborted) this.#follow()
  }

  close (): void {
    this.#stop()
    for (const socket of this.#sockets) socket.close(1001)
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
      await this.#refresh()
      this.#send(socket, framed((encoder) => { writeSyncStep2(encoder, this.#kv.doc, vector) }))
    } catch {
      socket.close(SYNC_CLOSED.protocol, 'a y-websocket message is expected')
    }
  }

  #stop (): void {
    this.#following?.abort()
    this.#quiet?.()
  }

  #follow (): void {
    this.#quiet = this.#options.clock.every(ALIVE_MS, () => {
      for (const socket of this.#sockets) this.#send(socket, ALIVE)
    })
    const following = new AbortController()
    this.#following = following
    const loop = async (): Promise<void> => {
      while (!following.signal.aborted) {
        await this.#refresh()
        await this.#options.changed(following.signal)
      }
    }
    loop().catch((err: unknown) => { this.#options.log.error({ err }, 'the replica of /state stopped') })
  }

  /** Writes what has changed, and tells everyone who follows. */
  async #refresh (): Promise<void> {
    const changes = this.#changes(await this.#options.state(this.#caller))
    if (changes.size === 0) return
    const first = this.#kv.live.size === 0
    const update = this.#kv.write(changes)
    if (update === null) return
    const message = framed((encoder) => { writeUpdate(encoder, update) })
    for (const socket of this.#sockets) this.#send(socket, message)
    // A new document cannot be worn, only large: to begin again would not make it smaller.
    if (!first && this.#kv.worn()) this.#renew()
  }

  #changes (state: Record<string, unknown>): Map<string, unknown> {
    const shown = Object.entries(state).filter(([key]) => !READINGS.has(key))
    return new Map(shown.flatMap(([key, value]): [string, unknown][] => {
      const next = JSON.stringify(key === 'topology' ? withoutTimes(value) : value)
      return next === JSON.stringify(this.#kv.live.get(key)) ? [] : [[key, JSON.parse(next)]]
    }))
  }

  /** Too much has been written: everyone begins again with an empty document. */
  #renew (): void {
    this.#kv.destroy()
    this.#kv = new KvDoc()
    for (const socket of this.#sockets) socket.close(SYNC_CLOSED.renewed, 'begin with an empty document')
  }

  #send (socket: WebSocket, message: Uint8Array): void {
    if (socket.bufferedAmount > MOST_BUFFERED) socket.close(SYNC_CLOSED.slow, 'read faster')
    else if (socket.readyState === socket.OPEN) socket.send(message)
  }
}

function framed (write: (encoder: encoding.Encoder) => void): Uint8Array {
  const encoder = encoding.createEncoder()
  encoding.writeVarUint(encoder, MESSAGE_SYNC)
  write(encoder)
  return encoding.toUint8Array(encoder)
}

/** The topology without what is measured anew all the time. */
function withoutTimes (topology: unknown): unknown {
  return JSON.parse(JSON.stringify(topology, (key, value: unknown) =>
    key === 'rttMs' || key === 'bytesPerSecond' ? undefined : value))
}
