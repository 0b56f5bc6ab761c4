import { spend } from './budget.js'
import { frameOf, Rule, stepFrame, stepInto } from './machine.js'
import type { Frame, State } from './machine.js'
import { SPACES, stepSpace } from './space.js'

/** A declared property; `name` is a rule for the quoted name. */
export interface Property { name: Rule, value: Rule, required: boolean }

/** What an object may hold. Other entries come after the declared ones; `min` and `max` count entries. */
export interface ObjectShape { properties: readonly Property[], others: { name: Rule, value: Rule } | null,
  min: number, max: number }

const [BEFORE, OPEN, NAMED, VALUE, AFTER, NEXT] = [0, 1, 2, 3, 4, 5]
const PHASES = 6
const [BRACE, CLOSE, COLON, COMMA] = [0x7b, 0x7d, 0x3a, 0x2c]

/** Where one is in an object: the next declared property, entries so far, phase and white space. */
interface Place { at: number, count: number, phase: number, space: number }

/**
 * A JSON object. Declared properties come in the order of their declaration (a narrower language, still
 * valid): a property can be left out only for a later one or the end.
 */
export class ObjectRule extends Rule {
  private readonly shape: ObjectShape
  /** Entries are counted up to here; more make no difference. */
  private readonly countTo: number
  private readonly lastRequired: number
  private readonly rests = new Map<number, number>()

  constructor (hole: Frame, shape: ObjectShape) {
    super(hole)
    this.shape = shape
    this.countTo = shape.max === Infinity ? shape.min : shape.max
    this.lastRequired = shape.properties.findLastIndex((p) => p.required)
  }

  measure (): number {
    this.rests.clear()
    // From the back, so that the recursion of restFrom stays short.
    for (let at = this.shape.properties.length; at > 0; at--) {
      for (let count = 0; count <= Math.min(at, this.countTo); count++) this.restFrom(at, count, 1)
    }
    const least = 1 + this.restFrom(0, 0, 0)
    this.rests.clear()
    return least
  }

  start (ret: Frame): readonly Frame[] {
    return [this.frame({ at: 0, count: 0, phase: BEFORE, space: 0 }, ret)]
  }

  step (frame: Frame, byte: number): readonly Frame[] {
    const ret = frame.ret as Frame
    const place = this.place(frame.state)
    const { phase, at, count } = place
    if (phase === BEFORE) return byte === BRACE ? [this.frame({ ...place, phase: OPEN }, ret)] : []
    const space = stepSpace(place.space, byte)
    if (space >= 0) return [this.frame({ ...place, space }, ret)]
    if (phase === NAMED) return byte === COLON ? [this.frame({ ...place, phase: VALUE, space: 0 }, ret)] : []
    if (phase === VALUE) {
      return stepInto(this.valueAt(at - 1), this.frame({ ...place, phase: AFTER, space: 0 }, ret), byte)
    }
    if (phase !== NEXT && byte === CLOSE) return this.mayClose(at, count) ? [ret] : []
    if (phase === AFTER) {
      const more = byte === COMMA && this.candidates(at, count).length > 0
      return more ? [this.frame({ ...place, phase: NEXT, space: 0 }, ret)] : []
    }
    return this.stepName(at, count, ret, byte)
  }

  rest (state: State): number {
    const { at, count, phase } = this.place(state)
    if (phase === BEFORE) return this.least
    if (phase === OPEN) return this.restFrom(at, count, 0)
    if (phase === AFTER) return this.restFrom(at, count, 1)
    if (phase === NEXT) return this.nextRest(at, count)
    return (phase === NAMED ? 1 : 0) + this.valueAt(at - 1).least + this.restFrom(at, count, 1)
  }

  private stepName (at: number, count: number, ret: Frame, byte: number): readonly Frame[] {
    return this.candidates(at, count).flatMap((i) => {
      const named = this.frame({ at: i + 1, count: this.counted(count + 1), phase: NAMED, space: 0 }, ret)
      return this.nameAt(i).start(named).flatMap((f) => stepFrame(f, byte))
    })
  }

  /**
   * Entries that may come next: declared ones up to the next required one, then others (one past the last).
   */
  private candidates (at: number, count: number): number[] {
    const { properties, others } = this.shape
    const out: number[] = []
    let i = Math.min(at, properties.length)
    spend(10)
    for (; i < properties.length; i++) {
      spend(4)
      if (this.entryRest(i, count) < Infinity) out.push(i)
      if (properties[i]?.required === true) return out
    }
    if (others !== null && this.entryRest(properties.length, count) < Infinity) out.push(properties.length)
    return out
  }

  private mayClose (at: number, count: number): boolean {
    return count >= this.shape.min && at > this.lastRequired
  }

  /** Bytes of entry i and all that must follow it. */
  private entryRest (i: number, count: number): number {
    if (count + 1 > this.shape.max) return Infinity
    const entry = this.nameAt(i).least + 1 + this.valueAt(i).least
    return entry === Infinity ? Infinity : entry + this.restFrom(i + 1, this.counted(count + 1), 1)
  }

  private nextRest (at: number, count: number): number {
    return Math.min(Infinity, ...this.candidates(at, count).map((i) => this.entryRest(i, count)))
  }

  /** Bytes to the end of the object; `comma`: of a comma before another entry. */
  private restFrom (at: number, count: number, comma: number): number {
    const place = Math.min(at, this.shape.properties.length)
    if (this.mayClose(place, count)) return 1
    const key = (place * (this.countTo + 1) + count) * 2 + comma
    const known = this.rests.get(key)
    if (known !== undefined) return known
    this.rests.set(key, Infinity)
    const rest = comma + this.nextRest(place, count)
    this.rests.set(key, rest)
    return rest
  }

  private nameAt (i: number): Rule {
    return (this.shape.properties[i] ?? this.shape.others as { name: Rule }).name
  }

  private valueAt (i: number): Rule {
    return (this.shape.properties[i] ?? this.shape.others as { value: Rule }).value
  }

  private counted (count: number): number {
    return Math.min(count, this.countTo)
  }

  private frame (place: Place, ret: Frame): Frame {
    const { phase, space } = place
    const at = Math.min(place.at, this.shape.properties.length + 1)
    return frameOf(this, ((at * (this.countTo + 1) + place.count) * PHASES + phase) * SPACES + space, ret)
  }

  private place (state: State): Place {
    const counts = this.countTo + 1
    const space = (state as number) % SPACES
    const rest = Math.floor((state as number) / SPACES)
    const places = Math.floor(rest / PHASES)
    return { space, phase: rest % PHASES, count: places % counts, at: Math.floor(places / counts) }
  }
}

/** What an array may hold: `first` by position, then `others` (null: nothing). */
export interface ArrayShape { first: readonly Rule[], others: Rule | null, min: number, max: number }

const [BRACKET, END] = [0x5b, 0x5d]

/** A JSON array. State: items so far (as far as they matter), phase and white space. */
export class ArrayRule extends Rule {
  private readonly shape: ArrayShape
  private readonly countTo: number

  constructor (hole: Frame, shape: ArrayShape) {
    super(hole)
    this.shape = shape
    this.countTo = shape.max === Infinity ? Math.max(1, shape.min, shape.first.length) : shape.max
  }

  measure (): number {
    return 1 + this.restFrom(0)
  }

  start (ret: Frame): readonly Frame[] {
    return [this.frame(0, BEFORE, 0, ret)]
  }

  step (frame: Frame, byte: number): readonly Frame[] {
    const ret = frame.ret as Frame
    const { count, phase, space } = this.place(frame.state)
    if (phase === BEFORE) return byte === BRACKET ? [this.frame(0, OPEN, 0, ret)] : []
    const more = stepSpace(space, byte)
    if (more >= 0) return [this.frame(count, phase, more, ret)]
    if (phase !== NEXT && byte === END) return count >= this.shape.min ? [ret] : []
    if (!this.hasItem(count)) return []
    if (phase === AFTER) return byte === COMMA ? [this.frame(count, NEXT, 0, ret)] : []
    const after = this.frame(Math.min(count + 1, this.countTo), AFTER, 0, ret)
    return stepInto(this.item(count) as Rule, after, byte)
  }

  rest (state: State): number {
    const { count, phase } = this.place(state)
    if (phase === BEFORE) return this.least
    if (phase === NEXT) return this.restFrom(count, true) - 1
    return this.restFrom(count)
  }

  /** Bytes to the end after `count` items; `another`: one more has to come. */
  private restFrom (count: number, another = false): number {
    let bytes = 1
    spend(Math.max(0, this.shape.min - count))
    for (let i = count; i < this.shape.min || (another && i === count); i++) {
      if (!this.hasItem(i)) return Infinity
      bytes += (i > 0 ? 1 : 0) + (this.item(i) as Rule).least
    }
    return bytes
  }

  private hasItem (count: number): boolean {
    return count < this.shape.max && (this.item(count)?.least ?? Infinity) < Infinity
  }

  private item (count: number): Rule | null {
    return this.shape.first[count] ?? this.shape.others
  }

  private frame (count: number, phase: number, space: number, ret: Frame): Frame {
    return frameOf(this, (count * PHASES + phase) * SPACES + space, ret)
  }

  private place (state: State): { count: number, phase: number, space: number } {
    const rest = Math.floor((state as number) / SPACES)
    return { space: (state as number) % SPACES, phase: rest % PHASES, count: Math.floor(rest / PHASES) }
  }
}
