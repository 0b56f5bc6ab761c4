/** Rules of a GBNF grammar, and their text. */
import { invalid } from './errors.js'

/** GBNF text without references, or a rule and how often it is repeated. */
export type Item = string | { rule: Rule, min: number, max: number }

/** A rule without alternatives matches nothing; `toText` drops what depends on it. */
export interface Rule { readonly id: number, alternatives: Item[][] }

/** llama.cpp refuses 2,000 repetitions and more, and an exponent of them in groups. */
const MAX_REPEAT = 1000
/** Bounded white space, as items. */
export const [SPACE, BLANK] = ['space', 'blank']
const WHITE = `${SPACE} ::= "" | " " | "\\n" [ \\t]{0,20}\n${BLANK} ::= "" | " "\n`
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

const isOptional = (item: Item): item is string => typeof item === 'string' || item.min === 0

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
    if (max === 0) return []
    if (min <= MAX_REPEAT && (max === Infinity || max < 2 * MAX_REPEAT)) return [ref(rule, min, max)]
    const block = this.once(`block ${rule.id}`, () => [[ref(rule, MAX_REPEAT)]])
    const [blocks, rest] = [Math.floor(min / MAX_REPEAT), min % MAX_REPEAT]
    if (min > MAX_REPEAT) {
      return [...this.repeat(block, blocks, blocks), ...this.repeat(rule, rest, max - min + rest)]
    }
    const more = Math.floor((max - min) / MAX_REPEAT) - 1
    return [...this.repeat(rule, min, min), ...this.repeat(block, 0, more),
      ...this.repeat(rule, 0, max - min - more * MAX_REPEAT)]
  }

  /** Makes the pending rules; undefined if `root` matches nothing. */
  toText (root: Rule): string | undefined {
    for (const make of this.pending) make()
    const live = this.productive()
    if (!live.has(root)) return undefined
    const isLive = (items: Item[]): boolean => items.every((item) => isOptional(item) || live.has(item.rule))
    const lines = [`root ::= r${root.id}\n${WHITE}`]
    let length = 0
    const seen = new Set([root])
    for (const rule of seen) {
      const texts = new Set(rule.alternatives.filter(isLive).map((items) => items.map((item) => {
        if (typeof item === 'string') return item
        if (!live.has(item.rule)) return ''
        seen.add(item.rule)
        const { rule: { id }, min, max } = item
        return `r${id}${min === 1 && max === 1 ? '' : `{${min},${max === Infinity ? '' : max}}`}`
      }).join(' ').trim() || '""'))
      const line = `r${rule.id} ::= ${[...texts].join(' | ')}\n`
      length += line.length
      if (length > MAX_TEXT) throw invalid('', `needs a grammar of more than ${MAX_TEXT} characters`)
      lines.push(line)
    }
    return lines.join('')
  }

  /** Rules that match at least one text. */
  private productive (): Set<Rule> {
    const live = new Set<Rule>()
    const users = new Map<Rule, Rule[]>()
    const isLive = (items: Item[]): boolean => items.every((item) => isOptional(item) || live.has(item.rule))
    for (const rule of this.rules) {
      for (const item of rule.alternatives.flat()) {
        if (typeof item !== 'string') users.set(item.rule, [...users.get(item.rule) ?? [], rule])
      }
    }
    const queue = [...this.rules]
    for (const rule of queue) {
      if (live.has(rule) || !rule.alternatives.some(isLive)) continue
      live.add(rule)
      for (const user of users.get(rule) ?? []) queue.push(user)
    }
    return live
  }
}
