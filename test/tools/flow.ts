/** One direction of a proxied connection: forwards bytes from one socket to another, or disturbs them. */
import type { Socket } from 'node:net'

/** The disturbances of one direction. */
export interface Rule {
  /** Delay in ms of each byte. */
  latencyMs?: number
  bytesPerSecond?: number
  /** Holds back everything, including the ends of connections. */
  cut?: boolean
}

/** Number of held bytes above which reading pauses, as with a full TCP window. */
const HELD_BYTES = 256 * 1024

interface Piece { bytes: Buffer, due: number }

/** How the source ended its direction: with FIN or RST. */
type End = 'fin' | 'rst'

export class Flow {
  readonly #source: Socket
  readonly #sink: Socket
  readonly #rule: () => Rule
  readonly #count: (bytes: number) => void
  readonly #queue: Piece[] = []
  #held = 0
  #end: End | undefined
  #draining = false
  #swallowing = false
  #timer: NodeJS.Timeout | undefined
  /** Number of bytes to pass before the one to corrupt; negative to corrupt none. */
  #spoilIn = -1
  #toDrop = 0
  /** Time in ms at which the bandwidth limit allows the next byte. */
  #freeAt = 0

  constructor (source: Socket, sink: Socket, rule: () => Rule, count: (bytes: number) => void) {
    this.#source = source
    this.#sink = sink
    this.#rule = rule
    this.#count = count
    source.on('data', (bytes: Buffer) => { this.#take(bytes) })
    source.on('end', () => { this.#over('fin') })
    source.on('error', () => { this.#over('rst') })
    source.on('close', () => { this.#over('rst') })
    sink.on('drain', () => { this.#draining = false; this.update() })
    sink.on('connect', () => { this.update() })
    sink.on('close', () => { clearTimeout(this.#timer) })
    this.update()
  }

  /** Applies the current rule and forwards the bytes that it allows. */
  update (): void {
    clearTimeout(this.#timer)
    if (this.#swallowing) return
    this.#pass()
    const { cut = false } = this.#rule()
    if (cut || this.#held >= HELD_BYTES) this.#source.pause()
    else this.#source.resume()
  }

  corrupt (n: number): void { this.#spoilIn = n }
  drop (bytes: number): void { this.#toDrop = bytes }

  /** Discards all later bytes from the source. */
  swallow (): void {
    this.#swallowing = true
    this.#queue.length = 0
    clearTimeout(this.#timer)
    this.#source.once('end', () => { this.#source.destroy() })
    this.#source.resume()
  }

  #take (bytes: Buffer): void {
    this.#count(bytes.byteLength)
    const kept = this.#swallowing ? Buffer.alloc(0) : this.#spoil(this.#lose(bytes))
    if (kept.byteLength === 0) return
    this.#queue.push({ bytes: kept, due: performance.now() + (this.#rule().latencyMs ?? 0) })
    this.#held += kept.byteLength
    this.update()
  }

  #lose (bytes: Buffer): Buffer {
    const lost = Math.min(this.#toDrop, bytes.byteLength)
    this.#toDrop -= lost
    return bytes.subarray(lost)
  }

  #spoil (bytes: Buffer): Buffer {
    if (this.#spoilIn < 0) return bytes
    const at = this.#spoilIn
    this.#spoilIn = at < bytes.byteLength ? -1 : at - bytes.byteLength
    if (at >= bytes.byteLength) return bytes
    const spoilt = Buffer.from(bytes)
    spoilt[at] = spoilt[at]! ^ 0xff
    return spoilt
  }

  #over (end: End): void {
    if (this.#swallowing) return
    this.#end ??= end
    this.update()
  }

  #pass (): void {
    while (!this.#sink.connecting && !this.#draining && !this.#sink.destroyed) {
      const { cut = false, bytesPerSecond } = this.#rule()
      if (cut) return
      const [first] = this.#queue
      if (first === undefined) { this.#finish(); return }
      const wait = Math.max(first.due, this.#freeAt) - performance.now()
      if (wait > 0) { this.#later(wait); return }
      this.#send(first, bytesPerSecond)
    }
  }

  #send (first: Piece, bytesPerSecond: number | undefined): void {
    // About fifty slices per second, so that a bandwidth limit slows a stream evenly without stalls.
    const size = bytesPerSecond === undefined ? first.bytes.byteLength : Math.max(1, bytesPerSecond / 50 | 0)
    const slice = first.bytes.subarray(0, size)
    first.bytes = first.bytes.subarray(slice.byteLength)
    if (first.bytes.byteLength === 0) this.#queue.shift()
    this.#held -= slice.byteLength
    if (bytesPerSecond !== undefined) {
      this.#freeAt = Math.max(this.#freeAt, performance.now()) + slice.byteLength / bytesPerSecond * 1000
    }
    this.#draining = !this.#sink.write(slice)
  }

  #finish (): void {
    if (this.#end === undefined) return
    if (this.#end === 'rst' && !this.#source.readableEnded) this.#sink.resetAndDestroy()
    else if (!this.#sink.writableEnded) this.#sink.end()
  }

  #later (ms: number): void {
    this.#timer = setTimeout(() => { this.update() }, ms)
    this.#timer.unref()
  }
}
