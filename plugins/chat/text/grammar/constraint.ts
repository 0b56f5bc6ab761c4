import { bytesOf } from '../tokens.js'
import type { TokenTable } from '../tokens.js'
import type { Constraint } from '../sampler.js'
import { Budget } from './budget.js'
import { configOf, epoch, forget, stepBytes } from './machine.js'
import type { Config, Frame } from './machine.js'
import type { Masks } from './mask.js'
import { Free } from './rules.js'

/** Steps that finding the tokens of one place of an output may take; most take a fifth of it. */
const MASK_STEPS = 5_000_000

/** A compiled grammar, and the field of the request it is from. */
export interface Grammar { start: Config, path: string }

/** What a grammar is enforced with, the same for all sequences of a model. */
export interface GrammarTools { table: TokenTable, masks: Masks, eosIds: ReadonlySet<number> }

/**
 * Keeps one sequence to a grammar. With `maxTokens` it also keeps the output able to end in time: a token
 * is allowed only if the shortest way to the end still fits, counted in bytes (every byte of it is a token
 * at worst) and the end token. Where even the shortest output does not fit, this is not tried.
 */
export class GrammarConstraint implements Constraint {
  private readonly tools: GrammarTools
  private readonly path: string
  private epoch = epoch()
  private config: Config | null
  private remaining: number
  private timed: boolean

  constructor (tools: GrammarTools, { start, path }: Grammar, maxTokens: number | undefined) {
    this.tools = tools
    this.path = path
    this.config = start
    this.remaining = maxTokens ?? Infinity
    this.timed = maxTokens !== undefined && start.closing + 1 <= maxTokens
  }

  mask (logits: Float32Array): void {
    const { config } = this
    const kept = this.specialsFor(config).map((id) => [id, logits[id] as number] as const)
    if (config === null) logits.fill(-Infinity)
    else apply(this.allowed(config), logits)
    for (const [id, value] of kept) logits[id] = value
  }

  allows (id: number): boolean {
    if (this.tools.eosIds.has(id)) return this.config?.final ?? true
    const next = this.after(id)
    return next !== null && (!this.timed || next.closing + 2 <= this.remaining)
  }

  accept (id: number): void {
    this.remaining--
    this.config = this.tools.eosIds.has(id) ? null : this.after(id)
  }

  restrict (logits: Float32Array): void {
    const fitting: [number, number][] = []
    for (let id = 0; id < logits.length; id++) {
      const value = logits[id] as number
      if (value > -Infinity && this.allows(id)) fitting.push([id, value])
    }
    if (fitting.length === 0) {
      // Some byte of the shortest way is no token: the output goes on, and may not end in time.
      this.timed = false
      return
    }
    logits.fill(-Infinity)
    for (const [id, value] of fitting) logits[id] = value
  }

  /** The tokens that may come next. Throws `invalid_request` where finding them takes too much. */
  private allowed (config: Config): Uint32Array {
    if (this.epoch !== epoch()) forget(config)
    this.epoch = epoch()
    return new Budget(MASK_STEPS).run(this.path, () => this.tools.masks.of(config))
  }

  /** The config after a token; null where it does not fit. */
  private after (id: number): Config | null {
    const { table, eosIds } = this.tools
    if (this.config === null || eosIds.has(id)) return null
    const bytes = bytesOf(table, id)
    if (!table.special.has(id)) return bytes.length === 0 ? null : stepBytes(this.config, bytes)
    // At each place a special token either spells a marker of the grammar, or is passed over in free text.
    return configOf(this.config.frames.flatMap(markersAt).flatMap((frame) =>
      markerAfter(frame.alone, bytes)?.frames ??
      (frame.rule instanceof Free && frame.rule.passes(bytes) ? [frame] : [])))
  }

  /** Special tokens that may come next: the end, markers, and all in free text. */
  private specialsFor (config: Config | null): number[] {
    const { eosIds, table } = this.tools
    if (config === null) return [...eosIds]
    const out = config.final ? [...eosIds] : []
    if (config.frames.every((f) => markersAt(f).length === 0)) return out
    for (const id of table.special) if (!eosIds.has(id) && this.after(id) !== null) out.push(id)
    return out
  }
}

/** The frames at which a special token may spell a marker: this one, or those of what may follow it. */
function markersAt (frame: Frame): Frame[] {
  if (frame.rule?.takesMarkers === true) return [frame]
  return frame.complete && frame.ret !== null ? markersAt(frame.ret) : []
}

/** In free text a marker token counts only as a whole: afterwards no frame may be inside free text. */
function markerAfter (takers: Config, bytes: Uint8Array): Config | null {
  const next = bytes.length === 0 ? null : stepBytes(takers, bytes)
  return next === null ? null : configOf(next.frames.filter((f) => !(f.rule instanceof Free)))
}

/** Sets the logits of all ids that are not in the set to -Infinity. */
function apply (bits: Uint32Array, logits: Float32Array): void {
  for (let w = 0; w * 32 < logits.length; w++) {
    const word = bits[w] ?? 0
    if (word === 0xffffffff) continue
    const from = w * 32
    const to = Math.min(from + 32, logits.length)
    if (word === 0) logits.fill(-Infinity, from, to)
    else for (let id = from; id < to; id++) if ((word >>> (id - from) & 1) === 0) logits[id] = -Infinity
  }
}
