/** Decoding: sequences after their prefill, in batches that get one token each per call of the model. */
import type { Decoder, RowSource, Rows } from './cache.js'
import type { Clock } from './scheduler.js'
import type { Sequence } from './sequence.js'

/** A decode batch. */
interface Group<B> {
  sequences: Array<Sequence<B>>
  /** Rows in the order of `sequences`. */
  batch: B
}

/** A sequence and where its state lies. */
interface Placed<B> { sequence: Sequence<B>, source: RowSource<B> }

/** Longest time for which choosing tokens may block the event loop, ms. */
const HELD_MS = 50
/** A byte of state costs as much as this many of weights: it is copied as well as read. */
const COPY_FACTOR = 4
/** Fixed cost of a call of the model, in bytes of weights. */
const CALL_BYTES = 2 ** 21

/** Called with the state of a sequence that leaves. */
export type OnLeave<B> = (sequence: Sequence<B>, source: RowSource<B>) => void

/** The sequences being decoded. */
export class DecodeBatches<B extends Rows> {
  private readonly decoder: Decoder<B>
  private readonly clock: Clock
  private readonly onLeave: OnLeave<B>
  private groups: Array<Group<B>> = []
  /** Sequences that joined since the groups were made. */
  private joining: Array<Placed<B>> = []
  /** Sequences that left since the groups were made; their rows are still in the batches. */
  private readonly gone = new Set<Sequence<B>>()

  constructor (decoder: Decoder<B>, clock: Clock, onLeave: OnLeave<B>) {
    this.decoder = decoder
    this.clock = clock
    this.onLeave = onLeave
  }

  /** Every sequence with its state. */
  get placed (): Array<Placed<B>> {
    const rows = this.groups.flatMap(({ sequences, batch }) => sequences.map((sequence, row) => {
      const length = batch.lengths[row] as number
      return { sequence, source: { batch, row, length } }
    }))
    return [...rows.filter(({ sequence }) => !this.gone.has(sequence)), ...this.joining]
  }

  get count (): number {
    const rows = this.groups.reduce((sum, { sequences }) => sum + sequences.length, 0)
    return rows - this.gone.size + this.joining.length
  }

  /** Bytes of state of the groups as they are or will be made, when every sequence has `more` tokens more. */
  bytes (more: number): number {
    const { tokenBytes, stateBytes } = this.decoder
    const sizes = this.changed
      ? this.plan(this.placed).map((rows) => ({ rows: rows.length, span: rows.at(-1)?.source.length ?? 0 }))
      : this.groups.map(({ sequences, batch }) => ({ rows: sequences.length, span: batch.span }))
    return sizes.reduce((sum, { rows, span }) => sum + rows * ((span + more) * tokenBytes + stateBytes), 0)
  }

  private get changed (): boolean { return this.joining.length > 0 || this.gone.size > 0 }

  join (sequence: Sequence<B>, source: RowSource<B>): void { this.joining.push({ sequence, source }) }

  /** Takes out a sequence that has ended. */
  leave (sequence: Sequence<B>): void {
    const found = this.placed.find((entry) => entry.sequence === sequence)
    if (found === undefined) return
    this.drop(sequence)
    this.onLeave(sequence, found.source)
  }

  /** Takes out a sequence whose state is not kept. */
  drop (sequence: Sequence<B>): void {
    const rest = this.joining.filter((entry) => entry.sequence !== sequence)
    if (rest.length === this.joining.length) this.gone.add(sequence)
    this.joining = rest
  }

  /** Takes out all sequences, and gives them. */
  clear (): Array<Sequence<B>> {
    const sequences = this.placed.map(({ sequence }) => sequence)
    this.groups = []
    this.joining = []
    this.gone.clear()
    return sequences
  }

  /** Makes the groups anew where sequences came or went. Groups that stay the same are not copied. */
  private regroup (): void {
    if (!this.changed) return
    this.groups = this.plan(this.placed).map((rows) => this.groupOf(rows))
    this.joining = []
    this.gone.clear()
  }

  private plan (placed: ReadonlyArray<Placed<B>>): Array<Array<Placed<B>>> {
    const { tokenBytes, weightBytes, maxRows, ragged } = this.decoder
    const cost = { call: weightBytes + CALL_BYTES, token: tokenBytes * COPY_FACTOR, maxRows, ragged }
    const parts = partition(placed.map(({ source }) => source.length), cost)
    return parts.map((part) => part.map((i) => placed[i] as Placed<B>))
  }

  private groupOf (members: ReadonlyArray<Placed<B>>): Group<B> {
    const sequences = members.map(({ sequence }) => sequence)
    const same = this.groups.find((group) => group.sequences.length === sequences.length &&
      group.sequences.every((sequence, i) => sequence === sequences[i]))
    return same ?? { sequences, batch: this.decoder.pack(members.map(({ source }) => source)) }
  }

  /** Writes one token of every sequence. A call that fails ends the sequences that were in it. */
  async step (): Promise<void> {
    this.regroup()
    for (const group of this.groups) await this.stepGroup(group)
  }

  private async stepGroup (group: Group<B>): Promise<void> {
    const { sequences } = group
    let made
    try {
      const tokens = sequences.map(({ ids }) => [ids.at(-1) as number])
      made = await this.decoder.forward(group.batch, tokens, true)
    } catch (error) {
      for (const sequence of sequences) {
        sequence.fail(error)
        this.gone.add(sequence)
      }
      return
    }
    group.batch = made.batch
    let since = this.clock.now()
    for (const [row, sequence] of sequences.entries()) {
      // Keeping to a grammar can take long: other events are let in between two sequences.
      if (this.clock.now() - since > HELD_MS) {
        await this.clock.yieldToEvents()
        since = this.clock.now()
      }
      const stays = sequence.cancelled || sequence.advance(made.logits[row] as Float32Array)
      if (!stays) this.leave(sequence)
    }
  }
}

/** What a call costs, in any one unit. */
export interface CallCost {
  /** Of a call, whatever its rows. */
  call: number
  /** Of one token of state of one row, padding included. */
  token: number
  /** Most rows of one call. */
  maxRows: number
  /** False where rows of one call must have the same length. */
  ragged: boolean
}

/**
 * Splits sequences into batches so that the sum of costs is least: rows are padded to the longest of their
 * batch, and every forward pass reads all weights, so a small batch wastes memory bandwidth. Answers indexes
 * into `lengths`, within a batch from the shortest to the longest, equal ones in their order.
 */
export function partition (lengths: readonly number[], cost: CallCost): number[][] {
  const order = lengths.map((_, i) => i).sort((a, b) => at(lengths, a) - at(lengths, b) || a - b)
  const sorted = order.map((i) => at(lengths, i))
  const least: number[] = [0]
  const from: number[] = [0]
  for (let end = 1; end <= sorted.length; end++) {
    least[end] = Infinity
    const longest = at(sorted, end - 1)
    for (let start = end - 1; start >= 0 && end - start <= cost.maxRows; start--) {
      if (!cost.ragged && at(sorted, start) !== longest) break
      const total = at(least, start) + cost.call + (end - start) * longest * cost.token
      if (total < at(least, end)) {
        least[end] = total
        from[end] = start
      }
    }
  }
  const groups: number[][] = []
  for (let end = sorted.length; end > 0; end = at(from, end)) groups.unshift(order.slice(at(from, end), end))
  return groups
}

const at = (list: readonly number[], i: number): number => list[i] as number
