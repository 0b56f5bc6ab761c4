/** Reading JSON Schemas: references and alternatives are dissolved, what cannot be enforced is refused. */
import { isObject } from '../../json.js'
import { accepts, regexAutomaton, type Automaton } from './automaton.js'
import { spend } from './budget.js'
import {
  anything, canonical, fitsLimits, impliedKinds, isKind, KINDS, kindsOf, LIMIT_NAMES, limitsOf, merge,
  refused, type All, type Flat, type Kind, type Located
} from './flat.js'
import { FORMATS, parseRegex, RegexError } from './regex.js'

/** Most values of one list. */
const MAX_ENUM = 1000
/** Most alternatives of one place after allOf and anyOf are dissolved. */
const MAX_ALTERNATIVES = 64

const ANNOTATIONS = ['title', 'description', 'default', 'examples', 'example', 'deprecated', 'readOnly',
  'writeOnly', '$comment', '$schema', 'contentMediaType', 'contentEncoding', 'contentSchema', '$defs',
  'definitions']
/** Keywords that are enforced, and those that need not be; any other is refused. */
const KEYWORDS = new Set<string>([...ANNOTATIONS, ...LIMIT_NAMES, 'type', 'nullable', 'enum', 'const',
  'properties', 'required', 'additionalProperties', 'items', 'prefixItems', 'pattern', 'format', '$ref',
  'allOf', 'anyOf', 'oneOf', 'uniqueItems'])

/** A schema document: resolves references and dissolves alternatives. Paths in messages begin with `root`. */
export class SchemaDocument {
  readonly root: Located
  private readonly automata = new Map<string, Automaton>()

  constructor (schema: unknown, path: string) {
    this.root = { schema, path }
  }

  /** The alternatives of schemas that must all hold; [] where no value fits. */
  flatten (all: All, open: readonly string[] = []): Flat[] {
    let out: Flat[] = [anything(all[0]?.path ?? this.root.path)]
    for (const one of all) out = this.cross(out, this.alternatives(one, open), one.path)
    return out
  }

  /** Whether a listed value (enum, const) keeps to the rest of its schema. */
  allows (flat: Flat, value: unknown): boolean {
    if (flat.kinds !== null && ![...flat.kinds].some((k) => isKind(value, k))) return false
    if (typeof value === 'number') return fitsLimits(flat.limits, 'number', value)
    if (typeof value === 'string') {
      const { length } = [...value]
      spend(length)
      return fitsLimits(flat.limits, 'string', length) &&
        flat.patterns.every((p) => accepts(this.automaton(p), value))
    }
    const implied = impliedKinds(flat)
    if (value !== null && typeof value === 'object' && (implied.has('object') || implied.has('array'))) {
      throw refused(flat.path, ': enum or const with objects or arrays cannot be combined with rules for ' +
        'their content')
    }
    return true
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
    const { schema, path } = at
    if (schema === true) return [anything(path)]
    if (schema === false) return []
    if (!isObject(schema)) throw refused(path, ' is not a schema (an object, true or false)')
    this.checkKeywords(schema, path)
    spend(1000)
    let out = ownRules(schema, path)
    if (schema['$ref'] !== undefined) out = this.cross(out, this.referred(schema['$ref'], path, open), path)
    for (const part of list(schema, 'allOf', path)) out = this.cross(out, this.alternatives(part, open), path)
    for (const word of ['anyOf', 'oneOf'] as const) {
      if (schema[word] === undefined) continue
      const parts = list(schema, word, path).map((part) => this.alternatives(part, open))
      if (word === 'oneOf') this.checkDisjoint(parts, path)
      out = this.cross(out, parts.flat(), path)
    }
    return out
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

  private cross (left: readonly Flat[], right: readonly Flat[], path: string): Flat[] {
    const out: Flat[] = []
    for (const a of left) {
      for (const b of right) {
        const both = merge(a, b)
        if (both !== null) out.push(both)
      }
    }
    if (out.length > MAX_ALTERNATIVES) {
      throw refused(path, `: allOf and anyOf make ${out.length} combinations, at most ${MAX_ALTERNATIVES} ` +
        'are taken')
    }
    return out
  }

  private checkKeywords (schema: Record<string, unknown>, path: string): void {
    for (const word of Object.keys(schema)) {
      if (KEYWORDS.has(word) || word.startsWith('x-')) continue
      if (word === '$id' && schema === this.root.schema) continue
      throw refused(`${path}/${word}`, `: the keyword "${word}" cannot be enforced`)
    }
    if (schema['uniqueItems'] === true) {
      throw refused(`${path}/uniqueItems`, ': unique items cannot be enforced')
    }
  }

  /** oneOf is anyOf where no value can fit two alternatives; anything else is refused. */
  private checkDisjoint (parts: readonly Flat[][], path: string): void {
    for (let i = 0; i < parts.length; i++) {
      for (let j = i + 1; j < parts.length; j++) {
        const apart = (parts[i] ?? []).every((a) => (parts[j] ?? []).every((b) => this.disjoint(a, b, 0)))
        if (apart) continue
        throw refused(`${path}/oneOf`, `: alternatives ${i} and ${j} cannot be told apart (by type, const, ` +
          'or a required property with different const); use anyOf')
      }
    }
  }

  private disjoint (a: Flat, b: Flat, depth: number): boolean {
    const both = merge(a, b)
    if (both === null) return true
    if (both.values !== null) return !both.values.some((v) => this.allows(both, v))
    const kinds = kindsOf(both)
    if (kinds.length !== 1 || kinds[0] !== 'object' || depth > 4) return false
    return [...both.required].some((key) => {
      const schemas = both.properties.get(key) ?? both.others ?? []
      if (this.flatten(schemas).length === 0) return true
      const [x, y] = [a, b].map((f) => this.flatten(f.properties.get(key) ?? f.others ?? []))
      return (x ?? []).every((p) => (y ?? []).every((q) => this.disjoint(p, q, depth + 1)))
    })
  }
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

/** The rules of one schema object, without references and alternatives. */
function ownRules (schema: Record<string, unknown>, path: string): Flat[] {
  const others = schema['additionalProperties']
  const items = schema['items']
  const first = list(schema, 'prefixItems', path).map((part) => [part])
  if (Array.isArray(items)) {
    throw refused(`${path}/items`, ' is a list; tuples are written with prefixItems')
  }
  return [{
    ...anything(path),
    limits: limitsOf(schema, path),
    kinds: kinds(schema, path),
    values: values(schema, path),
    patterns: patterns(schema, path),
    properties: properties(schema, path),
    required: new Set(names(schema, path)),
    first,
    items: items === undefined ? [] : [{ schema: items, path: `${path}/items` }],
    ...(others === undefined ? {} : { others: [{ schema: others, path: `${path}/additionalProperties` }] })
  }]
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

function names (schema: Record<string, unknown>, path: string): string[] {
  const required = schema['required'] ?? []
  if (Array.isArray(required) && required.every((n) => typeof n === 'string')) return required
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
