import type { Automaton, Edge } from './automaton.js'
import { spend } from './budget.js'
import { ESCAPED, SHORT_ESCAPES } from './charset.js'
import { frameOf, Rule } from './machine.js'
import type { Frame, State } from './machine.js'

const QUOTE = 0x22
const BACKSLASH = 0x5c
/** State before the opening quote. */
const OPEN = -1
const escapes = (low: number, high: number): boolean =>
  ESCAPED.some(([from, to]) => from <= high && to >= low)
const needsEscape = (code: number): boolean => ESCAPED.some(([from, to]) => code >= from && code <= to)

/** Place inside a character: code points it may still become, and bytes that are missing. */
interface Partial { state: number, low: number, high: number, missing: number }

/**
 * A JSON string whose content an automaton accepts. Characters stand for themselves or, where they must be
 * escaped, as their short escape. States: a number between characters; `state\` after a backslash;
 * `state:prefix:missing:least` inside a character of several bytes.
 */
export class Pattern extends Rule {
  private readonly automaton: Automaton

  constructor (hole: Frame, automaton: Automaton) {
    super(hole)
    this.automaton = automaton
  }

  measure (): number {
    return 2 + (this.automaton.rest[0] ?? Infinity)
  }

  start (ret: Frame): readonly Frame[] {
    return [frameOf(this, OPEN, ret)]
  }

  step (frame: Frame, byte: number): readonly Frame[] {
    const ret = frame.ret as Frame
    const { state } = frame
    if (state === OPEN) return byte === QUOTE ? [frameOf(this, 0, ret)] : []
    if (typeof state === 'string') {
      spend(70)
      const next = state.endsWith('\\') ? this.escaped(parseInt(state, 10), byte)
        : this.continued(state, byte)
      return next === null ? [] : [frameOf(this, next, ret)]
    }
    if (byte === QUOTE) return this.automaton.accepting[state] === true ? [ret] : []
    spend(30)
    const next = this.begun(state, byte)
    return next === null ? [] : [frameOf(this, next, ret)]
  }

  rest (state: State): number {
    if (state === OPEN) return this.least
    if (typeof state === 'number') return (this.automaton.rest[state] ?? Infinity) + 1
    if (state.endsWith('\\')) {
      return this.shortest(parseInt(state, 10), 0, 0x7f, (low, high) => escapes(low, high) ? 1 : Infinity)
    }
    const { state: from, low, high, missing } = partial(state)
    return this.shortest(from, low, high, () => missing)
  }

  private begun (state: number, byte: number): State | null {
    if (byte === BACKSLASH) return this.rest(`${state}\\`) < Infinity ? `${state}\\` : null
    if (byte < 0x80) return byte < 0x20 || needsEscape(byte) ? null : this.after(state, byte)
    if (byte >= 0xc2 && byte <= 0xdf) return this.inside(state, byte & 0x1f, 1)
    if (byte >= 0xe0 && byte <= 0xef) return this.inside(state, byte & 0x0f, 2)
    if (byte >= 0xf0 && byte <= 0xf4) return this.inside(state, byte & 0x07, 3)
    return null
  }

  private escaped (state: number, byte: number): State | null {
    const code = SHORT_ESCAPES.get(byte)
    return code === undefined ? null : this.after(state, code)
  }

  private continued (state: string, byte: number): State | null {
    if ((byte & 0xc0) !== 0x80) return null
    const [from = 0, prefix = 0, missing = 0, least = 0] = state.split(':').map(Number)
    const longer = (prefix << 6) | (byte & 0x3f)
    if (missing > 1) return this.inside(from, longer, missing - 1, least)
    return longer < least ? null : this.after(from, longer)
  }

  /** A place inside a character, if any character from there fits. */
  private inside (state: number, prefix: number, missing: number,
    least = [0, 0x80, 0x800, 0x10000][missing] ?? 0): State | null {
    const name = `${state}:${prefix}:${missing}:${least}`
    return this.rest(name) < Infinity ? name : null
  }

  private after (state: number, code: number): number | null {
    const edge = this.automaton.edges[state]?.find((e) => code >= e.low && code <= e.high)
    return edge === undefined ? null : edge.to
  }

  private shortest (state: number, low: number, high: number, cost: (low: number, high: number) =>
  number): number {
    const way = (e: Edge): number => {
      const [from, to] = [Math.max(low, e.low), Math.min(high, e.high)]
      return from > to ? Infinity : cost(from, to) + (this.automaton.rest[e.to] ?? Infinity)
    }
    const edges = this.automaton.edges[state] ?? []
    spend(70 + 2 * edges.length)
    return Math.min(Infinity, ...edges.map(way)) + 1
  }
}

/** The code points a half-written character may still become; `low` respects the least one of its length. */
function partial (name: string): Partial {
  const [state = 0, prefix = 0, missing = 0, least = 0] = name.split(':').map(Number)
  const low = prefix << (missing * 6)
  return { state, low: Math.max(low, least), high: Math.min(0x10ffff, low + (1 << (missing * 6)) - 1),
    missing }
}
