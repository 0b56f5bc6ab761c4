/** Resolves a schema's references and combinations (allOf, anyOf, oneOf). */
import { Ajv2020 } from 'ajv/dist/2020.js'
import { unescape } from 'node:querystring'
import { isDeepStrictEqual } from 'node:util'
import { formatPattern } from './formats.js'
import { type Grammar, invalid } from './gbnf.js'

/**
 * A schema after resolving references and combinations: its keywords, their JSON pointers, and pointers to
 * keywords that could not be kept.
 */
export interface FlatSchema { words: Keywords, at: Record<string, string>, lost: readonly string[] }
export type Keywords = Record<string, unknown>

const MAX_ALTERNATIVES = 1000
const MAX_NODES = 50_000
const MAX_DEPTH = 200
/** Nesting depth to which properties are compared to prove that two alternatives exclude each other. */
const APART_DEPTH = 4
/** Keywords that restrict values of each type. */
export const KEYWORDS_BY_TYPE: Readonly<Record<string, readonly string[]>> = {
  number: ['minimum', 'exclusiveMinimum', 'maximum', 'exclusiveMaximum', 'multipleOf'],
  string: ['minLength', 'maxLength', 'pattern', 'format'],
  array: ['minItems', 'maxItems', 'prefixItems', 'items'],
  object: ['minProperties', 'maxProperties', 'properties', 'required', 'additionalProperties']
}
/** Unsupported keywords, each with the value with which it would have no effect. */
export const UNSUPPORTED_KEYWORDS: Keywords = {
  uniqueItems: false, contains: undefined, unevaluatedItems: true, unevaluatedProperties: true,
  propertyNames: true, patternProperties: undefined, dependentRequired: undefined, dependencies: undefined,
  dependentSchemas: undefined, $dynamicRef: undefined, not: false, if: undefined
}
const KNOWN =
  new Set(['type', 'enum', ...Object.values(KEYWORDS_BY_TYPE).flat(), ...Object.keys(UNSUPPORTED_KEYWORDS)])
const schemas = new Ajv2020({ strict: false, logger: false, validateFormats: false })

export class SchemaDocument {
  protected readonly grammar: Grammar
  protected readonly strict: boolean
  private readonly root: unknown
  private readonly pointers = new Map<unknown, string>()
  private readonly known = new Map<unknown, readonly FlatSchema[]>()
  private readonly pairs = new Map<unknown, Map<unknown, unknown>>()
  private readonly active = new Set<unknown>()
  /** Whether the document embeds schemas that have their own `$id`, which changes the base of references. */
  private embeds = false

  constructor (root: unknown, at: string, grammar: Grammar, strict: boolean) {
    ;[this.root, this.grammar, this.strict] = [root, grammar, strict]
    this.scan(root, at, 0)
    this.check(root, at)
  }

  private scan (value: unknown, at: string, depth: number): void {
    if (typeof value !== 'object' || value === null) return
    if (depth > MAX_DEPTH) throw invalid(at, `is nested more than ${MAX_DEPTH} levels deep`)
    if (this.pointers.size >= MAX_NODES) throw invalid('', `has more than ${MAX_NODES} objects and lists`)
    this.pointers.set(value, at)
    if (depth > 0 && '$id' in value && typeof value.$id === 'string') this.embeds = true
    for (const [key, each] of Object.entries(value)) {
      this.scan(each, `${at}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`, depth + 1)
    }
  }

  private check (schema: unknown, at: string): void {
    const isSchema = schemas.getSchema('https://json-schema.org/draft/2020-12/schema')
    if (isSchema?.(schema) === true) return
    const { instancePath = '', message = 'must be a schema' } = isSchema?.errors?.[0] ?? {}
    throw invalid(`${at}${instancePath}`, message)
  }

  /** The subschema to which a reference points; undefined if it is outside the document. */
  private target (reference: string): unknown {
    const [document, ...path] = reference.split('/')
    if (document !== '#' || this.embeds) return undefined
    const target = path.reduce<unknown>((parent, part) => {
      const key = unescape(part).replaceAll('~1', '/').replaceAll('~0', '~')
      return typeof parent === 'object' && parent !== null && Object.hasOwn(parent, key)
        ? (parent as Keywords)[key] : undefined
    }, this.root)
    if (target !== undefined) this.check(target, this.pointers.get(target) ?? reference)
    return target
  }

  /** The alternatives of a schema; empty if it is unsatisfiable. */
  protected alternatives (schema: unknown): readonly FlatSchema[] {
    if (typeof schema === 'boolean') return schema ? [{ words: {}, at: {}, lost: [] }] : []
    const [known, at] = [this.known.get(schema), this.pointers.get(schema) ?? '']
    if (known !== undefined) return known
    if (this.active.has(schema)) throw invalid(at, 'refers to itself endlessly')
    if (this.active.size >= MAX_DEPTH) throw invalid(at, `has more than ${MAX_DEPTH} nested references`)
    this.active.add(schema)
    const plain = this.combined(schema as Keywords, at)
    this.active.delete(schema)
    this.known.set(schema, plain)
    return plain
  }

  private combined (schema: Keywords, at: string): readonly FlatSchema[] {
    const { $ref: reference, allOf = [], anyOf, oneOf } = schema as Record<string, unknown[] | undefined>
    const target = reference === undefined ? true : this.target(String(reference))
    const one = oneOf?.map((each) => this.alternatives(each))
    const lost = [...target === undefined ? [`${at}/$ref`] : [],
      ...one === undefined || this.areApart(one) ? [] : [`${at}/oneOf`]]
    const own = { ...ownOf(schema, at), lost }
    const parts = [...[target ?? true, ...allOf].map((part) => this.alternatives(part)),
      ...[anyOf, oneOf].flatMap((list) => list === undefined ? []
        : [list.flatMap((part) => this.alternatives(part))])]
    return parts.reduce((before, part) => this.product(before, part, at), [own] as readonly FlatSchema[])
  }

  private product (left: readonly FlatSchema[], right: readonly FlatSchema[],
    at: string): readonly FlatSchema[] {
    if (left.length * right.length > MAX_ALTERNATIVES) {
      throw invalid(at, `has more than ${MAX_ALTERNATIVES} alternatives`)
    }
    return left.flatMap((a) => right.map((b) => this.joined(a, b))).filter(({ words }) =>
      [words['type'], words['enum']].every((some) => !Array.isArray(some) || some.length > 0))
  }

  private joined (a: FlatSchema, b: FlatSchema): FlatSchema {
    const words = { ...b.words, ...a.words }
    const lost = new Set([...a.lost, ...b.lost])
    const [names, others] = [a, b].map((one) => Object.keys(propertiesOf(one))) as [string[], string[]]
    this.grammar.spend(10 + names.length + others.length)
    for (const word of Object.keys(b.words).filter((each) => each in a.words)) {
      const joined = this.join(word, a.words[word], b.words[word])
      if (joined === undefined) lost.add(b.at[word] ?? '')
      else words[word] = joined
    }
    if (names.length + others.length > 0) {
      words['properties'] = Object.fromEntries([...names, ...others].map((name) =>
        [name, this.both(propertyOf(a, name), propertyOf(b, name))]))
    }
    // Drop `items` of one schema if the other has `prefixItems`, to which it cannot be applied.
    if ('prefixItems' in a.words && 'items' in b.words) lost.add(b.at['items'] ?? '')
    if ('prefixItems' in b.words && 'items' in a.words) lost.add(a.at['items'] ?? '')
    return { words, at: { ...b.at, ...a.at }, lost: [...lost] }
  }

  private join (word: string, a: unknown, b: unknown): unknown {
    const equals = (one: unknown) => (other: unknown): boolean => isDeepStrictEqual(one, other) ||
      (word === 'type' && one === 'integer' && other === 'number')
    if (word === 'type' || word === 'enum') {
      const [left, right] = [[a].flat(), [b].flat()]
      return [...left.filter((one) => right.some(equals(one))),
        ...right.filter((one) => left.some(equals(one)) && !left.includes(one))]
    }
    if (word === 'required') return [a, b].flat()
    if (word === 'items' || word === 'additionalProperties') return this.both(a, b)
    if (/^min|Minimum$/.test(word)) return Math.max(a as number, b as number)
    if (/^max|Maximum$/.test(word)) return Math.min(a as number, b as number)
    return word === 'properties' || equals(a)(b) ? a : undefined
  }

  /** Combines two schemas by `allOf`. The result is cached so that the grammar shares its rules. */
  private both (a: unknown, b: unknown): unknown {
    if (a === b || b === true) return a
    if (a === true) return b
    const pairs = this.pairs.get(a) ?? new Map<unknown, unknown>()
    const pair = pairs.get(b) ?? { allOf: [a, b] }
    this.pairs.set(a, pairs.set(b, pair))
    return pair
  }

  /** True if types, values or required properties prove that no value can match two alternatives. */
  private areApart (parts: readonly (readonly FlatSchema[])[]): boolean {
    return parts.every((part, i) => parts.slice(0, i).every((other) =>
      this.product(part, other, '').every((both) => this.isEmpty(both, 0))))
  }

  private isEmpty (plain: FlatSchema, depth: number): boolean {
    const { type, required = [] } = plain.words
    return String(type) === 'object' && depth < APART_DEPTH && (required as string[]).some((name) =>
      this.alternatives(propertyOf(plain, name)).every((each) => this.isEmpty(each, depth + 1)))
  }
}

export const propertiesOf = ({ words }: FlatSchema): Keywords =>
  words['properties'] as Keywords | undefined ?? {}

export const propertyOf = (plain: FlatSchema, name: string): unknown =>
  Object.hasOwn(propertiesOf(plain), name) ? propertiesOf(plain)[name]
    : plain.words['additionalProperties'] ?? true

function ownOf (schema: Keywords, at: string): Pick<FlatSchema, 'words' | 'at'> {
  const words = Object.fromEntries(Object.entries(schema).filter(([word]) => KNOWN.has(word)))
  if (schema['nullable'] === true && 'type' in words) words['type'] = [words['type'], 'null'].flat()
  if ('const' in schema) {
    const { const: value, enum: list = [value] } = schema
    words['enum'] = (list as unknown[]).filter((each) => isDeepStrictEqual(each, value))
  }
  if (formatPattern(words['format']) === undefined) delete words['format']
  return { words, at: Object.fromEntries(Object.keys(words).map((word) => [word, `${at}/${word}`])) }
}
