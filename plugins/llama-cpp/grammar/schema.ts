/** Resolves references and combinations of a schema. */
import { type Budget, escaped, invalid, isObject } from './errors.js'
import { type All, canonical, EVERYTHING, type Flat, isType, merge, type Node, TYPES } from './flat.js'
import { own } from './keywords.js'
import { type Language, Languages } from './language.js'
import { patternLanguage } from './pattern.js'

const MAX_ALTERNATIVES = 1000
const MAX_NODES = 50_000
const MAX_DEPTH = 200
/** Levels of objects in which a property may distinguish alternatives. */
const APART_DEPTH = 4

export class SchemaDocument {
  private readonly flats = new Map<unknown, readonly Flat[]>()
  private readonly active = new Set<unknown>()
  private readonly patterns = new Map<string, Language>()
  private readonly budget: Budget
  private nodes = 0
  /** Whether it contains other resources, in which references mean something else. */
  private embeds = false
  readonly languages: Languages
  readonly root: Node

  constructor (schema: unknown, at: string, budget: Budget) {
    this.root = { schema, at }
    this.budget = budget
    this.languages = new Languages(budget)
    this.scan(schema, at, 0)
  }

  private scan (value: unknown, at: string, depth: number): void {
    if (typeof value !== 'object' || value === null) return
    if (depth > MAX_DEPTH) throw invalid(at, `is nested more than ${MAX_DEPTH} levels deep`)
    if (++this.nodes > MAX_NODES) throw invalid(this.root.at, `has more than ${MAX_NODES} objects and lists`)
    if (depth > 0 && '$id' in value && typeof value.$id === 'string') this.embeds = true
    this.budget.spend(20)
    for (const [key, each] of Object.entries(value)) this.scan(each, `${at}/${escaped(key)}`, depth + 1)
  }

  /** The node that a reference names; undefined if it is not in the document. */
  private target (reference: string): Node | undefined {
    const [document, ...path] = reference.split('/')
    if (document !== '#' || this.embeds) return undefined
    return path.reduce<Node | undefined>((node, part) => {
      const key = decoded(part).replaceAll('~1', '/').replaceAll('~0', '~')
      const parent = node?.schema
      if (typeof parent !== 'object' || parent === null || !Object.hasOwn(parent, key)) return undefined
      return { schema: (parent as Record<string, unknown>)[key], at: `${node?.at}/${escaped(key)}` }
    }, this.root)
  }

  /** The alternatives of schemas that all hold; none if no value fulfils them. */
  flat (all: All): readonly Flat[] {
    return all.reduce<readonly Flat[]>((flats, node) => this.product(flats, this.flatOne(node)), [EVERYTHING])
  }

  private flatOne ({ schema, at }: Node): readonly Flat[] {
    if (schema === true) return [EVERYTHING]
    if (schema === false) return []
    if (!isObject(schema)) throw invalid(at, 'is not a schema')
    const known = this.flats.get(schema)
    if (known !== undefined) return known
    if (this.active.has(schema)) throw invalid(at, 'refers to itself without a value between')
    if (this.active.size >= MAX_DEPTH) throw invalid(at, `is at the end of more than ${MAX_DEPTH} references`)
    this.active.add(schema)
    const flats = this.combined(schema, at)
    this.active.delete(schema)
    this.flats.set(schema, flats)
    return flats
  }

  private combined (schema: Record<string, unknown>, at: string): readonly Flat[] {
    let flats: readonly Flat[] = [own(schema, at, this.hasName)]
    const lose = (word: string): void => {
      flats = flats.map((each) => ({ ...each, lost: [...each.lost, { at: `${at}/${word}` }] }))
    }
    const { $ref: reference } = schema
    if (reference !== undefined) {
      const node = typeof reference === 'string' ? this.target(reference) : undefined
      if (node === undefined) lose('$ref')
      else flats = this.product(flats, this.flatOne(node))
    }
    for (const word of ['allOf', 'anyOf', 'oneOf']) {
      const list = schema[word]
      if (list === undefined) continue
      if (!Array.isArray(list) || list.length === 0) throw invalid(`${at}/${word}`,
        'is not a list of schemas')
      const parts = list.map((each, i) => this.flatOne({ schema: each, at: `${at}/${word}/${i}` }))
      if (word === 'allOf') flats = parts.reduce((before, part) => this.product(before, part), flats)
      else flats = this.product(flats, parts.flat())
      const exclusive = word !== 'oneOf' || parts.every((part, i) =>
        parts.slice(0, i).every((other) => this.product(part, other).every((flat) => this.isEmpty(flat, 0))))
      if (!exclusive) lose(word)
    }
    return flats
  }

  private product (left: readonly Flat[], right: readonly Flat[]): readonly Flat[] {
    if (left.length * right.length > MAX_ALTERNATIVES) {
      throw invalid((right[0] ?? left[0])?.at ?? '', `has more than ${MAX_ALTERNATIVES} alternatives`)
    }
    if (left[0] === EVERYTHING) return right
    if (right[0] === EVERYTHING && right.length === 1) return left
    return left.flatMap((a) => right.map((b) => {
      this.budget.spend(100 + 10 * (a.properties.size + b.properties.size))
      return merge(a, b, this.property)
    })).filter(({ types, values }) => types?.size !== 0 && values?.length !== 0)
  }

  /** The schemas of a property. */
  readonly property = ({ properties, patterns, others }: Flat, name: string): All => {
    const declared = properties.get(name)
    if (declared !== undefined) return declared
    const matched = [...patterns].filter(([source]) => this.hasName(source, name))
    return matched.length > 0 ? matched.flatMap(([, all]) => all) : others
  }

  private readonly hasName = (source: string, name: string): boolean =>
    this.languages.matches(this.pattern(source), name)

  /** Throws NotExpressible. */
  pattern (source: string): Language {
    const language = this.patterns.get(source) ?? patternLanguage(source, this.languages)
    this.patterns.set(source, language)
    return language
  }

  /** Whether a value fulfils a schema, as far as its keywords are expressible. */
  admits (flat: Flat, value: unknown): boolean {
    this.budget.spend(50)
    const { types, values, sizes, number } = flat
    const within = (type: keyof Flat['sizes'], size: number): boolean =>
      size >= sizes[type][0] && size <= sizes[type][1]
    const all = (schemas: All, each: unknown): boolean =>
      this.flat(schemas).some((one) => this.admits(one, each))
    if (types !== undefined && ![...types].some((type) => isType(value, type))) return false
    if (values !== undefined && !values.some((other) => canonical(value) === canonical(other))) return false
    if (typeof value === 'number') {
      return (number.aboveMin ? value > number.min : value >= number.min) &&
        (number.belowMax ? value < number.max : value <= number.max)
    }
    if (typeof value === 'string') {
      return within('string', [...value].length) &&
        flat.texts.every(({ source }) => this.hasName(source, value))
    }
    if (Array.isArray(value)) {
      return within('array', value.length) && value.every((each, i) => all(flat.first[i] ?? flat.items, each))
    }
    return !isObject(value) || (within('object', Object.keys(value).length) &&
      [...flat.required].every((name) => Object.hasOwn(value, name)) &&
      Object.entries(value).every(([name, each]) => all(this.property(flat, name), each)))
  }

  /** Whether no value fulfils a schema; false if that is not seen. */
  private isEmpty (flat: Flat, depth: number): boolean {
    const { types = new Set(TYPES), values, number, sizes } = flat
    this.budget.spend(100)
    if (values !== undefined) return !values.some((value) =>
      this.admits({ ...flat, values: undefined }, value))
    return [...types].every((type) => {
      if (type === 'null' || type === 'boolean') return false
      if (type === 'number' || type === 'integer') {
        return number.min > number.max || (number.min === number.max && (number.aboveMin || number.belowMax))
      }
      return sizes[type][0] > sizes[type][1] || (type === 'object' && depth < APART_DEPTH &&
        [...flat.required].some((name) =>
          this.flat(this.property(flat, name)).every((each) => this.isEmpty(each, depth + 1))))
    })
  }
}

function decoded (part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
