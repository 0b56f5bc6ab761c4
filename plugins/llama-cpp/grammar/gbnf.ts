/** Builds the rules of a GBNF grammar, and writes them as text. */
import { invalid as refusal } from '../../runners/language/refusals.js'
import type { EngineError } from '../../../kernel/api/engine.js'

/** The error for an unsupported schema; `path` is the JSON pointer of the keyword. */
export function invalid (path: string, why: string): EngineError {
  return refusal(`${path === '' ? 'the schema' : path} ${why}`, path)
}

/** Thrown for a pattern or number outside the supported subset. */
export class NotExpressible extends Error {}

/** Part of a rule: GBNF text without references, or a repeated rule. */
export type Item = string | { rule: Rule, min: number, max: number }

/** A rule without alternatives matches nothing; `toText` removes rules that depend on it. */
export interface Rule { readonly id: number, alternatives: Item[][] }

/** Limit on a group's repetitions. llama.cpp refuses 2,000 or more, and multiplies nested counts. */
export const MAX_REPEAT = 1000
/** Number of repetitions that counts as unlimited, because no context is that long. */
const ENDLESS = 1_000_000
/** Names of two grammar rules that allow only a limited amount of white space. */
export const [SPACE, BLANK] = ['space', 'blank']
const WHITE = `${SPACE} ::= "" | " " | "\\n" [ \\t]{0,20}\n${BLANK} ::= "" | " "\n`
const MAX_RULES = 50_000
const MAX_STEPS = 1_000_000
const MAX_TEXT = 1024 * 1024

export const ref = (rule: Rule, min = 1, max = min): Item => ({ rule, min, max })

/** Writes a character for use inside a GBNF character class. */
function inClass (code: number): string {
  const c = String.fromCodePoint(code)
  if (/[0-9A-Za-z]/.test(c)) return c
  const hex = code.toString(16).toUpperCase()
  return code < 0x100 ? `\\x${hex.padStart(2, '0')}` : `\\U${hex.padStart(8, '0')}`
}

export const charClass = (ranges: readonly (readonly [number, number])[]): string =>
  `[${ranges.map(([low, high]) => inClass(low) + (high > low ? `-${inClass(high)}` : '')).join('')}]`

export const literal = (text: string): string =>
  `"${Array.from(text, (c) => /[\p{C}"\\]/u.test(c) ? inClass(c.codePointAt(0) as number) : c).join('')}"`

export class Grammar {
  private readonly rules: Rule[] = []
  private readonly named = new Map<string, Rule>()
  private readonly pending: (() => void)[] = []
  private steps = 0

  add (alternatives: Item[][] = []): Rule {
    if (this.rules.length >= MAX_RULES) throw invalid('', `needs more than ${MAX_RULES} grammar rules`)
    const rule = { id: this.rules.length, alternatives }
    this.rules.push(rule)
    return rule
  }

  spend (steps: number): void {
    this.steps += steps
    if (this.steps > MAX_STEPS) throw invalid('', 'is too large to compile: simplify its alternatives')
  }

  /** Defers `make` to `toText`, so that nesting does not exhaust the stack. */
  later (make: () => Item[][]): Rule {
    const rule = this.add()
    this.pending.push(() => { rule.alternatives = make() })
    return rule
  }

  /** The rule for `key`, created on first use; rules may be recursive. */
  once (key: string, make: () => Item[][]): Rule {
    const rule = this.named.get(key) ?? this.later(make)
    this.named.set(key, rule)
    return rule
  }

  /** Items for `min` to `max` repetitions of a rule. */
  repeat (rule: Rule, min: number, max: number): Item[] {
    if (max < min || min >= ENDLESS) return [ref(this.add())]
    if (max === 0) return []
    if (min <= MAX_REPEAT && max < 2 * MAX_REPEAT) return [ref(rule, min, max)]
    if (min <= MAX_REPEAT && max >= ENDLESS) return [ref(rule, min, Infinity)]
    const block = this.once(`block ${rule.id}`, () => [[ref(rule, MAX_REPEAT)]])
    const blocks = Math.floor(min / MAX_REPEAT)
    if (min > MAX_REPEAT) {
      return [ref(block, blocks), ...this.repeat(rule, min % MAX_REPEAT, max - blocks * MAX_REPEAT)]
    }
    const more = Math.floor((max - min) / MAX_REPEAT) - 1
    return [ref(rule, min), ref(block, 0, more), ref(rule, 0, max - min - more * MAX_REPEAT)]
  }

  /** Builds the deferred rules and writes the grammar; undefined if `root` matches no text. */
  toText (root: Rule): string | undefined {
    for (const make of this.pending) make()
    const live = this.live()
    if (!live.has(root)) return undefined
    const lines = [`root ::= r${root.id}\n${WHITE}`]
    const seen = new Set([root])
    for (const rule of seen) {
      const alternatives = rule.alternatives.filter((items) => isLive(items, live))
      const texts = alternatives.map((items) => items.map((item) => {
        if (typeof item === 'string') return item
        const { rule: { id }, min, max } = item
        if (!live.has(item.rule) || max === 0) return ''
        seen.add(item.rule)
        return `r${id}${min === 1 && max === 1 ? '' : `{${min},${max === Infinity ? '' : max}}`}`
      }).join(' ').trim() || '""')
      lines.push(`r${rule.id} ::= ${[...new Set(texts)].join(' | ')}\n`)
    }
    const text = lines.join('')
    if (text.length > MAX_TEXT) throw invalid('', `needs a grammar of more than ${MAX_TEXT} characters`)
    return text
  }

  /** Finds the rules that match any text, in reverse order because most rules refer to later ones. */
  private live (): Set<Rule> {
    const [live, rules] = [new Set<Rule>(), this.rules.toReversed()]
    for (let before = -1; before < live.size;) {
      before = live.size
      this.spend(rules.length)
      for (const rule of rules) if (rule.alternatives.some((items) => isLive(items, live))) live.add(rule)
    }
    return live
  }
}

const isLive = (items: readonly Item[], live: ReadonlySet<Rule>): boolean =>
  items.every((item) => typeof item === 'string' || item.min === 0 || live.has(item.rule))
