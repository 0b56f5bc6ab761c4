/** JSON strings: how characters are written, whatever the string may hold. */
import { distances, follow } from './automaton.js'
import type { Automaton, Edge } from './automaton.js'
import { spend } from './budget.js'
import { frameOf, Rule, type Frame, type RuleSet, type State } from './machine.js'
import { ANY } from './regex.js'

/** What a string may hold, as an automaton over characters whose states are numbers from 0. */
export interface Content {
  edges (state: number): readonly Edge[]
  accepts (state: number): boolean
  /** Bytes of the shortest way from a state to the end of the content, written as JSON. */
  rest (state: number): number
  /** A state with the same next tokens, of at most so many bytes, as this one; the same one for many. */
  alike (state: number, longest: number): number
}

/**
 * Texts of `min` to `max` characters (code points, as JSON Schema counts them). A state is the number of
 * characters so far, as far as it matters.
 */
export function lengthContent (min: number, max: number): Content {
  return {
    edges: (count) => count >= max ? [] : ANY.map(([low, high]) =>
      ({ low, high, to: max === Infinity ? Math.min(count + 1, min) : count + 1 })),
    accepts: (count) => count >= min,
    rest: (count) => min > max ? Infinity : Math.max(0, min - count),
    // Far from both bounds the number of characters makes no difference to the next token.
    alike: (count, longest) => min - count > longest
      ? min - longest - 1
      : count >= min && max - count > longest ? min : count
  }
}

/** Ranges of characters with the bytes that one of them takes in a JSON string, the shortest ways first. */
const WRITTEN: readonly (readonly [low: number, high: number, bytes: number, inAscii: number])[] = [
  [0x20, 0x21, 1, 1], [0x23, 0x5b, 1, 1], [0x5d, 0x7f, 1, 1], [0x22, 0x22, 2, 2], [0x5c, 0x5c, 2, 2],
  [0x08, 0x0a, 2, 2], [0x0c, 0x0d, 2, 2], [0x80, 0x7ff, 2, 6], [0x800, 0xffff, 3, 6],
  [0x10000, 0x10ffff, 4, 12], [0, 0x1f, 6, 6]]

/** The texts of an automaton. `ascii`: characters outside ASCII are written as escapes. */
export function automatonContent (automaton: Automaton, ascii: boolean): Content {
  const rests = distances(automaton, (low, high) => Math.min(...WRITTEN.map(([from, to, bytes, inAscii]) =>
    from <= high && to >= low ? ascii ? inAscii : bytes : Infinity)))
  return {
    edges: (state) => automaton.edges[state] ?? [],
    accepts: (state) => automaton.accepting[state] === true,
    rest: (state) => rests[state] ?? Infinity,
    alike: (state) => state
  }
}

/** Texts that two contents accept; shortest ways are known where one of them can always go on. */
export function bothContents (a: Content, b: Content, states: number): Content {
  const split = (state: number): [number, number] => [Math.floor(state / states), state % states]
  return {
    edges: (state) => {
      const [p, q] = split(state)
      return a.edges(p).flatMap((e) => b.edges(q).flatMap((f) => {
        const [low, high] = [Math.max(e.low, f.low), Math.min(e.high, f.high)]
        return low > high ? [] : [{ low, high, to: e.to * states + f.to }]
      }))
    },
    accepts: (state) => a.accepts(split(state)[0]) && b.accepts(split(state)[1]),
    rest: (state) => Math.max(a.rest(split(state)[0]), b.rest(split(state)[1])),
    alike: (state, longest) => a.alike(split(state)[0], longest) * states + b.alike(split(state)[1], longest)
  }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
/** State before the opening quote. */
const OPEN = -1
/** Bytes after a backslash, and the characters they stand for. */
const ESCAPES: ReadonlyMap<number, number> = new Map(Object.entries(
  { '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' })
  .map(([byte, character]) => [byte.charCodeAt(0), character.charCodeAt(0)]))

/**
 * A character that is half written. Its code point begins with the bits `prefix`, `missing` more bytes
 * complete it: after a backslash, in UTF-8, in the digits of \u, or in the escape of a low surrogate.
 */
interface Half { from: number, form: 'escape' | 'utf8' | 'hex' | 'low', prefix: number, missing: number }

/** Bits that the missing bytes of an escaped low surrogate still add: `\`, `u`, `d` add none. */
const LOW_BITS = [0, 4, 8, 10, 10, 10, 10]
const bitsOf = ({ form, missing }: Half): number =>
  form === 'utf8' ? 6 * missing : form === 'hex' ? 4 * missing : LOW_BITS[missing] as number

/** The least character in UTF-8 whose first byte has no bits but its length, by the bytes after it. */
const LEAST = [0, 0, 0x800, 0x10000]
const [HIGH, LOW, ASTRAL] = [0xd800, 0xdc00, 0x10000]

/** The characters that a half-written one may become, as ranges with the bytes that are missing. */
function outcomes (half: Half): [low: number, high: number, bytes: number][] {
  const { form, prefix, missing } = half
  if (form === 'escape') {
    const short = [...ESCAPES.values()].map((code): [number, number, number] => [code, code, 1])
    return [...short, [0, 0xffff, 5], [ASTRAL, 0x10ffff, 11]]
  }
  const size = 2 ** bitsOf(half)
  const [low, high] = [prefix * size, (prefix + 1) * size - 1]
  if (form === 'utf8' && prefix === 0) return [[LEAST[missing] as number, high, missing]]
  const [from, to] = [Math.max(low, HIGH), Math.min(high, LOW - 1)]
  if (form !== 'hex' || from > to) return [[low, high, missing]]
  const astral = (code: number): number => ASTRAL + (code - HIGH) * 1024
  return [[low, high, missing], [astral(from), astral(to + 1) - 1, missing + 6]]
}

const textOf = ({ from, form, prefix, missing }: Half): string => `${from}:${form}:${prefix}:${missing}`

function halfOf (state: string): Half {
  const [from, form, prefix, missing] = state.split(':') as [string, Half['form'], string, string]
  return { from: Number(from), form, prefix: Number(prefix), missing: Number(missing) }
}

const isByte = (byte: number, character: string): boolean => byte === character.charCodeAt(0)

/**
 * A JSON string; with `quoted` false a text as it is, without quotes and escapes, which ends wherever its
 * content may. State: that of its content between two characters, a text inside of one.
 */
export class JsonString extends Rule {
  protected override readonly first: State
  private readonly content: Content
  private readonly quoted: boolean

  constructor (set: RuleSet, content: Content, quoted = true) {
    super(set)
    this.content = content
    this.quoted = quoted
    this.first = quoted ? OPEN : 0
  }

  step (frame: Frame, byte: number): readonly Frame[] {
    const ret = frame.ret as Frame
    const { state } = frame
    spend(60)
    if (state === OPEN) return byte === QUOTE ? [frameOf(this, 0, ret)] : []
    if (this.quoted && byte === QUOTE && typeof state === 'number') {
      return this.content.accepts(state) ? [ret] : []
    }
    const next = typeof state === 'number' ? this.begun(state, byte) : this.continued(halfOf(state), byte)
    return next === undefined ? [] : [frameOf(this, next, ret)]
  }

  rest (state: State): number {
    if (state === OPEN) return 2 + this.content.rest(0)
    const end = this.quoted ? 1 : 0
    if (typeof state === 'number') return this.content.rest(state) + end
    const half = halfOf(state)
    const edges = this.content.edges(half.from)
    spend(70 + 2 * edges.length)
    const ways = outcomes(half).flatMap(([low, high, bytes]) => edges
      .filter((edge) => edge.low <= high && edge.high >= low)
      .map(({ to }) => bytes + this.content.rest(to) + end))
    return Math.min(Infinity, ...ways)
  }

  override complete (state: State): boolean {
    return !this.quoted && typeof state === 'number' && this.content.accepts(state)
  }

  override alike (state: State, longest: number): State {
    if (state === OPEN) return state
    if (typeof state === 'number') return this.content.alike(state, longest)
    const half = halfOf(state)
    return textOf({ ...half, from: this.content.alike(half.from, longest) })
  }

  /** The state after the first byte of a character. */
  private begun (from: number, byte: number): State | undefined {
    if (!this.quoted && byte < 0x80) return this.ended(from, byte)
    if (byte === BACKSLASH) return textOf({ from, form: 'escape', prefix: 0, missing: 1 })
    if (byte < 0x80) return byte < 0x20 ? undefined : this.ended(from, byte)
    const missing = byte < 0xc2 || byte > 0xf4 ? 0 : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3
    if (missing === 0) return undefined
    return this.inside({ from, form: 'utf8', prefix: byte & (0x3f >> missing), missing })
  }

  /** The state after a further byte. */
  private continued ({ from, form, prefix, missing }: Half, byte: number): State | undefined {
    const digit = parseInt(String.fromCharCode(byte), 16)
    const after = (more: number, bits: number): State | undefined => {
      const next = { from, form, prefix: prefix << bits | more, missing: missing - 1 }
      return missing === 1 ? this.ended(from, next.prefix) : this.inside(next)
    }
    if (form === 'escape') {
      if (isByte(byte, 'u')) return this.inside({ from, form: 'hex', prefix: 0, missing: 4 })
      const code = ESCAPES.get(byte)
      return code === undefined ? undefined : this.ended(from, code)
    }
    if (form === 'utf8') {
      const tooLong = prefix === 0 && (byte & 0x3f) << (6 * (missing - 1)) < (LEAST[missing] as number)
      return (byte & 0xc0) !== 0x80 || tooLong ? undefined : after(byte & 0x3f, 6)
    }
    if (form === 'low' && missing > 4) {
      return isByte(byte, missing === 6 ? '\\' : 'u') ? after(0, 0) : undefined
    }
    if (Number.isNaN(digit)) return undefined
    if (form === 'low' && missing === 4) return digit === 0xd ? after(0, 0) : undefined
    if (form === 'low' && missing === 3) return digit >= 0xc ? after(digit - 0xc, 2) : undefined
    const code = prefix << 4 | digit
    const isHigh = form === 'hex' && missing === 1 && code >= HIGH && code < LOW
    return isHigh ? this.inside({ from, form: 'low', prefix: 64 + code - HIGH, missing: 6 }) : after(digit, 4)
  }

  private ended (from: number, code: number): number | undefined {
    return follow(this.content.edges(from), code)
  }

  /**
   * The state inside a character. Where all that it may become leads to one state, the bits so far make no
   * difference, and one state stands for all of them.
   */
  private inside (half: Half): State {
    const size = 2 ** bitsOf(half)
    const { prefix } = half
    const edge = this.content.edges(half.from).find(({ low, high }) =>
      low <= prefix * size && high >= (prefix + 1) * size - 1)
    // Without bits so far it may be that not every byte may follow.
    if (edge === undefined || prefix === 0) return textOf(half)
    return textOf({ ...half, prefix: Math.max(1, Math.ceil(edge.low / size)) })
  }
}
