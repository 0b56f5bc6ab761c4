/** The kinds of rules that are made of automata and of other rules. */
import { distances, follow } from './automaton.js'
import type { Automaton } from './automaton.js'
import { spend } from './budget.js'
import { frameOf, Rule, stepInto } from './machine.js'
import type { Frame, State } from './machine.js'

/** The bytes that an automaton accepts: fixed texts, numbers, white space. State: that of the automaton. */
export class Fixed extends Rule {
  override readonly takesMarkers: boolean
  private readonly automaton: Automaton
  private readonly rests: readonly number[]

  constructor (hole: Frame, automaton: Automaton, takesMarkers = false) {
    super(hole)
    this.automaton = automaton
    this.takesMarkers = takesMarkers
    this.rests = distances(automaton, () => 1)
  }

  measure (): number {
    return this.rest(0)
  }

  start (ret: Frame): readonly Frame[] {
    return [frameOf(this, 0, ret)]
  }

  step (frame: Frame, byte: number): readonly Frame[] {
    const { edges } = this.automaton
    const to = follow(edges[frame.state as number], byte)
    if (to === undefined) return []
    const ret = frame.ret as Frame
    return edges[to]?.length === 0 ? [ret] : [frameOf(this, to, ret)]
  }

  rest (state: State): number {
    return this.rests[state as number] as number
  }

  override complete (state: State): boolean {
    return this.automaton.accepting[state as number] === true
  }
}

/** Free text, in which special tokens count as nothing. `mayEnd`: the output may end in it at any place. */
export class Free extends Fixed {
  private readonly mayEnd: boolean

  constructor (hole: Frame, automaton: Automaton, mayEnd: boolean) {
    super(hole, automaton, true)
    this.mayEnd = mayEnd
  }

  override rest (state: State): number {
    return this.mayEnd ? 0 : super.rest(state)
  }

  override final (): boolean {
    return this.mayEnd
  }
}

/** One way on from a place: a rule, and the state after its value; null where the whole value is over. */
export interface Way { rule: Rule, to: number | null }

/** A value that is made of others. State 0 is its beginning. */
abstract class Composite extends Rule {
  override readonly takesMarkers = true

  /** The ways on from a state. */
  protected abstract ways (state: number): readonly Way[]

  start (ret: Frame): readonly Frame[] {
    return this.ways(0).flatMap(({ rule, to }) => rule.start(this.after(to, ret)))
  }

  step (frame: Frame, byte: number): readonly Frame[] {
    const ret = frame.ret as Frame
    return this.ways(frame.state as number).flatMap(({ rule, to }) =>
      stepInto(rule, this.after(to, ret), byte))
  }

  measure (): number {
    return this.shortest(0)
  }

  rest (state: State): number {
    return this.complete(state) ? 0 : this.shortest(state as number)
  }

  private shortest (state: number): number {
    return Math.min(Infinity, ...this.ways(state).map(({ rule, to }) =>
      rule.least + (to === null ? 0 : this.rest(to))))
  }

  private after (to: number | null, ret: Frame): Frame {
    return to === null ? ret : frameOf(this, to, ret)
  }
}

/** One of several kinds of value. Options may be added until the first start. */
export class Choice extends Composite {
  readonly options: Rule[] = []

  protected ways (): readonly Way[] {
    return this.options.filter((o) => o.least < Infinity).map((rule) => ({ rule, to: null }))
  }
}

/** Several values one after the other. */
export class Sequence extends Composite {
  private readonly parts: readonly Way[]

  constructor (hole: Frame, parts: readonly Rule[]) {
    super(hole)
    this.parts = parts.map((rule, i) => ({ rule, to: i + 1 < parts.length ? i + 1 : null }))
  }

  protected ways (state: number): readonly Way[] {
    return this.parts.slice(state, state + 1)
  }
}

/** A value, then up to `max` - 1 times another one. */
export class Repeat extends Composite {
  private readonly first: Rule
  private readonly others: Rule
  private readonly max: number

  constructor (hole: Frame, first: Rule, others: Rule, max: number) {
    super(hole)
    this.first = first
    this.others = others
    this.max = max
  }

  protected ways (done: number): readonly Way[] {
    return done >= this.max ? [] : [{ rule: done === 0 ? this.first : this.others, to: done + 1 }]
  }

  override complete (state: State): boolean {
    return state !== 0
  }
}

/** What stands around and between the elements of a list, white space included; `end` has none in front. */
export interface Brackets { open: Rule, comma: Rule, close: Rule, end: Rule }

/** What a list may hold. */
export interface ListShape {
  /** Elements in their order; one that is not required may be left out for a later one. */
  elements: readonly { rule: Rule, required: boolean }[]
  /** What may follow them, any number of times; null: nothing. */
  others: Rule | null
  /** Elements in all. */
  min: number
  max: number
  /** The list may end only after so many of `elements`. */
  needed: number
}

const [FIRST, AFTER, NEXT, PHASES] = [0, 1, 2, 3]

/**
 * A JSON object (its elements are entries) or array. Declared properties come in the order of their
 * declaration, which is narrower than the schema, and still valid.
 *
 * State: 0 before the bracket; else the next element, the elements so far (as far as their number matters),
 * and whether an element may follow at once, after a comma, or has to.
 */
export class List extends Composite {
  private readonly brackets: Brackets
  private readonly shape: ListShape
  /** Elements are counted up to here; more make no difference. */
  private readonly countTo: number
  private readonly rests = new Map<number, number>()

  constructor (hole: Frame, brackets: Brackets, shape: ListShape) {
    super(hole)
    this.brackets = brackets
    this.shape = shape
    this.countTo = shape.max === Infinity ? shape.min : shape.max
  }

  protected ways (state: number): readonly Way[] {
    const { open, comma, close, end } = this.brackets
    if (state === 0) return [{ rule: open, to: this.stateOf(0, 0, FIRST) }]
    const { at, count, phase } = this.placeOf(state)
    const ways: Way[] = []
    const closes = phase !== NEXT && this.mayClose(at, count)
    if (closes) ways.push({ rule: phase === FIRST ? end : close, to: null })
    if (phase === AFTER) return [...ways, { rule: comma, to: this.stateOf(at, count, NEXT) }]
    for (const i of this.candidates(at, count)) {
      ways.push({ rule: this.element(i), to: this.stateOf(i + 1, this.counted(count + 1), AFTER) })
    }
    return ways
  }

  override measure (): number {
    const { elements, min } = this.shape
    const { length } = elements
    let required = elements.filter((e) => e.required).length
    this.rests.clear()
    // From the back, so that the recursion of restFrom stays short.
    for (let at = length; at >= 0; at--) {
      const most = this.counted(at === length ? Math.max(at, min) : at)
      for (let count = most; count >= this.counted(required); count--) this.restFrom(at, count, 1)
      if (elements[at - 1]?.required === true) required--
    }
    const least = 1 + this.restFrom(0, 0, 0)
    this.rests.clear()
    return least
  }

  override rest (state: State): number {
    if (state === 0) return this.least
    const { at, count, phase } = this.placeOf(state as number)
    return phase === NEXT ? this.nextRest(at, count) : this.restFrom(at, count, phase === AFTER ? 1 : 0)
  }

  /** Elements that may come next: up to the next required one, then others (one past the last). */
  private candidates (at: number, count: number): number[] {
    const { elements, others } = this.shape
    const out: number[] = []
    spend(10)
    for (let i = at; i < elements.length; i++) {
      spend(4)
      if (this.elementRest(i, count) < Infinity) out.push(i)
      if (elements[i]?.required === true) return out
    }
    if (others !== null && this.elementRest(elements.length, count) < Infinity) out.push(elements.length)
    return out
  }

  private mayClose (at: number, count: number): boolean {
    return count >= this.shape.min && at >= this.shape.needed
  }

  /** Bytes of element i and all that must follow it. */
  private elementRest (i: number, count: number): number {
    if (count + 1 > this.shape.max) return Infinity
    const { least } = this.element(i)
    return least === Infinity ? Infinity : least + this.restFrom(i + 1, this.counted(count + 1), 1)
  }

  private nextRest (at: number, count: number): number {
    return Math.min(Infinity, ...this.candidates(at, count).map((i) => this.elementRest(i, count)))
  }

  /** Bytes to the end of the list; `comma`: of a comma before another element. */
  private restFrom (at: number, count: number, comma: number): number {
    const place = Math.min(at, this.shape.elements.length)
    if (this.mayClose(place, count)) return 1
    const key = this.stateOf(place, count, comma)
    const known = this.rests.get(key)
    if (known !== undefined) return known
    this.rests.set(key, Infinity)
    const rest = comma + this.nextRest(place, count)
    this.rests.set(key, rest)
    return rest
  }

  private element (i: number): Rule {
    return this.shape.elements[i]?.rule ?? this.shape.others as Rule
  }

  private counted (count: number): number {
    return Math.min(count, this.countTo)
  }

  private stateOf (at: number, count: number, phase: number): number {
    const place = Math.min(at, this.shape.elements.length)
    return 1 + (place * (this.countTo + 1) + count) * PHASES + phase
  }

  private placeOf (state: number): { at: number, count: number, phase: number } {
    const [counts, place] = [this.countTo + 1, Math.floor((state - 1) / PHASES)]
    return { at: Math.floor(place / counts), count: place % counts, phase: (state - 1) % PHASES }
  }
}
