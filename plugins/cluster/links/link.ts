import { WebSocket, type RawData } from 'ws'
import { TokenBucket, type Clock, type LinkReport } from '../../../kernel/cluster.js'
import { formatAddress, readAddress } from '../identity/addresses.js'
import { closeCodes, closeWord, decodeFrame, encodeFrame, FrameError, readGreeting } from './frames.js'
import type { Duplex } from 'node:stream'
import type { CloseReason, FrameKind, Greeting, Hello, WireKind } from './frames.js'
import type { LinkLimits } from './limits.js'

export interface Peer extends
  Omit<LinkReport, 'dropped'>, Pick<Hello, 'nodeId' | 'name' | 'version' | 'apiUrl'> {
  /** The peer's `cluster.quorum` setting; undefined if not sent. */
  readonly quorum: string | undefined
  /** Remote address of the connection, ip:port. */
  readonly address: string
  /** True if this node dialled. */
  readonly outgoing: boolean
  /** Round-trip time of the last answered ping, in milliseconds. */
  readonly rttMs: number | null
}

/** Fields that decide between two links to the same member. */
export interface LinkPriority {
  /** Node id of the other end, new at each process start. */
  nodeId: string
  outgoing: boolean
  /** Number of this link in this process; later links have higher numbers. */
  serial: number
  /** The other end's number for this link. `alone`: it sent its hello while it had no other link here. */
  theirs: { serial: number, alone: boolean }
}

export interface LinkHooks {
  /** Handles the other end's hello; returns the reason to refuse it. */
  greeted (link: Link, greeting: Greeting): CloseReason | undefined
  frame (link: Link, kind: FrameKind, body: unknown): void
  /** Called once, after all other hooks. `word` is a key of `closeCodes`, `lost` or `closed`. */
  closed (link: Link, word: string, mine: boolean, detail: string): void
}

export interface LinkOptions {
  ws: WebSocket, socket: Duplex, serial: number
  /** The member whose key was proven on the connection. */
  installId: string
  fingerprint: string, outgoing: boolean, address: string, greeting: Greeting, clock: Clock
  limits: LinkLimits, hooks: LinkHooks
}

/** Kinds that wait for the receiver's credit; the others, such as heartbeats, bypass the queue. */
const BULK: ReadonlySet<WireKind> = new Set(['document', 'channel'])

/**
 * After a network partition, TCP's growing retransmission delays keep a connection silent long after the
 * network works again. A new connection works immediately, so a link closes after this number of ticks
 * without a frame.
 */
const MAX_SILENT_TICKS = 3
/** An active link is pinged every fifth tick, a silent one every tick. */
const PING_EVERY = 5
/** Maximum delay of a lazy frame in ms. Writing three frames at once takes a third of the CPU time. */
const LAZY_MS = 25
/** Maximum characters of a close reason; a close frame has space for 123 bytes. */
const MAX_REASON = 40

/** Options of links. `maxPayload` is above `frameBytes`, so that svc itself refuses larger frames. */
export function socketOptions (limits: LinkLimits): { maxPayload: number, perMessageDeflate: false } {
  return {
    maxPayload: limits.frameBytes + 64 * 1024,
    perMessageDeflate: false,
    // Supported by ws but missing in its types: many tiny fragments use disproportionate memory.
    ...{ maxFragments: 64, maxBufferedChunks: 1024 }
  }
}

/** One open WebSocket to a member whose key has already been checked. */
export class Link {
  readonly installId: string
  readonly fingerprint: string
  readonly outgoing: boolean
  readonly serial: number
  readonly address: string
  readonly gone: Promise<void>
  /** The other end's hello; undefined before it arrives. */
  greeting: Greeting | undefined
  /** Resolves when the other end's hello is accepted; rejects with the reason if the link closes first. */
  readonly greeted: Promise<void>
  rttMs: number | null = null
  /** Monotonic time of the last answer to a ping. */
  answeredAt = -Infinity
  bytesIn = 0
  bytesOut = 0
  framesIn = 0
  framesOut = 0
  readonly #ws: WebSocket
  readonly #options: LinkOptions
  readonly #bytes: TokenBucket
  readonly #frames: TokenBucket
  /** open: sends and receives; replaced: still receives frames in flight; closed: ignores frames. */
  #state: 'open' | 'replaced' | 'closed' = 'open'
  #pinged: number | undefined
  #ticks = 0
  #silentTicks = 0
  /** Delayed frames that share one write, and the function that cancels their timer. */
  #lazy: Uint8Array[] = []
  #flushes: (() => void) | undefined
  #stop: () => void
  #accept!: () => void
  #fail!: (error: Error) => void
  /** Outgoing documents and channel messages: the queue, its bytes, bytes sent, bytes credited. */
  #queue: Uint8Array[] = []
  #queued = 0
  #bulkOut = 0
  #credit = 0
  /** Incoming documents and channel messages: bytes received, bytes credited, timer of a delayed credit. */
  #bulkIn = 0
  #creditGiven = 0
  #cancelCredit: (() => void) | undefined

  constructor (options: LinkOptions) {
    const { ws, clock, limits } = options
    this.#options = options
    this.#ws = ws
    this.installId = options.installId
    this.fingerprint = options.fingerprint
    this.outgoing = options.outgoing
    this.serial = options.serial
    this.address = options.address
    const now = clock.mono()
    this.#bytes = new TokenBucket(limits.bytesPerSecond, limits.burstBytes, now)
    this.#frames = new TokenBucket(limits.framesPerSecond, limits.burstFrames, now)
    this.#stop = clock.after(limits.helloMs, () => { this.end('no_hello') })
    ws.on('message', (data, binary) => { this.#receive(data, binary) })
    // Ignore errors, because `close` follows each of them.
    ws.on('error', () => {})
    ws.on('close', (code, reason) => { this.#onClose(code, reason.toString()) })
    this.gone = new Promise((resolve) => { ws.once('close', () => { resolve() }) })
    this.greeted = new Promise((resolve, reject) => { [this.#accept, this.#fail] = [resolve, reject] })
    // Avoids an unhandled rejection, because nothing awaits `greeted` of an inbound link.
    this.greeted.catch(() => {})
    this.#write(encodeFrame('hello', options.greeting))
  }

  get open (): boolean { return this.#state === 'open' }
  get buffered (): number { return this.#ws.bufferedAmount + this.#queued }

  /** Address of the other end's listener: the dialled one, else its host with the port from its hello. */
  get listensAt (): string {
    if (this.outgoing) return this.address
    const { host } = readAddress(this.address) ?? { host: this.address }
    const port = readAddress(this.greeting?.hello.address ?? '')?.port
    return port === undefined ? host : formatAddress(host, port)
  }

  /** Facts that decide between two links to one member; available only after the hello. */
  get rival (): LinkPriority {
    const { hello, serial, alone } = this.greeting!
    return { nodeId: hello.nodeId, outgoing: this.outgoing, serial: this.serial, theirs: { serial, alone } }
  }

  /** The link as shown to users; call it only after the hello. */
  describe (): Peer {
    const { nodeId, name, version, apiUrl, quorum } = this.greeting!.hello
    const { installId, address, outgoing, rttMs, bytesIn, bytesOut, framesIn, framesOut, buffered } = this
    return {
      installId, nodeId, name, version, apiUrl, quorum, address, outgoing, rttMs,
      bytesIn, bytesOut, framesIn, framesOut, buffered
    }
  }

  /** False if too much is queued; a full socket buffer closes the link. A lazy frame waits up to LAZY_MS. */
  send (kind: WireKind, frame: Uint8Array, lazy = false): boolean {
    const { limits } = this.#options
    if (!this.open || frame.byteLength > limits.frameBytes) return false
    if (BULK.has(kind)) return this.#enqueue(frame, limits.bulkBufferedBytes / (kind === 'channel' ? 2 : 1))
    if (this.#ws.bufferedAmount + frame.byteLength > limits.bufferedBytes) {
      this.end('slow_reader')
      return false
    }
    if (lazy) this.#wait(frame)
    else this.#write(frame)
    return true
  }

  #wait (frame: Uint8Array): void {
    this.#lazy.push(frame)
    this.#flushes ??= this.#options.clock.after(LAZY_MS, () => { this.#write() })
  }

  #enqueue (frame: Uint8Array, most: number): boolean {
    if (this.#queued > 0 && this.#queued + frame.byteLength > most) return false
    this.#queue.push(frame)
    this.#queued += frame.byteLength
    this.#pump()
    return true
  }

  #pump (): void {
    while (this.#queue.length > 0 && this.#bulkOut - this.#credit < this.#options.limits.windowBytes) {
      const frame = this.#queue.shift()!
      this.#queued -= frame.byteLength
      this.#bulkOut += frame.byteLength
      this.#write(frame)
    }
  }

  /** Closes a link after MAX_SILENT_TICKS; pings silent links, and others every PING_EVERY ticks. */
  tick (): void {
    if (!this.open || this.greeting === undefined) return
    if (this.#silentTicks >= MAX_SILENT_TICKS) return this.end('stalled')
    const silent = this.#silentTicks++ > 0
    if (silent || this.#ticks++ % PING_EVERY === 0) this.ping()
  }

  /** Sends a ping; the answer to this one, or to a later one, sets `answeredAt`. */
  ping (): void {
    const now = this.#options.clock.mono()
    if (this.send('ping', encodeFrame('ping', now))) this.#pinged = now
  }

  end (word: CloseReason, detail = ''): void {
    if (this.#state === 'closed') return
    this.#stopTimers()
    this.#close(word, detail)
    this.#closed(word, true, detail)
  }

  /** Closes the link in favour of another one. Frames in flight still arrive until the other end closes. */
  markReplaced (): void {
    if (this.#state !== 'open') return
    this.#state = 'replaced'
    this.#close('duplicate')
  }

  #close (word: CloseReason, detail = ''): void {
    const { clock, limits } = this.#options
    this.#stop()
    if (this.#lazy.length > 0) this.#write()
    this.#ws.close(closeCodes[word], `${word} ${detail}`.trim().slice(0, MAX_REASON))
    const cut = clock.after(limits.closeMs, () => { this.#ws.terminate() })
    this.#ws.once('close', cut)
  }

  #stopTimers (): void {
    this.#state = 'closed'
    this.#stop()
    this.#cancelCredit?.()
    this.#queue = []
    this.#queued = 0
  }

  #onClose (code: number, text: string): void {
    if (this.#state === 'closed') return
    this.#stopTimers()
    const word = closeWord(code)
    this.#closed(word, false, text.startsWith(`${word} `) ? text.slice(word.length + 1) : '')
  }

  #closed (reason: string, mine: boolean, detail: string): void {
    this.#options.hooks.closed(this, reason, mine, detail)
    this.#fail(new Error(reason === 'lost' ? 'closed' : reason))
  }

  /** Writes the delayed frames and the given ones in a single write. */
  #write (...frames: Uint8Array[]): void {
    const { socket } = this.#options
    this.#flushes?.()
    this.#flushes = undefined
    socket.cork()
    for (const frame of [...this.#lazy.splice(0), ...frames]) {
      this.bytesOut += frame.byteLength
      this.framesOut++
      // Ignore the error from a socket that closes during the write; the WebSocket emits `close` anyway.
      this.#ws.send(frame, { binary: true }, () => {})
    }
    socket.uncork()
  }

  #receive (data: RawData, binary: boolean): void {
    if (this.#state === 'closed') return
    const bytes = data as Buffer
    this.bytesIn += bytes.byteLength
    this.framesIn++
    this.#silentTicks = 0
    try {
      if (!binary) throw new FrameError('text_frame', 'a text frame')
      if (bytes.byteLength > this.#options.limits.frameBytes) {
        throw new FrameError('too_large', 'a large frame')
      }
      const { kind, body } = decodeFrame(bytes)
      this.#dispatch(kind, body)
      if (BULK.has(kind)) this.#count(bytes.byteLength)
    } catch (error) {
      if (!(error instanceof FrameError)) throw error
      this.end(error.word)
    }
  }

  #dispatch (kind: WireKind, body: unknown): void {
    if (kind === 'hello') {
      this.#receiveHello(body)
      return
    }
    if (this.greeting === undefined) throw new FrameError('bad_hello', `${kind} before the hello`)
    if (kind === 'ping') this.#sendPong(body)
    else if (kind === 'pong') this.#receivePong(body)
    else if (kind === 'credit') this.#receiveCredit(body)
    else this.#options.hooks.frame(this, kind, body)
  }

  #receiveHello (body: unknown): void {
    if (this.greeting !== undefined) throw new FrameError('bad_hello', 'a second hello')
    const greeting = readGreeting(body)
    this.greeting = greeting
    this.#stop()
    const word = this.#options.hooks.greeted(this, greeting)
    if (word !== undefined) throw new FrameError(word, 'the hello is refused')
    this.#accept()
  }

  #sendPong (stamp: unknown): void {
    if (typeof stamp !== 'number') throw new FrameError('bad_frame', 'the body of a ping is not a number')
    this.send('pong', encodeFrame('pong', stamp))
  }

  #receivePong (stamp: unknown): void {
    if (stamp !== this.#pinged || this.#pinged === undefined) return
    this.answeredAt = this.#options.clock.mono()
    this.rttMs = this.answeredAt - this.#pinged
    this.#pinged = undefined
  }

  /** `total`: bytes of documents and channel messages that the other end has handled so far. */
  #receiveCredit (total: unknown): void {
    if (typeof total !== 'number' || !(total >= this.#credit && total <= this.#bulkOut)) {
      throw new FrameError('bad_frame', 'the credit is not an increasing total of sent bytes')
    }
    this.#credit = total
    if (this.open) this.#pump()
  }

  /** Gives credit for handled bytes a quarter of a window at a time; delays it above the allowed rate. */
  #count (size: number): void {
    const { clock, limits } = this.#options
    const now = clock.mono()
    const waitMs = Math.max(this.#bytes.take(size, now), this.#frames.take(1, now))
    this.#bulkIn += size
    const open = this.#bulkIn - this.#creditGiven
    if (open > limits.windowBytes + limits.frameBytes) {
      throw new FrameError('no_credit', `${open} bytes without credit`)
    }
    if (this.#state === 'closed' || this.#cancelCredit !== undefined || open < limits.windowBytes / 4) return
    if (waitMs === 0) this.#sendCredit()
    else this.#cancelCredit = clock.after(waitMs, () => { this.#sendCredit() })
  }

  #sendCredit (): void {
    this.#cancelCredit = undefined
    this.#creditGiven = this.#bulkIn
    this.send('credit', encodeFrame('credit', this.#creditGiven))
  }
}
