/** Reading JSON Schemas: references and alternatives are dissolved, what cannot be enforced is refused. */
import { isObject } from '../../json.js'
import {
  accepts, allBut, both, complement, lengthAutomaton, regexAutomaton, type Automaton
} from './automaton.js'
import { spend } from './budget.js'
import type { Budget } from './budget.js'
import { EngineError } from '../../../../kernel/api/engine.js'
import {
  anything, canonical, fitsLimits, impliedKinds, isKind, KINDS, kindsOf, limitsOf, merge, refused,
  schemasOf, type All, type Flat, type Kind, type Limits, type Located, type Patterned
} from './flat.js'
import { whyNot } from './keywords.js'
import { negationOf } from './negation.js'
import { FORMATS, parseRegex, RegexError } from './regex.js'

/** Most values of one list. */
const MAX_ENUM = 1000
/** Most alternatives of one place after allOf and anyOf are dissolved. */
const MAX_ALTERNATIVES = 64

/** What is said of a text. */
export type TextRules = Pick<Flat, 'path' | 'limits' | 'patterns' | 'notPatterns' | 'notValues'>

/** A schema document: resolves references and dissolves alternatives. Paths in messages begin with `root`. */
export class SchemaDocument {
  readonly root: Located
  private readonly strict: boolean
  private readonly automata = new Map<string, Automaton>()

  /** Where not `strict`, keywords that cannot be enforced are left out, and oneOf is read as anyOf. */
  constructor (schema: unknown, path: string, strict = true) {
    this.root = { schema, path }
    this.strict = strict
  }

  /** Whether no value fits two alternatives of a oneOf; false also where finding out takes too much. */
  isDisjoint ({ schema, path }: Located, budget: Budget): boolean {
    try {
      return budget.run(path, () => {
        const parts = list(schema as Record<string, unknown>, 'oneOf', path)
        return this.overlapping(parts.map((part) => this.alternatives(part, []))) === null
      })
    } catch (error) {
      if (error instanceof EngineError) return false
      throw error
    }
  }

  /** The keyword of a text's rules that is too large to enforce, or takes too much to find out; or null. */
  tooLarge (schema: Record<string, unknown>, path: string, budget: Budget): 'pattern' | 'maxLength' | null {
    const [pattern] = patterns(schema, path)
    if (pattern === undefined || schema['pattern'] === undefined) return null
    const strict = new SchemaDocument(schema, path)
    const fits = (limits: Limits): boolean => {
      try {
        budget.run(path, () => strict.textAutomaton({ ...anything(path), limits, patterns: [pattern] }))
        return true
      } catch (error) {
        if (error instanceof EngineError) return false
        throw error
      }
    }
    const { minLength, maxLength } = schema
    if (!fits({})) return 'pattern'
    const sized = typeof minLength === 'number' || typeof maxLength === 'number'
    return sized && !fits(limitsOf(schema, path)) ? 'maxLength' : null
  }

  /** Whether a name matches a pattern. */
  readonly matches = (pattern: Located, name: string): boolean => accepts(this.automaton(pattern), name)

  /** The alternatives of schemas that must all hold; [] where no value fits. */
  flatten (all: All, open: readonly string[] = []): Flat[] {
    let out: Flat[] = [anything(all[0]?.path ?? this.root.path)]
    for (const one of all) out = this.cross(out, this.alternatives(one, open), one.path)
    return out
  }

  /** Whether a listed value (enum, const) keeps to the rest of its schema. */
  allows (flat: Flat, value: unknown): boolean {
    if (flat.kinds !== null && ![...flat.kinds].some((k) => isKind(value, k))) return false
    if (flat.notValues.some((other) => canonical(other) === canonical(value))) return false
    if (typeof value === 'number') return fitsLimits(flat.limits, 'number', value)
    if (typeof value === 'string') {
      const { length } = [...value]
      spend(length)
      return fitsLimits(flat.limits, 'string', length) &&
        flat.patterns.every((p) => accepts(this.automaton(p), value)) &&
        !flat.notPatterns.some((p) => accepts(this.automaton(p), value))
    }
    const implied = impliedKinds(flat)
    if (value !== null && typeof value === 'object' && (implied.has('object') || implied.has('array'))) {
      throw refused(flat.path, ': enum or const with objects or arrays cannot be combined with rules for ' +
        'their content')
    }
    return true
  }

  /**
   * The texts of certain patterns and lengths; null where they may be any. Where the document is not strict,
   * what is too large to enforce is left out: the length first, then each pattern.
   */
  textAutomaton ({ path: own, limits, patterns, notPatterns, notValues }: TextRules): Automaton | null {
    const { minLength: min = 0, maxLength: max = Infinity } = limits
    const path = patterns.at(-1)?.path ?? notPatterns.at(-1)?.path ?? own
    const excluded = notValues.filter((value) => typeof value === 'string')
    let all: Automaton | null = null
    const add = (make: () => Automaton): void => {
      try {
        const more = enforced(make, path)
        const before = all
        all = before === null ? more : enforced(() => both(before, more), path)
      } catch (error) {
        if (this.strict || !(error instanceof EngineError)) throw error
      }
    }
    for (const p of patterns) add(() => this.automaton(p))
    for (const p of notPatterns) add(() => complement(this.automaton(p)))
    if (excluded.length > 0) add(() => allBut(excluded))
    if (all !== null && (min > 0 || max < Infinity)) add(() => lengthAutomaton(min, max))
    return all
  }

  /** The automaton of a pattern, made once. Throws `invalid_request` for what cannot be enforced. */
  automaton ({ schema, path }: Located): Automaton {
    const pattern = String(schema)
    let made = this.automata.get(pattern)
    if (made === undefined) {
      made = enforced(() => regexAutomaton(parseRegex(pattern)), path)
      this.automata.set(pattern, made)
    }
    return made
  }

  private alternatives (at: Located, open: readonly string[]): Flat[] {
    const { schema: given, path } = at
    const schema = isObject(given) ? this.kept(given, path) : given
    if (schema === true) return [anything(path)]
    if (schema === false) return []
    if (!isObject(schema)) throw refused(path, ' is not a schema (an object, true or false)')
    spend(1000)
    let out = this.ownRules(schema, path)
    if (schema['$ref'] !== undefined) out = this.cross(out, this.referred(schema['$ref'], path, open), path)
    for (const part of list(schema, 'allOf', path)) out = this.cross(out, this.alternatives(part, open), path)
    for (const word of ['anyOf', 'oneOf'] as const) {
      if (schema[word] === undefined) continue
      const parts = list(schema, word, path).map((part) => this.alternative(part, open))
      if (word === 'oneOf' && this.strict) this.checkDisjoint(parts, path)
      out = this.cross(out, parts.flat(), path)
    }
    return out
  }

  /** One part of a union. A part that is the union itself adds nothing to it. */
  private alternative (part: Located, open: readonly string[]): Flat[] {
    const ref = isObject(part.schema) ? part.schema['$ref'] : undefined
    return typeof ref === 'string' && open.includes(ref) ? [] : this.alternatives(part, open)
  }

  private referred (ref: unknown, path: string, open: readonly string[]): Flat[] {
    if (typeof ref !== 'string' || !ref.startsWith('#')) {
      throw refused(`${path}/$ref`, ': only references inside the schema ("#/$defs/…") are followed')
    }
    spend(ref.length + 10 * open.length)
    if (open.includes(ref)) throw refused(`${path}/$ref`, `: "${ref}" refers to itself`)
    return this.alternatives({ schema: this.lookUp(ref, path), path: `${this.root.path}${ref.slice(1)}` },
      [...open, ref])
  }

  private lookUp (ref: string, path: string): unknown {
    let at: unknown = this.root.schema
    const parts = ref === '#' ? [] : ref.slice(2).split('/')
    for (const part of parts) {
      const key = decode(part).replaceAll('~1', '/').replaceAll('~0', '~')
      const found: unknown = (isObject(at) || Array.isArray(at)) && Object.hasOwn(at, key)
        ? (at as Record<string, unknown>)[key]
        : undefined
      if (found === undefined) throw refused(`${path}/$ref`, `: there is no "${ref}"`)
      at = found
    }
    return at
  }

  /** The rules of one schema object, without references and alternatives. */
  private ownRules (schema: Record<string, unknown>, path: string): Flat[] {
    const others = schema['additionalProperties']
    const names = schema['propertyNames']
    const byPattern = patterned(schema, path)
    const own: Flat = {
      ...anything(path),
      limits: limitsOf(schema, path),
      kinds: kinds(schema, path),
      values: values(schema, path),
      patterns: patterns(schema, path),
      properties: new Map([...properties(schema, path)].map(([name, all]) => [name, [...all,
        ...byPattern.filter(({ pattern }) => this.matches(pattern, name)).flatMap((each) => each.all)]])),
      required: new Set(required(schema, path)),
      names: names === undefined ? [] : [{ schema: names, path: `${path}/propertyNames` }],
      patterned: byPattern,
      ...tupleOf(schema, path),
      ...(others === undefined ? {} : { others: [{ schema: others, path: `${path}/additionalProperties` }] })
    }
    if (schema['not'] === undefined) return [own]
    const not = negationOf(schema) ?? null
    if (not === null) return []
    const at = `${path}/not`
    const left: Flat = {
      ...anything(path),
      kinds: not.kinds ?? null,
      notValues: not.values ?? [],
      notPatterns: not.pattern === undefined ? [] : [{ schema: not.pattern, path: at }],
      properties: new Map(not.absent === undefined ? [] : [[not.absent, [{ schema: false, path: at }]]])
    }
    return this.cross([own], [left], path)
  }

  private cross (left: readonly Flat[], right: readonly Flat[], path: string): Flat[] {
    const out: Flat[] = []
    for (const a of left) {
      for (const b of right) {
        const both = merge(a, b, this.matches)
        if (both !== null) out.push(both)
      }
    }
    if (out.length > MAX_ALTERNATIVES) {
      throw refused(path, `: allOf and anyOf make ${out.length} combinations, at most ${MAX_ALTERNATIVES} ` +
        'are taken')
    }
    return out
  }

  /** A schema without the keywords that cannot be enforced; in a strict request they are refused. */
  private kept (schema: Record<string, unknown>, path: string): Record<string, unknown> {
    const why = Object.keys(schema).map((word) => [word, whyNot(schema, word)] as const)
    const [first] = why.filter(([, reason]) => reason !== null)
    if (first === undefined) return schema
    if (this.strict) throw refused(`${path}/${first[0]}`, `: ${first[1]}`)
    return Object.fromEntries(why.flatMap(([word, reason]) => reason === null ? [[word, schema[word]]] : []))
  }

  /** oneOf is anyOf where no value can fit two alternatives; anything else is refused. */
  private checkDisjoint (parts: readonly Flat[][], path: string): void {
    const found = this.overlapping(parts)
    if (found === null) return
    const [i, j] = found
    throw refused(`${path}/oneOf`, `: alternatives ${i} and ${j} cannot be told apart (by type, const, ` +
      'or a required property with different const); use anyOf')
  }

  /** Two alternatives that a value may fit both of; null for none. */
  private overlapping (parts: readonly Flat[][]): [number, number] | null {
    for (let i = 0; i < parts.length; i++) {
      for (let j = i + 1; j < parts.length; j++) {
        const apart = (parts[i] ?? []).every((a) => (parts[j] ?? []).every((b) => this.disjoint(a, b, 0)))
        if (!apart) return [i, j]
      }
    }
    return null
  }

  private disjoint (a: Flat, b: Flat, depth: number): boolean {
    const both = merge(a, b, this.matches)
    if (both === null) return true
    if (both.values !== null) return !both.values.some((v) => this.allows(both, v))
    const kinds = kindsOf(both)
    if (kinds.length !== 1 || kinds[0] !== 'object' || depth > 4) return false
    return [...both.required].some((key) => {
      const schemas = schemasOf(both, key, this.matches)
      if (this.flatten(schemas).length === 0) return true
      const [x, y] = [a, b].map((f) => this.flatten(schemasOf(f, key, this.matches)))
      return (x ?? []).every((p) => (y ?? []).every((q) => this.disjoint(p, q, depth + 1)))
    })
  }
}

/** Lists as both dialects have them: items after a tuple are `items`, in draft 7 `additionalItems`. */
function tupleOf (schema: Record<string, unknown>, path: string): { first: All[], items: All } {
  const word = Array.isArray(schema['items']) ? 'additionalItems' : 'items'
  const first = list(schema, word === 'items' ? 'prefixItems' : 'items', path).map((part) => [part])
  const items = schema[word]
  return { first, items: items === undefined ? [] : [{ schema: items, path: `${path}/${word}` }] }
}

/** What `make` answers; what a pattern has that cannot be enforced becomes a refusal at `path`. */
export function enforced<T> (make: () => T, path: string): T {
  try {
    return make()
  } catch (error) {
    if (!(error instanceof RegexError)) throw error
    throw refused(path, `: the pattern ${error.message}`)
  }
}

function kinds (schema: Record<string, unknown>, path: string): ReadonlySet<Kind> | null {
  const type = schema['type']
  if (type === undefined) return null
  const out = new Set<Kind>()
  for (const one of [type].flat()) {
    if (!KINDS.includes(one as Kind)) throw refused(`${path}/type`, `: ${JSON.stringify(one)} is no type`)
    out.add(one as Kind)
  }
  if (schema['nullable'] === true) out.add('null')
  return out
}

function values (schema: Record<string, unknown>, path: string): unknown[] | null {
  const listed = schema['enum']
  if (listed !== undefined && !Array.isArray(listed)) throw refused(`${path}/enum`, ' is not a list')
  if (listed !== undefined && listed.length > MAX_ENUM) {
    throw refused(`${path}/enum`, ` has ${listed.length} values, at most ${MAX_ENUM} are taken`)
  }
  if (!Object.hasOwn(schema, 'const')) return listed ?? null
  const only = schema['const']
  const fits = listed?.some((v) => canonical(v) === canonical(only)) ?? true
  return fits ? [only] : []
}

function patterns (schema: Record<string, unknown>, path: string): Located[] {
  const out: Located[] = []
  const pattern = schema['pattern']
  if (pattern !== undefined) {
    if (typeof pattern !== 'string') throw refused(`${path}/pattern`, ' is not a text')
    out.push({ schema: pattern, path: `${path}/pattern` })
  }
  const format = String(schema['format'])
  if (Object.hasOwn(FORMATS, format)) out.push({ schema: FORMATS[format], path: `${path}/format` })
  return out
}

function properties (schema: Record<string, unknown>, path: string): Map<string, All> {
  const listed = schema['properties'] ?? {}
  if (!isObject(listed)) throw refused(`${path}/properties`, ' is not an object')
  spend(50 * Object.keys(listed).length)
  return new Map(Object.entries(listed).map(([name, s]) =>
    [name, [{ schema: s, path: `${path}/properties/${escaped(name)}` }]]))
}

/** A name as a JSON Pointer has it. */
const escaped = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1')

function patterned (schema: Record<string, unknown>, path: string): Patterned[] {
  const listed = schema['patternProperties'] ?? {}
  if (!isObject(listed)) throw refused(`${path}/patternProperties`, ' is not an object')
  return Object.entries(listed).map(([pattern, inner]) => {
    const at = `${path}/patternProperties/${escaped(pattern)}`
    return { pattern: { schema: pattern, path: at }, all: [{ schema: inner, path: at }] }
  })
}

function required (schema: Record<string, unknown>, path: string): string[] {
  const listed = schema['required'] ?? []
  if (Array.isArray(listed) && listed.every((n) => typeof n === 'string')) return listed
  throw refused(`${path}/required`, ' is not a list of names')
}

function list (schema: Record<string, unknown>, word: string, path: string): Located[] {
  const parts = schema[word]
  if (parts === undefined) return []
  if (!Array.isArray(parts) || parts.length === 0) {
    throw refused(`${path}/${word}`, ' is not a list of schemas')
  }
  return parts.map((part: unknown, i) => ({ schema: part, path: `${path}/${word}/${i}` }))
}

function decode (part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
