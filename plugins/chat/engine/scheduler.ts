/**
 * Continuous batching: sequences join and leave between decode steps. Each turn runs one piece of one prompt
 * (chunked prefill) and one decode step of all running sequences, so that neither blocks the other.
 */
import type { Decoder, RowSource, Rows } from './cache.js'
import { Prefixes, commonPrefix } from './prefixes.js'
import { Sequence, type Job } from './sequence.js'
import { DecodeBatches } from './decode-batches.js'

/** Bounds of a scheduler. */
export interface Limits {
  /** Bytes of state of all sequences together, padding included. One call needs as much again. */
  budget: number
  /** Bytes thereof for states of ended sequences. */
  prefixBudget: number
  /** Sequences worked on at once; a job list with more is worked on alone. */
  maxSequences: number
}

/** Time in milliseconds, and a pause that lets events in. */
export interface Clock { now (): number, yieldToEvents (): Promise<void> }

/** Tokens of room per sequence that must be free before another one joins. */
const HEADROOM = 64
/** A shorter common beginning is not worth looking up. */
const MIN_PREFIX = 8

/** A piece of a prompt takes as long as this many decode steps, where running sequences wait for it. */
const STEPS = 2
/** A piece that takes less time than this need not be shorter. */
const MIN_MS = 20
/** Longest time of a piece: a call of the model cannot be cancelled. */
const MAX_MS = 500
/** The time of a piece while nobody waits for a next token: a prompt that comes meanwhile waits for it. */
const ALONE_MS = 250
/** A shorter piece takes hardly less time: each one reads all weights and the KV cache. */
const MIN_TOKENS = 16
const MAX_TOKENS = 512
/** Tokens of a piece before anything was measured. */
const FIRST_TOKENS = 128
/** Weight of the newest measurement. */
const NEWEST = 0.3

const mixed = (known: number | undefined, fresh: number): number =>
  known === undefined ? fresh : known + NEWEST * (fresh - known)

/** Sizes of pieces, from measured times in milliseconds. */
export class Pacer {
  private decodeMs: number | undefined
  private tokenMs: number | undefined

  /** Tells how long one step of all sequences took. */
  decoded (ms: number): void { this.decodeMs = mixed(this.decodeMs, ms) }

  /** Tells how long a piece took. */
  prefilled (tokens: number, ms: number): void { this.tokenMs = mixed(this.tokenMs, ms / tokens) }

  /** Tokens of the next piece; `writing`: whether running sequences wait for it. */
  tokens (writing: boolean): number {
    if (this.tokenMs === undefined || this.decodeMs === undefined) return FIRST_TOKENS
    const wanted = writing ? Math.min(Math.max(STEPS * this.decodeMs, MIN_MS), MAX_MS) : ALONE_MS
    const fitting = this.tokenMs > 0 ? Math.floor(wanted / this.tokenMs) : MAX_TOKENS
    return Math.min(Math.max(fitting, MIN_TOKENS), MAX_TOKENS)
  }
}

/** Runs jobs on a decoder. Nothing runs while there is no job. */
export class Scheduler<B extends Rows> {
  private readonly decoder: Decoder<B>
  private readonly limits: Limits
  private readonly clock: Clock
  private readonly pacer = new Pacer()
  private readonly prefixes: Prefixes<B>
  private readonly decoding: DecodeBatches<B>
  private waiting: Array<Sequence<B>> = []
  private prefilling: Array<Sequence<B>> = []
  /** The last piece was the first one of its prompt. */
  private newcomerLast = false
  private running = false
  private arrived = 0

  constructor (decoder: Decoder<B>, limits: Limits, clock: Clock) {
    this.decoder = decoder
    this.limits = limits
    this.clock = clock
    this.prefixes = new Prefixes(limits.prefixBudget)
    this.decoding = new DecodeBatches(decoder, clock, (sequence, source) => { this.keep(sequence, source) })
  }

  /** Sequences waiting for a place, being worked on, and bytes of state in use. */
  get load (): { waiting: number, active: number, bytes: number, kept: number } {
    const waiting = this.waiting.reduce((sum, { alive }) => sum + alive.length, 0)
    return { waiting, active: this.active, bytes: this.bytes(0), kept: this.prefixes.count }
  }

  /**
   * Adds jobs with one prompt, which is prefilled once. Answers a function that cancels them: none of their
   * methods is called after it, and after at most one step nothing more is done for them.
   */
  submit (jobs: readonly Job[]): () => void {
    const sequences = jobs.map((job) => new Sequence<B>(job, this.arrived++))
    const [first, ...others] = sequences
    if (first === undefined) return () => {}
    first.followers = others
    this.waiting.push(first)
    if (!this.running) void this.loop()
    return () => { for (const sequence of sequences) sequence.cancelled = true }
  }

  private async loop (): Promise<void> {
    this.running = true
    while (this.waiting.length + this.active > 0) {
      await this.clock.yieldToEvents()
      try {
        await this.tick()
      } catch (error) {
        this.failAll(error)
      }
    }
    this.running = false
  }

  /** An error that belongs to no single sequence fails all of them, and the runner goes on. */
  private failAll (error: unknown): void {
    const prompts = [...this.waiting, ...this.prefilling].flatMap(({ alive }) => alive)
    this.waiting = []
    this.prefilling = []
    for (const sequence of [...prompts, ...this.decoding.clear()]) sequence.fail(error)
  }

  private get active (): number {
    return this.prefilling.reduce((sum, { alive }) => sum + alive.length, 0) + this.decoding.count
  }

  private async tick (): Promise<void> {
    this.dropCancelled()
    this.admit()
    await this.feed()
    this.dropCancelled()
    this.makeRoom()
    if (this.decoding.count === 0) return
    const startedAt = this.clock.now()
    await this.decoding.step()
    this.pacer.decoded(this.clock.now() - startedAt)
  }

  private dropCancelled (): void {
    const alive = (sequence: Sequence<B>): boolean => sequence.alive.length > 0
    this.waiting = this.waiting.filter(alive)
    this.prefilling = this.prefilling.filter(alive)
    for (const { sequence } of this.decoding.placed) if (sequence.cancelled) this.decoding.leave(sequence)
  }

  /** Admits waiting sequences in their order, within maxSequences and the memory budget. */
  private admit (): void {
    for (let next = this.waiting[0]; next !== undefined; next = this.waiting[0]) {
      const { active } = this
      const more = next.alive.length
      if (active > 0 && active + more > this.limits.maxSequences) return
      const tokens = next.ids.length * more + HEADROOM * (active + more)
      const needed = tokens * this.decoder.tokenBytes + more * this.decoder.stateBytes
      if (!this.reserve(needed, 0) && active > 0) return
      this.waiting.shift()
      this.begin(next)
    }
  }

  /** Starts a prompt, from the KV cache of another sequence with the same prefix if there is one. */
  private begin (sequence: Sequence<B>): void {
    const known = this.knownPrefix(sequence.ids)
    try {
      sequence.state = known === undefined ? this.decoder.empty() : this.decoder.pack([known])
    } catch (error) {
      for (const each of sequence.alive) each.fail(error)
      return
    }
    for (const each of sequence.alive) each.begin(known?.length ?? 0)
    this.prefilling.push(sequence)
  }

  /** The longest prefix of a prompt that is in a KV cache, of an ended or of a running sequence. */
  private knownPrefix (ids: readonly number[]): RowSource<B> | undefined {
    const { rewinds, chunked } = this.decoder
    const usable = (other: readonly number[], fed: number): number => {
      const length = Math.min(commonPrefix(other, ids), fed, ids.length - 1)
      const fits = (rewinds || length === fed) && (chunked || length === ids.length - 1)
      return fits && length >= MIN_PREFIX ? length : 0
    }
    let best = this.prefixes.find((entry) => usable(entry.ids, entry.ids.length))
    for (const { sequence, source } of this.decoding.placed) {
      const length = usable(sequence.ids, source.length)
      if (length > (best?.length ?? 0)) best = { ...source, length }
    }
    if (best !== undefined) this.prefixes.touch(best.batch)
    return best
  }

  /**
   * Takes the prompt whose turn it is, and puts it last. Prompts take turns; one that has had no turn yet
   * goes first, but not twice in a row, so that a stream of short prompts does not starve a long one.
   */
  private nextPrompt (): Sequence<B> | undefined {
    const next = this.prefilling.find(({ fed }) => fed === this.newcomerLast) ?? this.prefilling[0]
    if (next === undefined) return undefined
    this.newcomerLast = !next.fed
    next.fed = true
    this.prefilling = [...this.prefilling.filter((other) => other !== next), next]
    return next
  }

  /** Feeds one piece of one prompt. */
  private async feed (): Promise<void> {
    const sequence = this.nextPrompt()
    if (sequence === undefined || sequence.state === null) return
    const { ids, state } = sequence
    const fed = state.lengths[0] as number
    const most = this.decoder.chunked ? this.pacer.tokens(this.decoding.count > 0) : Infinity
    const end = Math.min(fed + most, ids.length)
    const startedAt = this.clock.now()
    let made
    try {
      made = await this.decoder.forward(state, [ids.slice(fed, end)], end === ids.length)
    } catch (error) {
      this.prefilling = this.prefilling.filter((other) => other !== sequence)
      for (const each of sequence.alive) each.fail(error)
      return
    }
    this.pacer.prefilled(end - fed, this.clock.now() - startedAt)
    sequence.state = made.batch
    if (end === ids.length) this.promptDone(sequence, made.batch, made.logits[0] as Float32Array)
  }

  private promptDone (sequence: Sequence<B>, batch: B, logits: Float32Array): void {
    const { alive } = sequence
    this.prefilling = this.prefilling.filter((other) => other !== sequence)
    sequence.state = null
    sequence.followers = []
    const source: RowSource<B> = { batch, row: 0, length: sequence.ids.length }
    for (const [i, each] of alive.entries()) {
      // A chooser may write into the logits.
      if (each.advance(i === alive.length - 1 ? logits : logits.slice())) this.decoding.join(each, source)
      else this.keep(each, source)
    }
  }

  /** Keeps the state of a sequence that ends, where there is room. */
  private keep ({ ids }: Sequence<B>, source: RowSource<B>): void {
    const bytes = source.length * this.decoder.tokenBytes + this.decoder.stateBytes
    if (source.length < MIN_PREFIX || !this.prefixes.takes(bytes)) return
    if (this.bytes(0) + bytes > this.limits.budget) return
    try {
      this.prefixes.keep({ ids: ids.slice(0, source.length), batch: this.decoder.pack([source]), bytes })
    } catch {
      // Without memory for a copy there is none: the next prompt is fed as a whole.
    }
  }

  /** Bytes in use when every sequence being written has `more` tokens more. */
  private bytes (more: number): number {
    const { tokenBytes, stateBytes } = this.decoder
    const prompts = this.prefilling.reduce((sum, { ids }) => sum + ids.length * tokenBytes + stateBytes, 0)
    return prompts + this.decoding.bytes(more) + this.prefixes.bytes
  }

  /** Gives up kept states until so many bytes are free; false where even that is not enough. */
  private reserve (bytes: number, more: number): boolean {
    while (this.bytes(more) + bytes > this.limits.budget) if (!this.prefixes.dropOldest()) return false
    return true
  }

  /**
   * Makes room for the next token of every sequence. Where that fails, the sequence that came last loses its
   * state and waits; its tokens are prefilled again later.
   */
  private makeRoom (): void {
    while (!this.reserve(0, 1) && this.active > 1) {
      const last = this.decoding.placed.map(({ sequence }) => sequence)
        .reduce<Sequence<B> | undefined>((a, b) => a !== undefined && a.order > b.order ? a : b, undefined)
      if (last === undefined) return
      this.decoding.drop(last)
      this.waiting.unshift(last)
    }
  }
}
