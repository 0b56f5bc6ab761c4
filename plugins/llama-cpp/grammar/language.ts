/** Sets of texts as expressions. Their derivatives (Brzozowski) are the states of an automaton. */
import { type Budget, NotExpressible } from './errors.js'
import { charClass, type Grammar, type Item, literal, ref, type Rule } from './gbnf.js'

/** Sorted, disjoint, closed ranges of code points. */
export type Ranges = readonly (readonly [low: number, high: number])[]
/** An expression; equal ones are one object. `empty`: it matches the empty text. */
export interface Language {
  readonly id: number
  readonly kind: 'empty' | 'chars' | 'join' | 'any of' | 'all of' | 'not' | 'repeat'
  readonly parts: readonly Language[]
  readonly set: Ranges
  readonly min: number
  readonly max: number
  readonly empty: boolean
}

const MAX_STATES = 4000
/** Work for one expression; 30 to 100 ms. */
const MAX_STEPS = 400_000
const LAST = 0x10ffff
/** Stand for the borders of a text, so that anchors are characters. */
export const [BEGIN, END] = [-1, LAST + 1]

/** The characters of a text as ranges. */
export const single = (text: string): Ranges =>
  Array.from(text, (c) => [c.codePointAt(0) as number, c.codePointAt(0) as number])

/** The characters outside of these ranges; halves of surrogate pairs are none. */
export function outside (ranges: Ranges): Ranges {
  const out: [number, number][] = []
  let from = 0
  for (const [low, high] of [...ranges, [0xd800, 0xdfff] as const].sort((a, b) => a[0] - b[0])) {
    if (low > from) out.push([from, low - 1])
    from = Math.max(from, high + 1)
  }
  return from > LAST ? out : [...out, [from, LAST]]
}

/** Makes expressions and takes their derivatives. */
export class Languages {
  private readonly known = new Map<string, Language>()
  private readonly derived = new Map<number, Language>()
  private readonly budget: Budget
  private left = 0
  readonly none: Language
  readonly empty: Language
  readonly char: Language
  readonly all: Language

  constructor (budget: Budget) {
    this.budget = budget
    this.begin()
    this.none = this.make('any of', [], false)
    this.empty = this.make('empty', [], true)
    this.char = this.chars(outside([]))
    this.all = this.repeat(this.char, 0, Infinity)
  }

  /** Starts the count of the steps of an expression. */
  begin (): void { this.left = MAX_STEPS }

  private spend (steps: number): void {
    this.budget.spend(steps)
    this.left -= steps
    if (this.left < 0) throw new NotExpressible('is too complex')
  }

  private make (
    kind: Language['kind'], parts: readonly Language[], empty: boolean, set: Ranges = [], min = 0, max = 0
  ): Language {
    const key = `${kind}${parts.map(({ id }) => id).join()} ${set.join()} ${min} ${max}`
    this.spend(4 + parts.length)
    let language = this.known.get(key)
    if (language === undefined) {
      language = { id: this.known.size, kind, parts, set, min, max, empty }
      this.known.set(key, language)
    }
    return language
  }

  chars (set: Ranges): Language { return set.length === 0 ? this.none : this.make('chars', [], false, set) }

  text (text: string): Language {
    return this.join(Array.from(text, (c) => this.chars(single(c))))
  }

  join (parts: readonly Language[]): Language {
    return parts.reduceRight((rest, part) => this.then(part, rest), this.empty)
  }

  private then (first: Language, rest: Language): Language {
    if (first === this.none || rest === this.empty) return first
    if (rest === this.none || first === this.empty) return rest
    if (first === this.all && (rest === first || rest.parts[0] === first)) return rest
    if (first.kind === 'join') return this.join([...first.parts, rest])
    return this.make('join', [first, rest], first.empty && rest.empty)
  }

  anyOf (parts: readonly Language[]): Language {
    const flat = this.flat('any of', parts, this.none)
    if (flat.includes(this.all)) return this.all
    return flat.length < 2 ? flat[0] ?? this.none : this.make('any of', flat, flat.some(({ empty }) => empty))
  }

  allOf (parts: readonly Language[]): Language {
    const flat = this.flat('all of', parts, this.all)
    if (flat.includes(this.none)) return this.none
    return flat.length < 2 ? flat[0] ?? this.all : this.make('all of', flat, flat.every(({ empty }) => empty))
  }

  private flat (kind: Language['kind'], parts: readonly Language[], neutral: Language): Language[] {
    const some = parts.filter((part) => part !== neutral)
    if (some.length < 2) return some
    const flat = new Set(some.flatMap((part) => part.kind === kind ? part.parts : [part]))
    return [...flat].sort((a, b) => a.id - b.id)
  }

  not (part: Language): Language {
    if (part.kind === 'not') return part.parts[0] as Language
    if (part === this.none) return this.all
    return part === this.all ? this.none : this.make('not', [part], !part.empty)
  }

  repeat (part: Language, min: number, max: number): Language {
    if (max === 0 || part === this.empty || (part === this.none && min === 0)) return this.empty
    if (part === this.none || (min === 1 && max === 1)) return part
    return this.make('repeat', [part], min === 0 || part.empty, [], part.empty ? 0 : min, max)
  }

  /** The rests of texts that begin with the character `code`. */
  after (language: Language, code: number): Language {
    const key = language.id * 0x200000 + code
    const after = this.derived.get(key) ?? this.derive(language, code)
    this.derived.set(key, after)
    return after
  }

  private derive ({ kind, parts, set, min, max }: Language, code: number): Language {
    const [first, rest] = parts as [Language, Language]
    this.spend(2 + parts.length)
    switch (kind) {
      case 'empty': return this.none
      case 'chars': return set.some(([low, high]) => low <= code && code <= high) ? this.empty : this.none
      case 'any of': return this.anyOf(parts.map((part) => this.after(part, code)))
      case 'all of': return this.allOf(parts.map((part) => this.after(part, code)))
      case 'not': return this.not(this.after(first, code))
      case 'repeat':
        return this.then(this.after(first, code), this.repeat(first, Math.max(0, min - 1), max - 1))
      case 'join': {
        const then = this.then(this.after(first, code), rest)
        return first.empty ? this.anyOf([then, this.after(rest, code)]) : then
      }
    }
  }

  /** Adds the code points at which the characters that may come first begin to differ. */
  private cuts ({ kind, parts, set }: Language, into: Set<number>): void {
    this.spend(1)
    for (const [low, high] of set) into.add(low).add(high + 1)
    for (const part of parts) {
      this.cuts(part, into)
      if (kind === 'join' && !part.empty) break
    }
  }

  /** Disjoint ranges of characters and what follows them. */
  private edges (language: Language): [low: number, high: number, to: Language][] {
    const cuts = new Set([0, 0xd800, 0xe000, LAST + 1])
    this.cuts(language, cuts)
    const sorted = [...cuts].filter((cut) => cut >= 0 && cut <= LAST + 1).sort((a, b) => a - b)
    return sorted.slice(0, -1).map((low, i): [number, number, Language] =>
      [low, (sorted[i + 1] as number) - 1, this.after(language, low)])
      .filter(([low, , to]) => to !== this.none && low !== 0xd800)
  }

  matches (language: Language, text: string): boolean {
    this.begin()
    return Array.from(text).reduce((at, c) => this.after(at, c.codePointAt(0) as number), language).empty
  }

  /** The edges of each state from which an end can be reached; throws NotExpressible if they are too many. */
  private states (start: Language): Map<Language, [number, number, Language][]> {
    this.begin()
    const states = new Map<Language, [number, number, Language][]>()
    const from = new Map<Language, Language[]>()
    const queue = new Set([start])
    for (const state of queue) {
      if (queue.size > MAX_STATES) throw new NotExpressible('needs too many states')
      const edges = this.edges(state)
      states.set(state, edges)
      for (const [, , to] of edges) {
        from.set(to, [...from.get(to) ?? [], state])
        queue.add(to)
      }
    }
    const live = new Set([...states.keys()].filter(({ empty }) => empty))
    for (const state of live) for (const source of from.get(state) ?? []) live.add(source)
    return new Map([...states].filter(([state]) => live.has(state))
      .map(([state, edges]) => [state, edges.filter(([, , to]) => live.has(to))]))
  }

  /**
   * The rule of the texts of a language, as the rest of a JSON string or as they are. Rules of states begin
   * with a character, so only one of them is open at any place of a text.
   */
  rule (grammar: Grammar, language: Language, quoted = true): Rule {
    const end = quoted ? '"\\""' : ''
    const states = this.states(language)
    const char = charRule(grammar)
    const rules = new Map([...states.keys()].map((state) => [state, grammar.add()]))
    for (const [state, edges] of states) {
      const alternatives = [...new Set(edges.map(([, , to]) => to))].flatMap((to): Item[][] => {
        const next = ref(rules.get(to) as Rule)
        const set = edges.filter((edge) => edge[2] === to).map(([low, high]) => [low, high] as const)
        const chars = !quoted ? [charClass(set)] : outside(set).length === 0 ? [ref(char)] : written(set)
        return chars.map((one) => [one, next])
      })
      ;(rules.get(state) as Rule).alternatives = state === this.all && quoted
        ? [[ref(char, 0, Infinity), end]] : [...alternatives, ...state.empty ? [[end]] : []]
    }
    return rules.get(language) ?? grammar.add()
  }
}

/** Characters that need no escape in a JSON string. */
const PLAIN: Ranges = [[0x20, 0x21], [0x23, 0x5b], [0x5d, 0xd7ff], [0xe000, LAST]]
const SHORT = new Map([[8, 'b'], [9, 't'], [10, 'n'], [12, 'f'], [13, 'r'], [34, '"'], [92, '\\']])

/** One character of a JSON string. */
export const charRule = (grammar: Grammar): Rule => grammar.once('char', () => [[charClass(PLAIN)], ['"\\\\"',
  '(["\\\\/bfnrt] | "u" ([0-9a-cA-CefEF] [0-9a-fA-F]{3} | [dD] [0-7] [0-9a-fA-F]{2} | ' +
  '[dD] [89abAB] [0-9a-fA-F]{2} "\\\\u" [dD] [c-fC-F] [0-9a-fA-F]{2}))']])

/** GBNF alternatives for one of these characters in a JSON string. */
function written (set: Ranges): string[] {
  const isPlain = set.every(([low, high]) => PLAIN.some(([from, to]) => from <= low && high <= to))
  if (isPlain) return [charClass(set)]
  const plain = set.flatMap(([low, high]) =>
    PLAIN.map(([from, to]) => [Math.max(low, from), Math.min(high, to)] as const))
    .filter(([low, high]) => low <= high)
  const special = [...new Set([...SHORT.keys(), ...Array(32).keys()])]
    .filter((c) => set.some(([low, high]) => low <= c && c <= high))
  const short = special.flatMap((c) => single(SHORT.get(c) ?? ''))
  if (plain.length + short.length === 0) {
    return special.map((c) => literal(`\\u${c.toString(16).padStart(4, '0')}`))
  }
  // A set with other characters does not need its control characters.
  return [...plain.length === 0 ? [] : [charClass(plain)],
    ...short.length === 0 ? [] : [`"\\\\" ${charClass(short)}`]]
}
