/** Regular expressions of ECMA-262 (flag u) as languages. */
import { NotExpressible } from './errors.js'
import { BEGIN, END, type Language, type Languages, outside, type Ranges, single } from './language.js'

const MAX_REPEAT = 4000
const MAX_DEPTH = 64
const DIGIT: Ranges = [[0x30, 0x39]]
const WORD: Ranges = [...DIGIT, [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]]
const SPACE: Ranges = [[0x2000, 0x200a],
  ...single('\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff')]
const CLASSES: Readonly<Record<string, Ranges>> = {
  d: DIGIT, D: outside(DIGIT), w: WORD, W: outside(WORD), s: SPACE, S: outside(SPACE)
}
const CONTROLS: Readonly<Record<string, string>> = { t: '\t', n: '\n', v: '\v', f: '\f', r: '\r', 0: '\0' }

/**
 * The texts in which a pattern matches somewhere. Throws NotExpressible for assertions other than `^` and
 * `$`, back references and Unicode properties.
 */
export function patternLanguage (source: string, of: Languages): Language {
  of.begin()
  const [begin, end] = [BEGIN, END].map((code) => of.chars([[code, code]])) as [Language, Language]
  const inner = new Parser(source, of).whole()
  const before = of.anyOf([of.empty, of.join([begin, of.all])])
  const behind = of.anyOf([of.empty, of.join([of.all, end])])
  return ended(of.after(of.join([before, inner, behind]), BEGIN), of)
}

/** The texts that are in a language once the end of the text is added. */
function ended (language: Language, of: Languages): Language {
  const { kind, parts, set, min, max } = language
  if (kind === 'chars') return set.some(([low]) => low === END) ? of.empty : of.none
  const [first, rest] = parts as [Language, Language]
  switch (kind) {
    case 'any of': return of.anyOf(parts.map((part) => ended(part, of)))
    case 'repeat': return of.join([of.repeat(first, Math.max(0, min - 1), max - 1), ended(first, of)])
    case 'join': return of.anyOf([of.join([first, ended(rest, of)]), ...rest.empty ? [ended(first, of)] : []])
    default: return of.none
  }
}

class Parser {
  private at = 0
  private depth = 0
  private readonly source: string
  private readonly of: Languages

  constructor (source: string, of: Languages) {
    this.source = source
    this.of = of
  }

  whole (): Language {
    const language = this.either()
    return this.at < this.source.length ? this.fail('")" without a beginning') : language
  }

  private either (): Language {
    if (++this.depth > MAX_DEPTH) this.fail(`more than ${MAX_DEPTH} groups inside each other`)
    const ways: Language[] = []
    do {
      const terms: Language[] = []
      while (this.at < this.source.length && this.take(/(?=[|)])/y) === null) terms.push(this.term())
      ways.push(this.of.join(terms))
    } while (this.take(/\|/y) !== null)
    this.depth--
    return this.of.anyOf(ways)
  }

  private term (): Language {
    if (this.take(/\^/y) !== null) return this.of.chars([[BEGIN, BEGIN]])
    if (this.take(/\$/y) !== null) return this.of.chars([[END, END]])
    const atom = this.atom()
    // Greedy or lazy, the same texts match.
    const mark = this.take(/([*+?])\??/y)?.[1]
    if (mark !== undefined) return this.of.repeat(atom, mark === '+' ? 1 : 0, mark === '?' ? 1 : Infinity)
    const [sign, least, comma, most] = this.take(/\{(\d{1,9})(,(\d{0,9}))?\}\??/y) ?? []
    if (sign === undefined) return atom
    const [min, max] = [Number(least), comma === ',' ? Infinity : Number(most ?? least)]
    if (max < min || min > MAX_REPEAT || (max > MAX_REPEAT && max < Infinity)) this.fail(`"${sign}"`)
    return this.of.repeat(atom, min, max)
  }

  private atom (): Language {
    if (this.take(/\((?!\?)|\(\?:|\(\?<(?![=!])[^>]*>/y) !== null) {
      const inner = this.either()
      return this.take(/\)/y) === null ? this.fail('a group without ")"') : inner
    }
    if (this.take(/\./y) !== null) return this.of.chars(outside(single('\n\r\u2028\u2029')))
    const negated = this.take(/\[(\^?)/y)?.[1]
    const set: Ranges = negated === undefined ? this.char(/[^\\()*+?{}]/yu) : this.ranges()
    return this.of.chars(negated === '^' ? outside(set) : outside(outside(set)))
  }

  /** The inside of a class. */
  private ranges (): Ranges {
    const out: (readonly [number, number])[] = []
    while (this.take(/\]/y) === null) {
      const from = this.char(/[^\\]/yu)
      if (this.take(/-(?!\])/y) === null) {
        out.push(...from)
        continue
      }
      const to = this.char(/[^\\]/yu)
      const [low, high] = [from[0]?.[0] ?? 0, to[0]?.[1] ?? 0]
      if (from.length > 1 || to.length > 1 || low > high) this.fail('a range that is not from low to high')
      out.push([low, high])
    }
    return out
  }

  /** One character, or the characters of an escape. */
  private char (plain: RegExp): Ranges {
    const pair = this.take(/\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})/iy)?.slice(1)
    if (pair !== undefined) return single(String.fromCharCode(...pair.map((unit) => parseInt(unit, 16))))
    const hex = this.take(/\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|u\{([0-9a-f]{1,6})\})/iy)
    const code = parseInt(hex?.[1] ?? hex?.[2] ?? hex?.[3] ?? '', 16)
    if (hex !== null) return [[code, code]]
    const control = this.take(/\\c([a-z])/iy)?.[1]
    if (control !== undefined) return single(String.fromCharCode(control.charCodeAt(0) % 32))
    const text = this.take(plain)?.[0]
    if (text !== undefined) return single(text)
    const escaped = this.take(/\\([dDwWsStnvfr]|0(?!\d)|[^0-9A-Za-z])/yu)?.[1]
    if (escaped === undefined) return this.fail(`"${this.source.slice(this.at, this.at + 2)}"`)
    return CLASSES[escaped] ?? single(CONTROLS[escaped] ?? escaped)
  }

  private take (expression: RegExp): RegExpExecArray | null {
    expression.lastIndex = this.at
    const match = expression.exec(this.source)
    this.at += match?.[0].length ?? 0
    return match
  }

  private fail (what: string): never {
    throw new NotExpressible(`has ${what} at character ${this.at}`)
  }
}
