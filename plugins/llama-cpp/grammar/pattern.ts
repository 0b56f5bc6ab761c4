/** Writes GBNF for JSON strings that match an ECMA-262 regular expression (flag u) or a list of texts. */
import {
  charClass, type Grammar, type Item, literal, MAX_REPEAT, NotExpressible, ref, type Rule
} from './gbnf.js'

/** GBNF items, and the minimum and maximum number of characters that they match. */
export interface Part { items: Item[], least: number, most: number }
/** Inclusive ranges of code points. */
type Ranges = readonly (readonly [low: number, high: number])[]

const MAX_DEPTH = 64
const LAST = 0x10ffff
const PLAIN: Ranges = [[0x20, 0x21], [0x23, 0x5b], [0x5d, 0xd7ff], [0xe000, LAST]]
const SHORT = { '\b': 'b', '\t': 't', '\n': 'n', '\f': 'f', '\r': 'r', '"': '"', '\\': '\\' }
export const END = '"\\""'

const single = (text: string): Ranges =>
  Array.from(text, (c) => [c.codePointAt(0) as number, c.codePointAt(0) as number])

/** The sorted complement of the ranges, without surrogates. */
function outside (ranges: Ranges): Ranges {
  const out: [number, number][] = []
  let from = 0
  for (const [low, high] of [...ranges, [0xd800, 0xdfff] as const].sort((a, b) => a[0] - b[0])) {
    if (low > from) out.push([from, low - 1])
    from = Math.max(from, high + 1)
  }
  return from > LAST ? out : [...out, [from, LAST]]
}

const common = (a: Ranges, b: Ranges): Ranges => outside([...outside(a), ...outside(b)])

const DIGIT: Ranges = [[0x30, 0x39]]
const WORD: Ranges = [...DIGIT, [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]]
const SPACE: Ranges = [[0x2000, 0x200a],
  ...single('\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff')]
const CLASSES: Readonly<Record<string, Ranges>> = {
  d: DIGIT, D: outside(DIGIT), w: WORD, W: outside(WORD), s: SPACE, S: outside(SPACE),
  t: [[9, 9]], n: [[10, 10]], v: [[11, 11]], f: [[12, 12]], r: [[13, 13]], 0: [[0, 0]]
}

export const charRule = (grammar: Grammar): Rule => grammar.once('char', () => [[charClass(PLAIN)], ['"\\\\"',
  '(["\\\\/bfnrt] | "u" ([0-9a-cA-CefEF] [0-9a-fA-F]{3} | [dD] [0-7] [0-9a-fA-F]{2} | ' +
  '[dD] [89abAB] [0-9a-fA-F]{2} "\\\\u" [dD] [c-fC-F] [0-9a-fA-F]{2}))']])

/** GBNF alternatives for a character of `set` in a JSON string; control characters need a short escape. */
function written (set: Ranges): Item[][] {
  const plain = common(set, PLAIN)
  const short = Object.entries(SHORT).flatMap(([c, letter]) =>
    set.some(([low, high]) => low <= c.charCodeAt(0) && high >= c.charCodeAt(0)) ? single(letter) : [])
  return [...plain.length === 0 ? [] : [[charClass(plain)]],
    ...short.length === 0 ? [] : [[`"\\\\" ${charClass(short)}`]]]
}

/** A rule for the rest of a JSON string that is one of `texts`, which share their first `at` characters. */
export function remainderOf (grammar: Grammar, texts: readonly (readonly string[])[], at = 0): Item[][] {
  // Build a prefix tree, because one alternative per text would slow down every token.
  const groups = new Map<string, (readonly string[])[]>()
  for (const text of texts) {
    const group = groups.get(text[at] ?? '') ?? []
    group.push(text)
    groups.set(text[at] ?? '', group)
  }
  return [...groups].map(([c, group]): Item[] => c === '' || group.length === 1
    ? [literal(JSON.stringify(group[0]?.slice(at).join('')).slice(1))]
    : [literal(JSON.stringify(c).slice(1, -1)),
        ref(grammar.later(() => remainderOf(grammar, group, at + 1)))])
}

/** Translates a regular expression. @throws NotExpressible for back references and lookarounds */
export function translated (source: string, grammar: Grammar): Part {
  const { items, ...lengths } = new Translator(source, grammar).either()
  return { items: [...items, END], ...lengths }
}

class Translator {
  private at = 0
  private depth = 0
  private readonly source: string
  private readonly grammar: Grammar

  constructor (source: string, grammar: Grammar) {
    ;[this.source, this.grammar] = [source, grammar]
  }

  either (): Part {
    if (++this.depth > MAX_DEPTH) this.fail(`more than ${MAX_DEPTH} nested groups`)
    const ways: Part[] = []
    do ways.push(this.sequence(this.depth === 1)); while (this.take(/\|/y) !== null)
    this.depth--
    return this.anyOf(ways)
  }

  private sequence (isWhole: boolean): Part {
    const any: Part = { items: [ref(charRule(this.grammar), 0, Infinity)], least: 0, most: Infinity }
    const parts = isWhole && this.take(/\^/y) === null ? [any] : []
    while (this.at < this.source.length && this.take(isWhole ? /(?=\|)/y : /(?=[|)])/y) === null) {
      if (isWhole && this.take(/\$(?=\||$)/y) !== null) return joined(parts)
      parts.push(this.term())
    }
    return joined(isWhole ? [...parts, any] : parts)
  }

  private anyOf (ways: readonly Part[]): Part {
    return ways.length === 1 ? ways[0] as Part : {
      items: [ref(this.grammar.add(ways.map(({ items }) => items)))],
      least: Math.min(...ways.map(({ least }) => least)), most: Math.max(...ways.map(({ most }) => most))
    }
  }

  private term (): Part {
    const { items, least, most } = this.atom()
    // Ignore laziness, because lazy and greedy quantifiers match the same texts.
    const [sign, mark, low, comma, high] = this.take(/(?:([*+?])|\{(\d{1,9})(,(\d{1,9})?)?\})\??/y) ?? []
    if (sign === undefined) return { items, least, most }
    const min = mark === undefined ? Number(low) : mark === '+' ? 1 : 0
    const max = mark === '?' ? 1 : mark === undefined && (comma === undefined || high !== undefined)
      ? Number(high ?? low) : Infinity
    if (max < min || min > MAX_REPEAT || (max > MAX_REPEAT && max < Infinity)) this.fail(`"${sign}"`)
    // llama.cpp refuses the repetition of a possibly empty rule as left recursion.
    if (least === 0 && max > 1) this.fail('a repetition of an expression that may be empty')
    const all = this.grammar.repeat(this.grammar.add([items]), min, max)
    return { items: all, least: least * min, most: max === 0 ? 0 : most * max }
  }

  private atom (): Part {
    if (this.take(/\((?!\?)|\(\?:|\(\?<(?![=!])[^>]*>/y) !== null) {
      const inner = this.either()
      return this.take(/\)/y) === null ? this.fail('a group without ")"') : inner
    }
    const negated = this.take(/\[(\^?)/y)?.[1]
    const set: Ranges = negated !== undefined ? this.ranges()
      : this.take(/\./y) !== null ? outside(single('\n\r\u2028\u2029')) : this.char(/[^\\()[\]*+?{}^$|]/yu)
    const ways = written(negated === '^' ? outside(set) : set).map((items) => ({ items, least: 1, most: 1 }))
    return ways.length === 0 ? this.fail('a class without characters of JSON') : this.anyOf(ways)
  }

  private ranges (): Ranges {
    const out: (readonly [number, number])[] = []
    while (this.take(/\]/y) === null) {
      const from = this.char(/[^\\]/yu)
      const to = this.take(/-(?!\])/y) === null ? undefined : this.char(/[^\\]/yu)
      const [low, high] = [from[0]?.[0] ?? 0, to?.[0]?.[1] ?? 0]
      if (to !== undefined && (from.length * to.length > 1 || low > high)) this.fail('an invalid range')
      out.push(...to === undefined ? from : [[low, high] as const])
    }
    return out
  }

  /** Reads a character or an escape, and returns the characters it matches. */
  private char (plain: RegExp): Ranges {
    const hex = this.take(/\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|u\{([0-9a-f]{1,6})\})/iy)
    const code = parseInt(hex?.[1] ?? hex?.[2] ?? hex?.[3] ?? '', 16)
    if (hex !== null) return [[code, code]]
    const text = this.take(plain)?.[0]
    if (text !== undefined) return single(text)
    const escaped = this.take(/\\([dDwWsStnvfr]|0(?!\d)|[^0-9A-Za-z])/yu)?.[1]
    if (escaped === undefined) return this.fail(`"${this.source.slice(this.at, this.at + 2)}"`)
    return CLASSES[escaped] ?? single(escaped)
  }

  private take (expression: RegExp): RegExpExecArray | null {
    expression.lastIndex = this.at
    const match = expression.exec(this.source)
    this.at += match?.[0].length ?? 0
    return match
  }

  private fail (what: string): never { throw new NotExpressible(`has ${what} at character ${this.at}`) }
}

const sum = (numbers: readonly number[]): number => numbers.reduce((before, each) => before + each, 0)
const joined = (parts: readonly Part[]): Part => ({
  items: parts.flatMap(({ items }) => items),
  least: sum(parts.map(({ least }) => least)), most: sum(parts.map(({ most }) => most))
})
