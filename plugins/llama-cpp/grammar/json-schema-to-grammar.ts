/** Compiles JSON Schema (2020-12) to GBNF, llama.cpp's grammar notation, in the runner process. */
import { fieldsOf } from '../../runners/language/json.js'
import type { ToolCallFormat } from '../embedded/formats.js'
import { fromDraft7 } from '../../runners/language/draft7.js'
import { Grammar, invalid, literal, ref, BLANK, type Item, NotExpressible, type Rule, SPACE } from './gbnf.js'
import { formatPattern } from './formats.js'
import { remainderOf, charRule, END, translated } from './pattern.js'
import {
  KEYWORDS_BY_TYPE, UNSUPPORTED_KEYWORDS, propertiesOf, propertyOf, SchemaDocument
} from './schema-refs.js'
import type { FlatSchema, Keywords } from './schema-refs.js'

const MAX_CALLS = 16
/** A GBNF grammar with start rule `root`, and JSON pointers to schema keywords that it does not enforce. */
export interface Compiled { grammar: string, unenforced: string[] }

/**
 * Compiles a schema; `path` is the schema's place in the request. If `unenforced` is empty, all
 * admitted texts are valid. Throws `invalid_request` for a schema that is invalid, too large or
 * unsatisfiable, and, if `strict`, for a keyword that GBNF cannot express.
 */
export function compileSchema (
  given: unknown, { strict, path = '' }: { strict: boolean, path?: string }
): Compiled {
  const grammar = new Grammar()
  const schema = fromDraft7(given)
  const values = new Values(schema, path, grammar, strict)
  const text = grammar.toText(values.rule(schema))
  if (text === undefined) throw invalid(path, 'allows no value')
  return { grammar: text, unenforced: [...values.unenforced] }
}

/**
 * Compiles a grammar for tool calls. `choice` is the request's `tool_choice`: a named function must be called
 * once; otherwise any tools may be called, several times only if `parallel`. The parameters of a function
 * with `strict: true` must be expressible.
 */
export function compileTools (
  tools: readonly unknown[], choice: unknown, format: ToolCallFormat, parallel = true
): Compiled {
  const { begin = '', call: form, separator = '', end = '' } = format
  const grammar = new Grammar()
  const wanted = fieldsOf(fieldsOf(choice)['function'])['name']
  const all: Values[] = []
  const calls = tools.flatMap((tool, i) => {
    const { name, parameters = {}, strict } = fieldsOf(fieldsOf(tool)['function'])
    if (typeof name !== 'string' || name === '') throw invalid(`tools.${i}.function.name`, 'must be a string')
    if (wanted !== undefined && wanted !== name) return []
    const schema = fromDraft7(parameters)
    const values = new Values(schema, `tools.${i}.function.parameters`, grammar, strict === true)
    all.push(values)
    const object = ref(values.rule({ allOf: [schema, { type: 'object' }] }))
    const [before = '', after = ''] = form.replace('{{name}}', () => JSON.stringify(name).slice(1, -1))
      .split('{{arguments}}')
    return [[literal(before), object, literal(after)]]
  })
  if (calls.length === 0) throw invalid('tool_choice', 'names a function that is not among the tools')
  const call = grammar.add(calls)
  const next = grammar.add([[literal(separator), ref(call)]])
  const most = parallel && wanted === undefined ? MAX_CALLS - 1 : 0
  const answer = [literal(begin), ref(call), ...grammar.repeat(next, 0, most), literal(end)]
  const text = grammar.toText(grammar.add([answer]))
  if (text === undefined) throw invalid('tools', 'allow no call')
  return { grammar: text, unenforced: all.flatMap((values) => [...values.unenforced]) }
}

const ALL = ['object', 'array', 'string', 'number', 'boolean', 'null']
class Values extends SchemaDocument {
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

/** Maximum number of significant digits with which two different decimals are never the same double. */
const DIGITS = 15
const LIMIT = 10 ** DIGITS
const INTEGER = '"-"? ("0" | [1-9] [0-9]{0,14})'
const NUMBER = `${INTEGER} ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,2})?`

/** GBNF alternatives for a number in a schema; empty if no number is valid. @throws NotExpressible */
function numbers (words: Record<string, unknown>, integer: boolean): string[] {
  const { minimum: min = -Infinity, exclusiveMinimum: above = -Infinity, maximum: max = Infinity,
    exclusiveMaximum: below = Infinity, multipleOf } = words as Record<string, number>
  const low = integer ? Math.max(Math.ceil(min), Math.floor(above) + 1) : Math.max(min, above)
  const high = integer ? Math.min(Math.floor(max), Math.ceil(below) - 1) : Math.min(max, below)
  const isFree = low === -Infinity && high === Infinity
  if (multipleOf !== undefined) return [multiples(isFree ? multipleOf : NaN)]
  if (isFree) return [integer ? INTEGER : NUMBER]
  const [isAbove, isBelow] = [!integer && low === above, !integer && high === below]
  if (low > high || (low === high && (isAbove || isBelow))) return []
  const places = Math.max(...[low, high].map((bound) => String(bound).split('.')[1]?.length ?? 0))
  const between = (from: number, to: number, isAbove: boolean, isBelow: boolean): string[] => {
    // Scale the bounds to integers by dropping the decimal point.
    const [least = 0, most = 0] = [from, to].map((bound) => {
      const [before = '', after = ''] = String(bound).split('.')
      return bound < LIMIT ? Math.min(LIMIT, Number(before + after.padEnd(places, '0'))) : LIMIT
    })
    if (![least, most].every(Number.isInteger) || least === LIMIT) {
      throw new NotExpressible(`has a bound of more than ${DIGITS} digits`)
    }
    const more = integer ? 0 : Math.max(0, DIGITS - String(most < LIMIT ? most : least).length)
    const tail = places > 0 ? `[0-9]{0,${more}}` : more > 0 ? `("." [0-9]{1,${more}})?` : ''
    const edge = isAbove && least < most && more > 0 ? digits(least, least, places) : []
    return [...isBelow || most === LIMIT ? [] : digits(most, most, places),
      ...edge.map((text) => `${text} ${places > 0 ? '' : '"."'} [0-9]{0,${more - 1}} [1-9]`),
      ...digits(isAbove ? least + 1 : least, most - 1, places).map((text) => `(${text}) ${tail}`)]
  }
  return [...high < 0 ? [] : between(Math.max(low, 0), high, low >= 0 && isAbove, isBelow),
    ...low >= 0 ? [] : between(Math.max(-high, integer ? 1 : 0), -low, high <= 0 && isBelow, isAbove)
      .map((text) => `"-" (${text})`)]
}

function multiples (step: number): string {
  if (1000 % step !== 0 || step < 1) throw new NotExpressible('does not divide 1000, or is used with bounds')
  const ends = Array.from({ length: 1000 / step }, (_, i) => String(i * step))
  return `"-"? ("${ends.join('" | "')}" | ` +
    `[1-9] [0-9]{0,11} ("${ends.map((end) => end.padStart(3, '0')).join('" | "')}"))`
}

/** GBNF alternatives for the integers from `low` to `high`, one for each number of digits. */
function digits (low: number, high: number, places: number): string[] {
  if (low > high) return []
  const [least = '', most = ''] = [low, high].map((bound) => String(bound).padStart(places + 1, '0'))
  return Array.from({ length: most.length - least.length + 1 }, (_, i) => {
    const length = least.length + i
    const from = i === 0 ? least : `1${'0'.repeat(length - 1)}`
    return span(from, length === most.length ? most : '9'.repeat(length), places)
  })
}

/** GBNF for digits from `low` to `high` (same length), with a decimal point before the last `places`. */
function span (low: string, high: string, places: number): string {
  const [first, last, rest] = [Number(low[0]), Number(high[0]), low.length - 1]
  if (rest === 0) return `[${first}-${last}]`
  const point = rest === places ? '"." ' : ''
  const after = (from: string, to: string): string => `${point}${span(from, to, places)}`
  const [zeros, nines] = ['0'.repeat(rest), '9'.repeat(rest)]
  if (first === last || (low.endsWith(zeros) && high.endsWith(nines))) {
    return `[${first}-${last}] ${after(low.slice(1), high.slice(1))}`
  }
  const between = last - first < 2 ? '' : ` | [${first + 1}-${last - 1}] ${after(zeros, nines)}`
  return `("${first}" ${after(low.slice(1), nines)}${between} | "${last}" ${after(zeros, high.slice(1))})`
}
