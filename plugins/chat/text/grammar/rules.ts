/** The kinds of rules that are made of automata and of other rules. */
import { distances, follow } from './automaton.js'
import type { Automaton } from './automaton.js'
import { spend } from './budget.js'
import { frameOf, Rule, stepInto, type Frame, type RuleSet, type State } from './machine.js'

/** The bytes that an automaton accepts: fixed texts, numbers, white space. State: that of the automaton. */
export class Fixed extends Rule {
  override readonly takesMarkers: boolean
  private readonly automaton: Automaton
  private readonly rests: readonly number[]

  constructor (set: RuleSet, automaton: Automaton, takesMarkers = false) {
    super(set)
    this.automaton = automaton
    this.takesMarkers = takesMarkers
    this.rests = distances(automaton, () => 1)
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

/**
 * Free text. `mayEnd`: the output may end in it at any place. Special tokens in it are passed over, but for
 * those that are barred.
 */
export class Free extends Fixed {
  private readonly mayEnd: boolean
  private readonly barred: readonly string[] | 'all'

  constructor (set: RuleSet, automaton: Automaton, mayEnd: boolean, barred: readonly string[] | 'all' = []) {
    super(set, automaton, true)
    this.mayEnd = mayEnd
    this.barred = barred
  }

  /** Whether a special token may stand in it. */
  passes (token: Uint8Array): boolean {
    return this.barred !== 'all' && !this.barred.some((marker) => Buffer.from(marker).equals(token))
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

  override start (ret: Frame): readonly Frame[] {
    return this.ways(0).flatMap(({ rule, to }) => rule.start(this.after(to, ret)))
  }

  step (frame: Frame, byte: number): readonly Frame[] {
    const ret = frame.ret as Frame
    return this.ways(frame.state as number).flatMap(({ rule, to }) =>
      stepInto(rule, this.after(to, ret), byte))
  }

  rest (state: State): number {
    if (this.complete(state)) return 0
    return Math.min(Infinity, ...this.ways(state as number).map(({ rule, to }) =>
      rule.least + (to === null ? 0 : this.rest(to))))
  }

  private after (to: number | null, ret: Frame): Frame {
    return to === null ? ret : frameOf(this, to, ret)
  }
}

/** One of several kinds of value. Options may be added until the first start. */
export class Choice extends Composite {
  readonly options: Rule[]

  constructor (set: RuleSet, options: Rule[] = []) {
    super(set)
    this.options = options
  }

  protected ways (): readonly Way[] {
    return this.options.filter((o) => o.least < Infinity).map((rule) => ({ rule, to: null }))
  }
}

/** Several values one after the other. Those after the first `required` may be left out, from the end. */
export class Sequence extends Composite {
  private readonly parts: readonly Way[]
  private readonly required: number

  constructor (set: RuleSet, parts: readonly Rule[], required = parts.length) {
    super(set)
    this.parts = parts.map((rule, i) => ({ rule, to: i + 1 < parts.length ? i + 1 : null }))
    this.required = required
  }

  protected ways (state: number): readonly Way[] {
    return this.parts.slice(state, state + 1)
  }

  override complete (state: State): boolean {
    return state as number >= this.required
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

  constructor (set: RuleSet, brackets: Brackets, shape: ListShape) {
    super(set)
    this.brackets = brackets
    this.shape = shape
    this.countTo = shape.max === Infinity ? shape.min : shape.max
  }

  override measure (): number {
    const { elements, min } = this.shape
    let required = elements.filter((e) => e.required).length
    this.rests.clear()
    // From the back, so that the recursion of `rest` stays short.
    for (let at = elements.length; at >= 0; at--) {
      const most = this.counted(at === elements.length ? Math.max(at, min) : at)
      for (let count = most; count >= this.counted(required); count--) {
        this.rest(this.stateOf(at, count, AFTER))
      }
      if (elements[at - 1]?.required === true) required--
    }
    return super.measure()
  }

  override rest (state: State): number {
    const known = this.rests.get(state as number)
    if (known !== undefined) return known
    const rest = this.mayClose(state as number) ? this.closing(state as number).least : super.rest(state)
    this.rests.set(state as number, rest)
    return rest
  }

  protected ways (state: number): readonly Way[] {
    const { open, comma } = this.brackets
    if (state === 0) return [{ rule: open, to: this.stateOf(0, 0, FIRST) }]
    const { at, count, phase } = this.placeOf(state)
    const closing = this.mayClose(state) ? [{ rule: this.closing(state), to: null }] : []
    if (phase === AFTER) return [...closing, { rule: comma, to: this.stateOf(at, count, NEXT) }]
    return [...closing, ...this.elements(at, count)]
  }

  /** Elements that may come next: up to the next required one, then others. */
  private elements (at: number, count: number): Way[] {
    const { elements, others, max } = this.shape
    const ways: Way[] = []
    spend(10)
    const add = (rule: Rule, next: number): void => {
      const to = this.stateOf(next, this.counted(count + 1), AFTER)
      spend(4)
      if (rule.least + this.rest(to) < Infinity) ways.push({ rule, to })
    }
    if (count >= max) return ways
    for (const [i, { rule, required }] of elements.slice(at).entries()) {
      add(rule, at + i + 1)
      if (required) return ways
    }
    if (others !== null) add(others, elements.length)
    return ways
  }

  private mayClose (state: number): boolean {
    if (state === 0) return false
    const { at, count, phase } = this.placeOf(state)
    return phase !== NEXT && count >= this.shape.min && at >= this.shape.needed
  }

  private closing (state: number): Rule {
    const { end, close } = this.brackets
    return this.placeOf(state).phase === FIRST ? end : close
  }

  private counted (count: number): number {
    return Math.min(count, this.countTo)
  }

  private stateOf (at: number, count: number, phase: number): number {
    return 1 + (at * (this.countTo + 1) + count) * PHASES + phase
  }

  private placeOf (state: number): { at: number, count: number, phase: number } {
    const [counts, place] = [this.countTo + 1, Math.floor((state - 1) / PHASES)]
    return { at: Math.floor(place / counts), count: place % counts, phase: (state - 1) % PHASES }
  }
}
