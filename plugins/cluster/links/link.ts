import { WebSocket } from 'ws'
import { TokenBucket } from '../../../kernel/cluster.js'
import { formatAddress, readAddress } from '../identity/addresses.js'
import { closeCodes, closeWord, decodeFrame, encodeFrame, FrameError, readGreeting } from './frames.js'
import type { Duplex } from 'node:stream'
import type { RawData } from 'ws'
import type { Clock, LinkReport } from '../../../kernel/cluster.js'
import type { CloseReason, FrameKind, Greeting, Hello, WireKind } from './frames.js'
import type { LinkLimits } from './limits.js'

/** A member that a link is up to; as it was when it was asked for. */
export interface Peer extends
  Omit<LinkReport, 'dropped'>, Pick<Hello, 'nodeId' | 'name' | 'version' | 'apiUrl'> {
  /** Its `cluster.quorum`; undefined where it does not say. */
  readonly quorum: string | undefined
  /** The other end, ip:port. */
  readonly address: string
  /** This node dialled. */
  readonly outgoing: boolean
  /** Of the newest answered ping, in milliseconds. */
  readonly rttMs: number | null
}

/** What decides between two links to the same member. */
export interface LinkPriority {
  /** Process start of the other end. */
  nodeId: string
  outgoing: boolean
  /** Counts our links. */
  serial: number
  /** The other end's count, and whether it had no other connection with us when it said so. */
  theirs: { serial: number, alone: boolean }
}

/** What a link tells its owner. */
export interface LinkHooks {
  /** The other end's hello; returns why it is refused. */
  greeted (link: Link, greeting: Greeting): CloseReason | undefined
  frame (link: Link, kind: FrameKind, body: unknown): void
  /** Called once, last. `word`: of `closeCodes`, or `lost`, or `closed`; `detail`: the rest of the reason. */
  closed (link: Link, word: string, mine: boolean, detail: string): void
}

export interface LinkOptions {
  ws: WebSocket
  /** The connection under it. */
  socket: Duplex
  serial: number
  /** Whose key the connection has proven. */
  installId: string
  fingerprint: string
  outgoing: boolean
  address: string
  greeting: Greeting
  clock: Clock
  limits: LinkLimits
  hooks: LinkHooks
}

/**
 * Kinds that need the receiver's credit and queue here without it. All others, heartbeats and votes above
 * all, bypass that queue: at most one window of these is ahead of them.
 */
const BULK: ReadonlySet<WireKind> = new Set(['document', 'channel'])

/**
 * After a network cut, TCP retransmits with growing pauses and stays silent long after the cut has healed. A
 * new connection works at once, so a link is closed after so many ticks without any frame.
 */
const MAX_SILENT_TICKS = 3
/** The round trip is measured with every so many ticks, and after each silent one. */
const PING_EVERY = 5
/** Longest delay of a lazy frame, ms: one write of three frames takes a third of the CPU of three writes. */
const LAZY_MS = 25
/** Characters of a close frame's reason; it has room for 123 bytes. */
const MAX_REASON = 40

/** What WebSockets of links are opened with; a little more than a frame may come, so that we refuse it. */
export function socketOptions (limits: LinkLimits): { maxPayload: number, perMessageDeflate: false } {
  return {
    maxPayload: limits.frameBytes + 64 * 1024,
    perMessageDeflate: false,
    // Known to ws, not yet to its types: many tiny fragments cost memory out of proportion.
    ...{ maxFragments: 64, maxBufferedChunks: 1024 }
  }
}

/** One open WebSocket with a member whose key was checked before. */
export class Link {
  readonly installId: string
  readonly fingerprint: string
  readonly outgoing: boolean
  readonly serial: number
  readonly address: string
  /** Resolves when the connection is gone. */
  readonly gone: Promise<void>
  /** The other end's; undefined before it came. */
  greeting: Greeting | undefined
  /** Resolves when the other end's hello was accepted; rejects with the reason when it closed before. */
  readonly greeted: Promise<void>
  rttMs: number | null = null
  /** Monotonic time of the newest answer to a ping. */
  answeredAt = -Infinity
  bytesIn = 0
  bytesOut = 0
  framesIn = 0
  framesOut = 0
  readonly #ws: WebSocket
  readonly #options: LinkOptions
  readonly #bytes: TokenBucket
  readonly #frames: TokenBucket
  /** open: takes frames; fading: replaced by another link, frames under way still count; ended: none does. */
  #state: 'open' | 'fading' | 'ended' = 'open'
  #pinged: number | undefined
  #ticks = 0
  /** Ticks since the newest frame came. */
  #silentTicks = 0
  /** Frames that wait for others to share their write, and the timer that ends their wait. */
  #lazy: Uint8Array[] = []
  #flushes: (() => void) | undefined
  #stop: () => void
  #accept!: () => void
  #fail!: (error: Error) => void
  /** Outgoing documents and channels: those that wait, their bytes, bytes sent, bytes credited. */
  #queue: Uint8Array[] = []
  #queued = 0
  #bulkOut = 0
  #credit = 0
  /** Incoming ones: bytes received, bytes credited, and the timer of a credit that is delayed. */
  #bulkIn = 0
  #given = 0
  #later: (() => void) | undefined

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
    // Errors are followed by a close.
    ws.on('error', () => {})
    ws.on('close', (code, reason) => { this.#lost(code, reason.toString()) })
    this.gone = new Promise((resolve) => { ws.once('close', () => { resolve() }) })
    this.greeted = new Promise((resolve, reject) => { [this.#accept, this.#fail] = [resolve, reject] })
    // Nobody waits for a link that the other end opened.
    this.greeted.catch(() => {})
    this.#write(encodeFrame('hello', options.greeting))
  }

  get open (): boolean { return this.#state === 'open' }
  get buffered (): number { return this.#ws.bufferedAmount + this.#queued }

  /** Where the other end listens: as dialled, else its host with the port of its hello, if that came. */
  get listensAt (): string {
    if (this.outgoing) return this.address
    const { host } = readAddress(this.address) ?? { host: this.address }
    const port = readAddress(this.greeting?.hello.address ?? '')?.port
    return port === undefined ? host : formatAddress(host, port)
  }

  /** What decides between this and another link; only after the hello. */
  get rival (): LinkPriority {
    const { hello, serial, alone } = this.greeting!
    return { nodeId: hello.nodeId, outgoing: this.outgoing, serial: this.serial, theirs: { serial, alone } }
  }

  /** Only after the hello. */
  describe (): Peer {
    const { nodeId, name, version, apiUrl, quorum } = this.greeting!.hello
    const { installId, address, outgoing, rttMs, bytesIn, bytesOut, framesIn, framesOut, buffered } = this
    return {
      installId, nodeId, name, version, apiUrl, quorum, address, outgoing, rttMs,
      bytesIn, bytesOut, framesIn, framesOut, buffered
    }
  }

  /**
   * Sends an encoded frame; false when too much is queued. A socket that takes nothing ends the link. A lazy
   * frame goes with the next one, at the latest after LAZY_MS.
   */
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

  /** Ends a link that was silent for MAX_SILENT_TICKS; pings one that is silent, others every PING_EVERY. */
  tick (): void {
    if (!this.open || this.greeting === undefined) return
    if (this.#silentTicks >= MAX_SILENT_TICKS) {
      this.end('stalled')
      return
    }
    const silent = this.#silentTicks++ > 0
    if (silent || this.#ticks++ % PING_EVERY === 0) this.ping()
  }

  /** An answer to it, or to a later one, sets `answeredAt`. */
  ping (): void {
    const now = this.#options.clock.mono()
    if (this.send('ping', encodeFrame('ping', now))) this.#pinged = now
  }

  /** Closes it; the other end gets the code of that word, and the detail, if it reads. */
  end (word: CloseReason, detail = ''): void {
    if (this.#state === 'ended') return
    this.#quit()
    this.#close(word, detail)
    this.#closed(word, true, detail)
  }

  /** Closes it in favour of a better link: frames under way are still delivered, and nothing is reported. */
  fade (): void {
    if (this.#state !== 'open') return
    this.#state = 'fading'
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

  #quit (): void {
    this.#state = 'ended'
    this.#stop()
    this.#later?.()
    this.#queue = []
    this.#queued = 0
  }

  #lost (code: number, text: string): void {
    if (this.#state === 'ended') return
    this.#quit()
    const word = closeWord(code)
    this.#closed(word, false, text.startsWith(`${word} `) ? text.slice(word.length + 1) : '')
  }

  #closed (reason: string, mine: boolean, detail: string): void {
    this.#options.hooks.closed(this, reason, mine, detail)
    this.#fail(new Error(reason === 'lost' ? 'closed' : reason))
  }

  /** Writes what waits, and a frame, together. */
  #write (...frames: Uint8Array[]): void {
    const { socket } = this.#options
    this.#flushes?.()
    this.#flushes = undefined
    socket.cork()
    for (const frame of [...this.#lazy.splice(0), ...frames]) {
      this.bytesOut += frame.byteLength
      this.framesOut++
      // The callback takes the error of a socket that closes during the write; the close is reported.
      this.#ws.send(frame, { binary: true }, () => {})
    }
    socket.uncork()
  }

  #receive (data: RawData, binary: boolean): void {
    if (this.#state === 'ended') return
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
      this.#take(kind, body)
      if (BULK.has(kind)) this.#count(bytes.byteLength)
    } catch (error) {
      if (!(error instanceof FrameError)) throw error
      this.end(error.word)
    }
  }

  #take (kind: WireKind, body: unknown): void {
    if (kind === 'hello') {
      this.#meet(body)
      return
    }
    if (this.greeting === undefined) throw new FrameError('bad_hello', `${kind} before the hello`)
    if (kind === 'ping') this.#answer(body)
    else if (kind === 'pong') this.#answered(body)
    else if (kind === 'credit') this.#credited(body)
    else this.#options.hooks.frame(this, kind, body)
  }

  #meet (body: unknown): void {
    if (this.greeting !== undefined) throw new FrameError('bad_hello', 'a second hello')
    const greeting = readGreeting(body)
    this.greeting = greeting
    this.#stop()
    const word = this.#options.hooks.greeted(this, greeting)
    if (word !== undefined) throw new FrameError(word, 'the hello is refused')
    this.#accept()
  }

  #answer (stamp: unknown): void {
    if (typeof stamp !== 'number') throw new FrameError('bad_frame', 'a ping carries a number')
    this.send('pong', encodeFrame('pong', stamp))
  }

  #answered (stamp: unknown): void {
    if (stamp !== this.#pinged || this.#pinged === undefined) return
    this.answeredAt = this.#options.clock.mono()
    this.rttMs = this.answeredAt - this.#pinged
    this.#pinged = undefined
  }

  /** `total`: how many bytes of the documents and channels sent so far the other end has handled. */
  #credited (total: unknown): void {
    if (typeof total !== 'number' || !(total >= this.#credit && total <= this.#bulkOut)) {
      throw new FrameError('bad_frame', 'credit is a total that rises, for what was sent')
    }
    this.#credit = total
    if (this.open) this.#pump()
  }

  /** Gives credit for what was handled: a quarter of a window at once, later when it came too fast. */
  #count (size: number): void {
    const { clock, limits } = this.#options
    const now = clock.mono()
    const waitMs = Math.max(this.#bytes.take(size, now), this.#frames.take(1, now))
    this.#bulkIn += size
    const open = this.#bulkIn - this.#given
    if (open > limits.windowBytes + limits.frameBytes) {
      throw new FrameError('no_credit', `${open} bytes without credit`)
    }
    if (this.#state === 'ended' || this.#later !== undefined || open < limits.windowBytes / 4) return
    if (waitMs === 0) this.#give()
    else this.#later = clock.after(waitMs, () => { this.#give() })
  }

  #give (): void {
    this.#later = undefined
    this.#given = this.#bulkIn
    this.send('credit', encodeFrame('credit', this.#given))
  }
}
