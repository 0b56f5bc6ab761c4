/** Patterns of JSON Schema: sets of characters, and the parts of a regular expression. */

/** Characters as sorted, disjoint, closed ranges of code points. Halves of surrogate pairs are none. */
export type CharSet = Ranges
type Ranges = readonly (readonly [number, number])[]

const LAST = 0x10ffff
const SURROGATES = [0xd800, 0xdfff] as const

/** The characters outside of these ranges, which may overlap. */
function complement (ranges: Ranges): CharSet {
  const out: [number, number][] = []
  let from = 0
  for (const [low, high] of [...ranges, SURROGATES].sort((a, b) => a[0] - b[0])) {
    if (low > from) out.push([from, low - 1])
    from = Math.max(from, high + 1)
  }
  if (from <= LAST) out.push([from, LAST])
  return out
}

/** The characters in these ranges, which may overlap. */
export const charSet = (ranges: Ranges): CharSet => complement(complement(ranges))

const ofText = (text: string): Ranges => Array.from(text, (c) => single(c.codePointAt(0) as number)).flat()
/** One character. */
export const single = (code: number): CharSet => [[code, code]]

/** The characters that none of these ranges has. */
export const without = (ranges: readonly { low: number, high: number }[]): CharSet =>
  complement(ranges.map(({ low, high }) => [low, high]))

/** Every character. */
export const ANY = complement([])
const DIGIT = charSet([[0x30, 0x39]])
const WORD = charSet([[0x30, 0x39], [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]])
/** White space and line ends of ECMA-262. */
const SPACE = charSet([[0x2000, 0x200a],
  ...ofText('\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff')])
/** What a dot stands for. */
const NOT_LINE_END = complement(ofText('\n\r\u2028\u2029'))

/** A regular expression: `begin` and `end` are the anchors. */
export type Regex =
  { kind: 'chars', set: CharSet } | { kind: 'join', parts: Regex[] } | { kind: 'either', parts: Regex[] } |
  { kind: 'repeat', part: Regex, min: number, max: number } | { kind: 'begin' } | { kind: 'end' } |
  { kind: 'look', part: Regex, negative: boolean }

/** What of a pattern cannot be enforced; `message` says it. */
export class RegexError extends Error {}

const MAX_REPEAT = 1000
const MAX_DEPTH = 64
const CLASS_ESCAPES: Readonly<Record<string, CharSet>> = {
  d: DIGIT, D: complement(DIGIT), w: WORD, W: complement(WORD), s: SPACE, S: complement(SPACE)
}
const CONTROL_ESCAPES: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13 }

/**
 * Parses the part of ECMA-262's patterns (flag u) that a finite automaton can follow: everything but look
 * behind, back references, word borders and Unicode properties. Throws RegexError.
 */
export function parseRegex (source: string): Regex {
  return new Parser(source).whole()
}

/** What keeps a pattern from being parsed, to follow the word "pattern"; null where it can be. */
export function regexProblem (source: string): string | null {
  try {
    parseRegex(source)
    return null
  } catch (error) {
    if (error instanceof RegexError) return error.message
    throw error
  }
}

class Parser {
  private readonly source: string[]
  private at = 0
  private depth = 0

  constructor (source: string) {
    this.source = [...source]
  }

  whole (): Regex {
    const regex = this.either()
    if (this.at < this.source.length) throw this.error(`"${this.source[this.at]}" without a beginning`)
    return regex
  }

  private either (): Regex {
    if (++this.depth > MAX_DEPTH) throw this.error(`more than ${MAX_DEPTH} groups inside each other`)
    const parts = [this.join()]
    while (this.take('|')) parts.push(this.join())
    this.depth--
    return parts.length === 1 ? parts[0] as Regex : { kind: 'either', parts }
  }

  private join (): Regex {
    const parts: Regex[] = []
    while (this.at < this.source.length && this.peek() !== '|' &&
      this.peek() !== ')') parts.push(this.repeated())
    return { kind: 'join', parts }
  }

  private repeated (): Regex {
    const part = this.atom()
    const range = this.quantifier()
    if (range === null) return part
    if (part.kind === 'begin' || part.kind === 'end' || part.kind === 'look') {
      throw this.error('a repeated anchor')
    }
    this.take('?') // Lazy or not, the same texts match.
    const [min, max] = range
    if (min > MAX_REPEAT || (max !== Infinity && max > MAX_REPEAT)) {
      throw this.error(`more than ${MAX_REPEAT} repetitions`)
    }
    if (max < min) throw this.error('a repetition that ends before it begins')
    return { kind: 'repeat', part, min, max }
  }

  private quantifier (): [number, number] | null {
    if (this.take('*')) return [0, Infinity]
    if (this.take('+')) return [1, Infinity]
    if (this.take('?')) return [0, 1]
    if (this.peek() !== '{') return null
    const match = /^\{(\d+)(,(\d*))?\}/.exec(this.source.slice(this.at, this.at + 24).join(''))
    if (match === null) throw this.error('"{" that begins no repetition')
    this.at += match[0].length
    const min = Number(match[1])
    return [min, match[2] === undefined ? min : match[3] === '' ? Infinity : Number(match[3])]
  }

  private atom (): Regex {
    const c = this.source[this.at++] as string
    if (c === '(') return this.group()
    if (c === '[') return { kind: 'chars', set: this.charClass() }
    if (c === '.') return { kind: 'chars', set: NOT_LINE_END }
    if (c === '^') return { kind: 'begin' }
    if (c === '$') return { kind: 'end' }
    if (c === '\\') return { kind: 'chars', set: charSet(this.escape(false)) }
    if ('*+?{}]'.includes(c)) throw this.error(`"${c}" with nothing to repeat or close`)
    return { kind: 'chars', set: charSet(ofText(c)) }
  }

  private group (): Regex {
    if (this.take('?')) {
      if (this.peek() === '=' || this.peek() === '!') return this.lookAhead()
      const named = this.peek() === '<' && /[A-Za-z_$]/.test(this.source[this.at + 1] ?? '')
      if (named) {
        while (this.at < this.source.length && !this.take('>')) this.at++
      } else if (!this.take(':')) {
        throw this.error('a group with "(?" other than "(?:", "(?<name>", "(?=" and "(?!"')
      }
    }
    const inner = this.either()
    if (!this.take(')')) throw this.error('a group without ")"')
    return inner
  }

  private lookAhead (): Regex {
    const negative = this.source[this.at++] === '!'
    const part = this.either()
    if (!this.take(')')) throw this.error('a group without ")"')
    return { kind: 'look', part, negative }
  }

  private charClass (): CharSet {
    const negated = this.take('^')
    const ranges: (readonly [number, number])[] = []
    while (!this.take(']')) {
      if (this.at >= this.source.length) throw this.error('"[" without "]"')
      const from = this.classAtom()
      if (this.peek() !== '-' || this.source[this.at + 1] === ']') {
        ranges.push(...from)
        continue
      }
      this.at++
      const to = this.classAtom()
      const [low, high] = [one(from), one(to)]
      if (low === null || high === null || high < low) {
        throw this.error('a range in "[]" that is not from low to high')
      }
      ranges.push([low, high])
    }
    return negated ? complement(ranges) : charSet(ranges)
  }

  private classAtom (): Ranges {
    const c = this.source[this.at++]
    if (c === undefined) throw this.error('"[" without "]"')
    return c === '\\' ? this.escape(true) : ofText(c)
  }

  private escape (inClass: boolean): Ranges {
    const c = this.source[this.at++]
    if (c === undefined) throw this.error('a pattern that ends in "\\"')
    const set = CLASS_ESCAPES[c]
    if (set !== undefined) return set
    const control = CONTROL_ESCAPES[c]
    if (control !== undefined) return single(control)
    if (c === 'x') return single(this.hex(2))
    if (c === 'u') return single(this.unicode())
    if (c === 'c' && /[A-Za-z]/.test(this.peek() ?? '')) {
      return single((this.source[this.at++] as string).charCodeAt(0) % 32)
    }
    if (c === '0' && !/\d/.test(this.peek() ?? '')) return single(0)
    if (inClass && c === 'b') return single(8)
    if (/[A-Za-z0-9]/.test(c)) throw this.error(`"\\${c}"`)
    return ofText(c)
  }

  private unicode (): number {
    if (!this.take('{')) {
      const high = this.hex(4)
      const next = this.source.slice(this.at, this.at + 6).join('')
      const low = /^\\u(d[c-f][0-9a-f]{2})$/i.exec(next)?.[1]
      if (high < 0xd800 || high > 0xdbff || low === undefined) return high
      this.at += next.length
      return 0x10000 + ((high - 0xd800) << 10) + (parseInt(low, 16) - 0xdc00)
    }
    const end = this.source.indexOf('}', this.at)
    const digits = end < 0 ? '' : this.source.slice(this.at, end).join('')
    const code = /^[0-9a-fA-F]{1,8}$/.test(digits) ? parseInt(digits, 16) : Infinity
    if (code > LAST) throw this.error('"\\u{" without a code point')
    this.at = end + 1
    return code
  }

  private hex (length: number): number {
    const digits = this.source.slice(this.at, this.at + length).join('')
    if (!/^[0-9a-fA-F]+$/.test(digits) || digits.length !== length) {
      throw this.error('an escape without its hexadecimal digits')
    }
    this.at += length
    return parseInt(digits, 16)
  }

  private peek (): string | undefined {
    return this.source[this.at]
  }

  private take (c: string): boolean {
    if (this.source[this.at] !== c) return false
    this.at++
    return true
  }

  private error (what: string): RegexError {
    return new RegexError(`has ${what} at character ${this.at}`)
  }
}

/** The code point of a range that has only one. */
function one (set: Ranges): number | null {
  const [range] = set
  return set.length === 1 && range !== undefined && range[0] === range[1] ? range[0] : null
}

const DAY = '(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|' +
  '02-(?:0[1-9]|1\\d|2[0-8]))'
const DATE = `\\d{4}-${DAY}`
const CLOCK = '(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d'
const TIME = `${CLOCK}(?:\\.\\d{1,9})?(?:[zZ]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)`
const BYTE = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'

/**
 * Formats of JSON Schema that are enforced, as patterns (somewhat narrower than the RFCs: no leap days, no
 * leap seconds). All others are annotations, as JSON Schema 2020-12 has them by default.
 */
export const FORMATS: Readonly<Record<string, string>> = {
  date: `^${DATE}$`,
  time: `^${TIME}$`,
  'date-time': `^${DATE}[tT]${TIME}$`,
  uuid: '^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$',
  ipv4: `^(?:${BYTE}\\.){3}${BYTE}$`
}
