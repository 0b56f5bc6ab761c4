/** Rules of a GBNF grammar, and their text. */
import { invalid } from './errors.js'

/** GBNF text without references, or a rule and how often it is repeated. */
export type Item = string | { rule: Rule, min: number, max: number }

/** A rule without alternatives matches nothing; `toText` drops what depends on it. */
export interface Rule { readonly id: number, alternatives: Item[][] }

/** llama.cpp refuses 2,000 repetitions and more, and an exponent of them in groups. */
const MAX_REPEAT = 1000
const MAX_RULES = 50_000
const MAX_TEXT = 1024 * 1024

export const ref = (rule: Rule, min = 1, max = min): Item => ({ rule, min, max })

/** A character as an element of a GBNF class. */
function inClass (code: number): string {
  const c = String.fromCodePoint(code)
  if (/[0-9A-Za-z]/.test(c)) return c
  const hex = code.toString(16).toUpperCase()
  return code < 0x100 ? `\\x${hex.padStart(2, '0')}`
    : code < 0x10000 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`
}

/** A GBNF class of closed ranges. */
export const charClass = (ranges: readonly (readonly [number, number])[]): string =>
  `[${ranges.map(([low, high]) => inClass(low) + (high > low ? `-${inClass(high)}` : '')).join('')}]`

/** A GBNF literal. */
export const literal = (text: string): string =>
  `"${Array.from(text, (c) => /[\p{C}"\\]/u.test(c) ? inClass(c.codePointAt(0) as number) : c).join('')}"`

export class Grammar {
  private readonly rules: Rule[] = []
  private readonly named = new Map<string, Rule>()
  private readonly pending: (() => void)[] = []

  add (alternatives: Item[][] = []): Rule {
    if (this.rules.length >= MAX_RULES) throw invalid('', `needs more than ${MAX_RULES} grammar rules`)
    const rule = { id: this.rules.length, alternatives }
    this.rules.push(rule)
    return rule
  }

  /** The rule of `key`. `make` runs later, so that rules may refer to each other and nest without limit. */
  once (key: string, make: () => Item[][]): Rule {
    let rule = this.named.get(key)
    if (rule === undefined) {
      rule = this.add()
      this.named.set(key, rule)
      const made = rule
      this.pending.push(() => { made.alternatives = make() })
    }
    return rule
  }

  /** A rule, `min` to `max` times. */
  repeat (rule: Rule, min: number, max: number): Item[] {
    if (max < min) return [ref(this.add())]
    if (min > MAX_REPEAT) {
      const [blocks, rest] = [Math.floor(min / MAX_REPEAT), min % MAX_REPEAT]
      return [...this.repeat(this.block(rule), blocks, blocks), ...this.repeat(rule, rest, max - min + rest)]
    }
    if (max === 0) return []
    if (max === Infinity || max < 2 * MAX_REPEAT) return [ref(rule, min, max)]
    const blocks = Math.floor((max - min) / MAX_REPEAT) - 1
    const rest = max - min - blocks * MAX_REPEAT
    return [...this.repeat(rule, min, min), ...this.repeat(this.block(rule), 0, blocks),
      ...this.repeat(rule, 0, rest)]
  }

  private block (rule: Rule): Rule {
    return this.once(`block ${rule.id}`, () => [[ref(rule, MAX_REPEAT)]])
  }

  /** Makes the pending rules; undefined if `root` matches nothing. */
  toText (root: Rule): string | undefined {
    for (const make of this.pending) make()
    const live = this.productive()
    if (!live.has(root)) return undefined
    const lines: string[] = []
    let length = 0
    const seen = new Set([root])
    for (const rule of seen) {
      const alternatives = rule.alternatives.map((items) => items.flatMap((item) => {
        if (typeof item === 'string') return [item]
        if (!live.has(item.rule)) return item.min === 0 ? [] : [undefined]
        seen.add(item.rule)
        return [this.nameOf(item.rule, root) + quantifier(item.min, item.max)]
      })).filter((items) => !items.includes(undefined))
      const texts = new Set(alternatives.map((items) => items.join(' ').trim() || '""'))
      const line = `${this.nameOf(rule, root)} ::= ${[...texts].join(' | ')}\n`
      length += line.length
      if (length > MAX_TEXT) throw invalid('', `needs a grammar of more than ${MAX_TEXT} characters`)
      lines.push(line)
    }
    return lines.join('')
  }

  /** Rules that match at least one text. */
  private productive (): Set<Rule> {
    const live = new Set<Rule>()
    for (let before = -1; before < live.size;) {
      before = live.size
      for (let i = this.rules.length - 1; i >= 0; i--) {
        const rule = this.rules[i] as Rule
        if (!live.has(rule) && rule.alternatives.some((items) => items.every((item) =>
          typeof item === 'string' || item.min === 0 || live.has(item.rule)))) live.add(rule)
      }
    }
    return live
  }

  private nameOf (rule: Rule, root: Rule): string {
    return rule === root ? 'root' : `r${rule.id.toString(36)}`
  }
}

function quantifier (min: number, max: number): string {
  if (min === 1 && max === 1) return ''
  if (max === Infinity) return min === 0 ? '*' : min === 1 ? '+' : `{${min},}`
  return min === 0 && max === 1 ? '?' : min === max ? `{${min}}` : `{${min},${max}}`
}
