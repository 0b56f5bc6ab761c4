import { ByteQueue } from '../../kernel/api/byte-queue.js'
import { isReplaceable } from './problems.js'
import { soundItem, type Item } from './conversation.js'
import type { Clock } from '../../kernel/index.js'
import type { SttEvent, SttSegment } from '../capabilities-stt/service.js'

/** Bytes of sound that may wait for the engine (about three minutes at 24 kHz). */
const WAITING_BYTES = 10 * 1024 * 1024
const PIECE_BYTES = 64 * 1024
/** Sound that a new instance gets again, in ms: of an open turn, and before one. */
const TURN_MS = 60_000
const BEFORE_MS = 1000
/** Failed attempts in a row after which an open turn is given up, and the longest pause before another. */
const MOST_FAILURES = 8
const PAUSE_MS = 30_000

/** Speech between two pauses, and the item that it becomes. */
export interface Turn {
  item: Item
  startMs: number
  /** Its end in ms of sound, and the monotonic time when it was found; undefined while the turn lasts. */
  end?: { ms: number, atMs: number }
  segments: SttSegment[]
  /** The words of the last partial text, and what was reported of it. */
  partial: string[]
  told: string
}

export interface TurnEvents {
  started (turn: Turn): void
  delta (turn: Turn, text: string): void
  stopped (turn: Turn, ms: number): void
  heard (turn: Turn): void
  /** The input was committed and had no speech. */
  silent (): void
  failed (turn: Turn | undefined, error: unknown): void
}

export interface HearingOptions {
  clock: Clock
  bytesPerMs: number
  /** Ms of sound before this input. */
  startMs: number
  listen: (input: AsyncIterable<Uint8Array>, signal: AbortSignal) => AsyncIterable<SttEvent>
  events: TurnEvents
}

/** Sound for one instance, in pieces of at most 64 KiB. */
export class SoundQueue extends ByteQueue {
  #ended = false
  #wake = (): void => {}

  override push (bytes: Uint8Array): void {
    super.push(bytes)
    this.#wake()
  }

  end (): void {
    this.#ended = true
    this.#wake()
  }

  async * [Symbol.asyncIterator] (): AsyncGenerator<Uint8Array> {
    for (;;) {
      if (this.length > 0) yield this.take(Math.min(this.length, PIECE_BYTES))
      else if (this.#ended) return
      else await new Promise<void>((resolve) => { this.#wake = resolve })
    }
  }
}

/** Finds turns in 16-bit PCM as it arrives. If the instance is lost, a new one gets the open turn again. */
export class Hearing {
  readonly #options: HearingOptions
  readonly #aborted = new AbortController()
  #recent: Uint8Array[] = []
  /** Bytes so far, and those of them that are no longer in `recent`. */
  #bytes = 0
  #dropped = 0
  #input: SoundQueue | undefined
  #committed = false
  #turn: Turn | undefined
  #failures = 0
  #retry: (() => void) | undefined

  constructor (options: HearingOptions) { this.#options = options }

  get endMs (): number { return this.#options.startMs + this.#bytes / this.#options.bytesPerMs }

  /** False if the sound was not taken because the engine is too far behind. */
  append (bytes: Uint8Array): boolean {
    if ((this.#input?.length ?? 0) > WAITING_BYTES) return false
    this.#bytes += bytes.byteLength
    this.#recent.push(bytes)
    if (this.#input !== undefined) this.#input.push(bytes)
    else if (this.#retry === undefined) this.#start()
    this.#forget()
    return true
  }

  /** Ends the input: the open turn is the last one. */
  commit (): void {
    this.#committed = true
    this.#input?.end()
  }

  /** Ends at once, without further events. */
  abort (): void {
    this.#aborted.abort()
    this.#retry?.()
    this.#input?.end()
  }

  #start (): void {
    this.#retry = undefined
    this.#input = new SoundQueue()
    for (const bytes of this.#recent) this.#input.push(bytes)
    if (this.#committed) this.#input.end()
    void this.#run(this.#input, this.#options.startMs + this.#dropped / this.#options.bytesPerMs)
  }

  async #run (input: SoundQueue, baseMs: number): Promise<void> {
    const { events, listen } = this.#options
    const { signal } = this.#aborted
    try {
      for await (const event of listen(input, signal)) {
        if (signal.aborted) return
        this.#failures = 0
        this.#on(event, baseMs)
      }
      this.#input = undefined
      if (this.#turn !== undefined) this.#close(this.#turn)
      else if (this.#committed) events.silent()
    } catch (error) {
      this.#input = undefined
      if (!signal.aborted) this.#again(error)
    }
  }

  /** Starts again after a failure: at once at first, then with growing pauses. */
  #again (error: unknown): void {
    const { clock, events } = this.#options
    const failures = ++this.#failures
    if (isReplaceable(error) && failures <= MOST_FAILURES) {
      this.#retry = clock.after(failures === 1 ? 0 : 80 * 2 ** failures, () => { this.#start() })
      return
    }
    events.failed(this.#turn, error)
    this.#turn = undefined
    this.#recent = []
    this.#dropped = this.#bytes
    // The next sound after a pause starts it again.
    const pauseMs = Math.min(PAUSE_MS, 1000 * 2 ** failures)
    this.#retry = clock.after(pauseMs, () => { this.#retry = undefined })
  }

  #on (event: SttEvent, baseMs: number): void {
    const turn = this.#turn
    if (event.event === 'speech_started') this.#turn = turn ?? this.#begin(baseMs + event.at * 1000)
    else if (event.event === 'segment') {
      const its = this.#turn = turn ?? this.#begin(baseMs + event.start * 1000)
      its.segments.push(event)
      if (event.final === true) this.#close(its)
    } else if (event.event === 'partial' && turn !== undefined) this.#partial(turn, event.text)
    else if (event.event === 'speech_stopped' && turn !== undefined) {
      this.#stop(turn, baseMs + event.at * 1000)
    }
  }

  #begin (startMs: number): Turn {
    const turn = { item: soundItem(), startMs: Math.round(startMs), segments: [], partial: [], told: '' }
    this.#options.events.started(turn)
    return turn
  }

  /** Reports the words that two partial texts in a row agree on, since later ones may correct the rest. */
  #partial (turn: Turn, text: string): void {
    const words = text.trim().split(/(?<=\S)(?=\s)/)
    const differs = words.findIndex((word, i) => word !== turn.partial[i])
    turn.partial = words
    this.#tell(turn, words.slice(0, differs < 0 ? words.length : differs).join(''))
  }

  #tell (turn: Turn, text: string): void {
    if (text.length <= turn.told.length || !text.startsWith(turn.told)) return
    this.#options.events.delta(turn, text.slice(turn.told.length))
    turn.told = text
  }

  #stop (turn: Turn, ms: number): void {
    if (turn.end !== undefined) return
    turn.end = { ms: Math.round(ms), atMs: this.#options.clock.mono() }
    this.#options.events.stopped(turn, turn.end.ms)
  }

  #close (turn: Turn): void {
    this.#stop(turn, this.endMs)
    this.#tell(turn, turn.segments.map(({ text }) => text).join('').trim())
    this.#turn = undefined
    this.#forget()
    this.#options.events.heard(turn)
  }

  /** Drops sound that a new instance would not need. */
  #forget (): void {
    const isOpen = this.#input === undefined || this.#turn !== undefined
    const keep = (isOpen ? TURN_MS : BEFORE_MS) * this.#options.bytesPerMs
    while (this.#bytes - this.#dropped - (this.#recent[0]?.byteLength ?? Infinity) >= keep) {
      this.#dropped += this.#recent.shift()!.byteLength
    }
  }
}
