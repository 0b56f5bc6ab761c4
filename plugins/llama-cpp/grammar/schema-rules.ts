/** Creates grammar rules for the values that a schema admits. */
import { formatPattern } from './formats.js'
import { BLANK, invalid, type Item, literal, NotExpressible, ref, type Rule, SPACE } from './gbnf.js'
import { numbers } from './number.js'
import { remainderOf, charRule, END, translated } from './pattern.js'
import {
  KEYWORDS_BY_TYPE, UNSUPPORTED_KEYWORDS, propertiesOf, propertyOf, SchemaDocument
} from './schema-refs.js'
import type { FlatSchema, Keywords } from './schema-refs.js'

const ALL = ['object', 'array', 'string', 'number', 'boolean', 'null']
export class Values extends SchemaDocument {
  /** JSON pointers to keywords that the rules do not enforce. */
  readonly unenforced = new Set<string>()
  private readonly rules = new Map<unknown, Rule>()

  rule (schema: unknown): Rule {
    const rule = this.rules.get(schema) ?? this.grammar.later(() =>
      this.alternatives(schema).flatMap((plain) => this.ways(plain)))
    this.rules.set(schema, rule)
    return rule
  }

  private lose (at = '', why = 'cannot be expressed as a grammar'): void {
    if (this.strict) throw invalid(at, why)
    this.unenforced.add(at)
  }

  /** Returns what `express` returns; if it throws NotExpressible, records the keywords `at` as unenforced. */
  private attempt<T> (at: readonly (string | undefined)[], express: () => T): T | undefined {
    try {
      return express()
    } catch (error) {
      if (!(error instanceof NotExpressible)) throw error
      for (const each of at) this.lose(each, `cannot be expressed as a grammar: it ${error.message}`)
      return undefined
    }
  }

  private ways (plain: FlatSchema): Item[][] {
    const { words, at, lost } = plain
    const values = words['enum'] as unknown[] | undefined
    const hints =
      Object.keys(KEYWORDS_BY_TYPE).filter((type) => KEYWORDS_BY_TYPE[type]?.some((word) => word in words))
    const types = new Set(
      [words['type'] ?? (hints.length > 0 && values === undefined ? hints : ALL)].flat() as string[])
    for (const pointer of lost) this.lose(pointer)
    for (const word of Object.keys(UNSUPPORTED_KEYWORDS)) if (word in words &&
      words[word] !== UNSUPPORTED_KEYWORDS[word]) this.lose(at[word])
    if (values === undefined) return [...types].flatMap((type) => this.ofType(type, plain, types))
    if (hints.length > 0) this.lose(at['enum'], 'cannot be combined with keywords of its type')
    const fitting = values.filter((value) => [...types].some((type) => isType(value, type)))
    const texts = fitting.filter((value) => typeof value === 'string').map((text) => Array.from(text))
    const others = fitting.filter((value) => typeof value !== 'string')
    return [['"\\""', ref(this.grammar.add(remainderOf(this.grammar, texts)))],
      ...others.map((value) => [literal(JSON.stringify(value))])]
  }

  private ofType (type: string, plain: FlatSchema, types: ReadonlySet<string>): Item[][] {
    switch (type) {
      case 'object': return this.object(plain)
      case 'array': return this.array(plain)
      case 'string': return this.string(plain)
      case 'boolean': return [['"true"'], ['"false"']]
      case 'null': return [['"null"']]
      default: return type === 'integer' && types.has('number') ? [] : this.number(plain, type === 'integer')
    }
  }

  private number ({ words, at }: FlatSchema, integer: boolean): Item[][] {
    const pointers = KEYWORDS_BY_TYPE['number']?.flatMap((word) => at[word] ?? []) ?? []
    const texts = this.attempt(pointers, () => numbers(words, integer)) ?? numbers({}, integer)
    return texts.map((text) => [text])
  }

  private string ({ words, at }: FlatSchema): Item[][] {
    const { pattern, format, minLength: min = 0, maxLength: max = Infinity } = words as Record<string, number>
    const word = pattern === undefined ? 'format' : 'pattern'
    const source = pattern ?? formatPattern(format)
    if (word === 'pattern' && 'format' in words) this.lose(at['format'], 'cannot be combined with a pattern')
    const part = source === undefined ? undefined
      : this.attempt([at[word]], () => translated(String(source), this.grammar))
    if (part !== undefined && (part.least < min || part.most > max)) {
      this.lose(at[word], 'cannot be combined with minLength or maxLength')
    }
    return [['"\\""', ...part?.items ?? [...this.grammar.repeat(charRule(this.grammar), min, max), END]]]
  }

  /**
   * Allows only the items of `prefixItems`, as `object` allows only named properties, because a grammar may
   * be narrower than its schema.
   */
  private array ({ words, at }: FlatSchema): Item[][] {
    const { prefixItems: first = [], items = true } = words as { prefixItems?: unknown[] } & Keywords
    const { minItems: min = 0, maxItems: max = Infinity } = words as Record<string, number>
    if (first.length > 0 && min > first.length) this.lose(at['minItems'])
    const members = first.map((each) => ({ isNeeded: false, items: [ref(this.rule(each))] }))
    const all = first.length === 0 ? this.list([ref(this.rule(items))], min, max)
      : this.members(members, min, max, false)
    return [['"["', SPACE, all, SPACE, '"]"']]
  }

  private object (plain: FlatSchema): Item[][] {
    const { words, at } = plain
    const { minProperties: min = 0, maxProperties: max = Infinity } = words as Record<string, number>
    const required = new Set(words['required'] as string[] | undefined)
    const names = [...new Set([...Object.keys(propertiesOf(plain)), ...required])]
    // Report a larger `minProperties` as unenforced: the model may repeat a name, which counts only once.
    if (min > Math.max(1, names.length)) this.lose(at['minProperties'])
    const members = names.map((name) => ({
      isNeeded: required.has(name),
      items: [literal(`${JSON.stringify(name)}:`), BLANK, ref(this.rule(propertyOf(plain, name)))]
    }))
    const any = ['"\\""', ref(charRule(this.grammar), 0, Infinity), END, '":"', BLANK]
    const all = names.length > 0 ? this.members(members, min, max, true)
      : this.list([...any, ref(this.rule(words['additionalProperties'] ?? true))], min, max)
    return [['"{"', SPACE, all, SPACE, '"}"']]
  }

  private list (member: Item[], min: number, max: number): Item {
    const next = this.grammar.add([['","', SPACE, ...member]])
    return ref(this.grammar.add([...min === 0 ? [['']] : [],
      ...max === 0 ? [] : [[...member, ...this.grammar.repeat(next, Math.max(0, min - 1), max - 1)]]]))
  }

  /** A list of `min` to `max` members in order. Only if `skips` is set may a member follow a missing one. */
  private members (
    members: readonly { isNeeded: boolean, items: Item[] }[], min: number, max: number, skips: boolean
  ): Item {
    const { id } = this.grammar.add()
    // Count no further than the bounds require, so that more positions share a rule.
    const next = (count: number): number => Math.min(count + 1, max < Infinity ? max + 1 : Math.max(min, 1))
    const from = (i: number, count: number): Rule => this.grammar.once(`${id} ${i} ${count}`, () => {
      const member = members[i]
      const end: Item[][] = count >= Math.min(min, members.length) ? [['']] : []
      if (member === undefined || count > max) return count > max ? [] : end
      const present = [...count > 0 ? ['","', SPACE] : [], ...member.items, ref(from(i + 1, next(count)))]
      return member.isNeeded ? [present] : [present, ...skips ? [[ref(from(i + 1, count))]] : end]
    })
    return ref(from(0, 0))
  }
}

const isType = (value: unknown, type: string): boolean => type === 'integer' ? Number.isInteger(value)
  : type === (value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value)
