/** Rules of the values that a schema allows. */
import { invalid, NotExpressible } from './errors.js'
import { type All, EVERYTHING, type Flat, TYPES } from './flat.js'
import { BLANK, type Grammar, type Item, literal, ref, type Rule, SPACE } from './gbnf.js'
import { charRule, type Language } from './language.js'
import { numberLanguage } from './number.js'
import type { SchemaDocument } from './schema.js'

const INTEGER = '"-"? ("0" | [1-9] [0-9]{0,14})'
const NUMBER = `${INTEGER} ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,2})?`

const MAX_TREE = 100

export class Values {
  /** Pointers of keywords that the rules do not express. */
  readonly unenforced = new Set<string>()
  private readonly ids = new Map<unknown, number>()
  private readonly texts = new Map<Language, Rule>()
  private readonly key: string
  private readonly grammar: Grammar
  private readonly document: SchemaDocument
  private readonly strict: boolean

  constructor (grammar: Grammar, document: SchemaDocument, strict: boolean) {
    this.grammar = grammar
    this.document = document
    this.strict = strict
    this.key = this.fresh()
  }

  private fresh (): string { return `members ${this.grammar.add().id}` }

  /** The rule of the values that fulfil all schemas. */
  rule (all: All): Rule {
    const nodes = new Map(all.filter(({ schema }) => schema !== true).map((node) => [node.schema, node]))
    const ids = [...nodes.keys()].map((schema) => {
      const id = this.ids.get(schema) ?? this.ids.size
      this.ids.set(schema, id)
      return id
    }).sort((a, b) => a - b)
    return this.grammar.once(`value ${ids.length === 0 ? '' : this.key} ${ids.join()}`, () =>
      this.attempt(all[0]?.at ?? '', () => this.document.flat([...nodes.values()])
        .flatMap((flat) => this.alternatives(flat))) ?? this.alternatives(EVERYTHING))
  }

  private lose (at: string, why = 'cannot be expressed as a grammar'): void {
    if (this.strict) throw invalid(at, why)
    this.unenforced.add(at)
  }

  /** Calls `express`; gives undefined if what it says is not expressible. */
  private attempt<T> (at: string, express: () => T): T | undefined {
    try {
      return express()
    } catch (error) {
      if (!(error instanceof NotExpressible)) throw error
      this.lose(at, `cannot be expressed as a grammar: it ${error.message}`)
      return undefined
    }
  }

  private alternatives (flat: Flat): Item[][] {
    const { values, hints } = flat
    const types = flat.types ?? (hints.size > 0 && values === undefined ? hints : new Set(TYPES))
    for (const { type, at } of flat.lost) {
      const concerned = type === undefined || types.has(type) || (type === 'number' && types.has('integer'))
      if (concerned) this.lose(at)
    }
    if (values !== undefined) {
      const fitting = values.filter((value) => this.document.admits({ ...flat, values: undefined }, value))
      const texts = new Set(fitting.filter((value) => typeof value === 'string'))
      const others = fitting.filter((value) => typeof value !== 'string').map((value) => this.literal(value))
      if (texts.size === 0) return others
      return [['"\\""', ref(this.grammar.add(this.tree([...texts].map((text) => [...text]))))], ...others]
    }
    return [...types].flatMap((type) => {
      switch (type) {
        case 'object': return this.object(flat)
        case 'array': return this.array(flat)
        case 'string': return this.string(flat)
        case 'boolean': return [['"true"'], ['"false"']]
        case 'null': return [['"null"']]
        default: return type === 'integer' && types.has('number') ? [] : this.number(flat, type === 'integer')
      }
    })
  }

  /** Texts as a tree of their characters: an alternative for each would cost time with every token. */
  private tree (texts: readonly (readonly string[])[], depth = 0): Item[][] {
    const groups = new Map<string, string[][]>()
    for (const [first = '', ...rest] of texts) {
      const group = groups.get(first) ?? []
      group.push(rest)
      groups.set(first, group)
    }
    const whole = (text: readonly string[]): Item[] => [literal(JSON.stringify(text.join('')).slice(1))]
    if (depth > MAX_TREE) return texts.map(whole)
    return [...groups].map(([first, rests]) => rests.length === 1 ? whole([first, ...rests.flat()])
      : [literal(JSON.stringify(first).slice(1, -1)), ref(this.grammar.add(this.tree(rests, depth + 1)))])
  }

  /** A value as a model may write it. */
  private literal (value: unknown): Item[] {
    if (typeof value !== 'object' || value === null) return [literal(JSON.stringify(value))]
    const members = Array.isArray(value) ? value.map((each) => this.literal(each))
      : Object.entries(value).map(([name, each]) =>
          [literal(`${JSON.stringify(name)}:`), BLANK, ...this.literal(each)])
    const [open, close] = Array.isArray(value) ? ['"["', '"]"'] : ['"{"', '"}"']
    return [open, SPACE, ...members.flatMap((member, i) => [...this.comma(i), ...member]), SPACE, close]
  }

  private number ({ number, at }: Flat, integer: boolean): Item[][] {
    const { grammar, document: { languages } } = this
    const bounded = number.min > -Infinity || number.max < Infinity
    const rule = bounded ? this.attempt(`${at}/${number.min > -Infinity ? 'minimum' : 'maximum'}`, () =>
      ref(languages.rule(grammar, numberLanguage(number, integer, languages), false))) : undefined
    return [[rule ?? (integer ? INTEGER : NUMBER)]]
  }

  private string ({ sizes: { string: [min, max] }, texts, at }: Flat): Item[][] {
    const { grammar, document: { languages } } = this
    const all = texts.flatMap((text) => this.attempt(text.at, () => this.document.pattern(text.source)) ?? [])
    const sized = languages.repeat(languages.char, min, max)
    const rule = all.length === 0 ? undefined
      : this.attempt(texts[0]?.at ?? at, () => this.text(min > 0 || max < Infinity ? [...all, sized] : all))
    return [['"\\""', rule ?? ref(grammar.once(`string ${min} ${max}`, () =>
      [[...grammar.repeat(charRule(grammar), min, max), '"\\""']]))]]
  }

  /** The rest of a string that is in all languages. */
  private text (all: readonly Language[]): Item {
    const { grammar, document: { languages } } = this
    const language = languages.allOf(all)
    const rule = this.texts.get(language) ?? languages.rule(grammar, language)
    this.texts.set(language, rule)
    return ref(rule)
  }

  private array ({ first, items, moreItems, sizes: { array: [min, most] } }: Flat): Item[][] {
    const { grammar } = this
    // Without a word about more items there are none, if that is allowed.
    const max = moreItems || min > first.length || first.length === 0 ? most : Math.min(most, first.length)
    const id = this.fresh()
    const from = (i: number): Rule => grammar.once(`${id} ${i}`, () => {
      if (i > max) return []
      const all = first[i]
      const end: Item[][] = i >= min ? [['']] : []
      if (all === undefined) return this.listed(this.rule(items), i, [Math.max(0, min - i), max - i])
      return [...end, ...i === max ? [] : [[...this.comma(i), ref(this.rule(all)), ref(from(i + 1))]]]
    })
    return [['"["', SPACE, ref(from(0)), SPACE, '"]"']]
  }

  private comma (before: number): Item[] {
    return before > 0 ? ['","', SPACE] : []
  }

  /** `min` to `max` more members after so many of them. */
  private listed (member: Rule, before: number, [min, max]: readonly [number, number]): Item[][] {
    const { grammar } = this
    const next = grammar.once(`next ${member.id}`, () => [[...this.comma(1), ref(member)]])
    if (before > 0) return [[...grammar.repeat(next, min, max)]]
    return [...min === 0 ? [['']] : [],
      ...max === 0 ? [] : [[ref(member), ...grammar.repeat(next, Math.max(0, min - 1), max - 1)]]]
  }

  private object (flat: Flat): Item[][] {
    const { grammar, document } = this
    const { at, properties, required, sizes: { object: [min, most] } } = flat
    const names = new Set([...properties.keys(), ...required])
    const members = [...names].map((name) => ({
      needed: required.has(name),
      items: [literal(`${JSON.stringify(name)}:`), BLANK, ref(this.rule(document.property(flat, name)))]
    }))
    const others = this.others(flat, [...names])
    const max = others.length === 0 && most >= members.length ? Infinity : most
    const [id, other] = [this.fresh(), grammar.add(others)]
    const next = (count: number): number => Math.min(count + 1, max < Infinity ? max + 1 : Math.max(min, 1))
    const from = (i: number, count: number): Rule => grammar.once(`${id} ${i} ${count}`, () => {
      if (count > max) return []
      const member = members[i]
      if (member !== undefined) {
        const present = [...this.comma(count), ...member.items, ref(from(i + 1, next(count)))]
        return member.needed ? [present] : [present, [ref(from(i + 1, count))]]
      }
      const left = Math.max(0, min - count)
      // Names of others may be equal, so that two of them are only one property.
      if (left > 1 && others.length > 0) this.lose(`${at}/minProperties`)
      return this.listed(other, count, [left, max - count])
    })
    return [['"{"', SPACE, ref(from(0, 0)), SPACE, '"}"']]
  }

  /** Properties besides those with these names. */
  private others (flat: Flat, names: readonly string[]): Item[][] {
    const { grammar, document, document: { languages } } = this
    const declared = languages.anyOf(names.map((name) => languages.text(name)))
    const member = (all: Language[], schemas: All, at: string): Item[] => ['"\\""',
      this.attempt(at, () => this.text([...all, languages.not(declared)])) ?? ref(grammar.add()), '":"',
      BLANK,
      ref(this.rule(schemas))]
    const patterns = [...flat.patterns.keys()].map((source) => document.pattern(source))
    const none = patterns.map((language) => languages.not(language))
    const matching = [...flat.patterns.values()].map((schemas, i) => member(
      [patterns[i] as Language, ...none.filter((_, k) => k !== i)], schemas, schemas[0]?.at ?? flat.at))
    // Without a word about more properties there are none, if that is allowed.
    const more = flat.more || flat.properties.size + none.length === 0 || flat.sizes.object[0] > names.length
    return more ? [...matching, member(none, flat.others, `${flat.at}/additionalProperties`)] : matching
  }
}
