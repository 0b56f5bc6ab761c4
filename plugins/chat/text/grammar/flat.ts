/** Schemas without alternatives: what one says, and what two of them say together. */
import type { EngineError } from '../../../../kernel/api/engine.js'
import { isObject } from '../../json.js'
import { invalid } from '../errors.js'
import { spend } from './budget.js'
import { fixedPoint, leastCommonMultiple } from './number.js'

/** A subschema and its path in the request, for messages. */
export interface Located { schema: unknown, path: string }

/** Schemas that must all hold. */
export type All = readonly Located[]

/** Types of JSON Schema. */
export const KINDS = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'] as const
export type Kind = (typeof KINDS)[number]

/** The refusal of what stands at `path` in the request; the message begins with the path. */
export const refused = (path: string, why: string): EngineError => invalid(`${path}${why}`, path)

/** How the value of a keyword is checked, and the end of the message where it is wrong. */
interface Check { fits: (value: number) => boolean, words: string }
const COUNT: Check = { fits: (n) => Number.isInteger(n) && n >= 0, words: ' is not a whole number from 0' }
const BOUND: Check = { fits: () => true, words: ' is not a number' }
const DIVISOR: Check = { fits: (n) => n > 0, words: ' is not a number above 0' }

/** What a limit comes to with another one of its keyword, and whether a number keeps to it. */
interface Sense { both: (a: number, b: number) => number, holds: (value: number, limit: number) => boolean }
const LEAST: Sense = { both: Math.max, holds: (value, limit) => value >= limit }
const MOST: Sense = { both: Math.min, holds: (value, limit) => value <= limit }
const ABOVE: Sense = { both: Math.max, holds: (value, limit) => value > limit }
const BELOW: Sense = { both: Math.min, holds: (value, limit) => value < limit }
const fixed = (value: number): bigint => fixedPoint(value) ?? 1n
const MULTIPLE: Sense = {
  both: (a, b) => Number(leastCommonMultiple(fixed(a), fixed(b))) / Number(fixed(1)),
  holds: (value, limit) => fixed(value) % fixed(limit) === 0n
}

/** Keywords that are numbers: they limit numbers, or the size of values of another kind. */
const LIMITS = {
  minimum: { kind: 'number', check: BOUND, sense: LEAST },
  maximum: { kind: 'number', check: BOUND, sense: MOST },
  exclusiveMinimum: { kind: 'number', check: BOUND, sense: ABOVE },
  exclusiveMaximum: { kind: 'number', check: BOUND, sense: BELOW },
  multipleOf: { kind: 'number', check: DIVISOR, sense: MULTIPLE },
  minLength: { kind: 'string', check: COUNT, sense: LEAST },
  maxLength: { kind: 'string', check: COUNT, sense: MOST },
  minProperties: { kind: 'object', check: COUNT, sense: LEAST },
  maxProperties: { kind: 'object', check: COUNT, sense: MOST },
  minItems: { kind: 'array', check: COUNT, sense: LEAST },
  maxItems: { kind: 'array', check: COUNT, sense: MOST }
} as const satisfies Record<string, { kind: Kind, check: Check, sense: Sense }>

type Limit = keyof typeof LIMITS
/** The numbers of a schema by their keywords. */
export type Limits = { [L in Limit]?: number }
/** Every keyword that is a number. */
export const LIMIT_NAMES = Object.keys(LIMITS) as Limit[]

/**
 * A schema without alternatives: references, allOf and anyOf are dissolved. `others` undefined: the schema
 * says nothing about additional properties.
 */
export interface Flat {
  path: string
  kinds: ReadonlySet<Kind> | null
  values: readonly unknown[] | null
  limits: Limits
  patterns: readonly Located[]
  /** Patterns that a text must not match, and values that are excluded. */
  notPatterns: readonly Located[], notValues: readonly unknown[]
  properties: ReadonlyMap<string, All>, others?: All, required: ReadonlySet<string>
  /** What names of properties have to keep to, and properties by patterns of their names. */
  names: All, patterned: readonly Patterned[]
  first: readonly All[], items: All
}

/** Properties whose names match a pattern. */
export interface Patterned { pattern: Located, all: All }

/** What every value fits. */
export const anything = (path: string): Flat => ({
  path, kinds: null, values: null, limits: {}, patterns: [], notPatterns: [], notValues: [],
  properties: new Map(), required: new Set(), names: [], patterned: [], first: [], items: []
})

/** The numbers of a schema. @throws EngineError invalid_request for one that is none */
export function limitsOf (schema: Record<string, unknown>, path: string): Limits {
  return Object.fromEntries(LIMIT_NAMES.flatMap((word) => {
    const value = schema[word]
    const { fits, words } = LIMITS[word].check
    if (value === undefined) return []
    if (typeof value === 'number' && fits(value)) return [[word, value]]
    throw refused(`${path}/${word}`, words)
  }))
}

/** Both at once; null where no value can fit both. `matches` says whether a name matches a pattern. */
export function merge (
  a: Flat, b: Flat, matches: (pattern: Located, name: string) => boolean
): Flat | null {
  spend(200 + sizeOf(a) + sizeOf(b))
  const kinds = mergeKinds(a.kinds, b.kinds)
  const values = mergeValues(a.values, b.values)
  if (kinds?.size === 0 || values?.length === 0) return null
  const keys = new Set([...a.properties.keys(), ...b.properties.keys()])
  const propertyOf = (f: Flat, key: string): All => schemasOf(f, key, matches)
  const length = Math.max(a.first.length, b.first.length)
  const others = a.others === undefined && b.others === undefined ? undefined
    : [...a.others ?? [], ...b.others ?? []]
  return {
    path: a.path,
    kinds,
    values,
    limits: mergeLimits(a.limits, b.limits),
    patterns: [...a.patterns, ...b.patterns],
    notPatterns: [...a.notPatterns, ...b.notPatterns],
    notValues: [...a.notValues, ...b.notValues],
    names: [...a.names, ...b.names],
    patterned: [...a.patterned, ...b.patterned],
    properties: new Map([...keys].map((k) => [k, [...propertyOf(a, k), ...propertyOf(b, k)]])),
    required: new Set([...a.required, ...b.required]),
    first: Array.from({ length }, (_, i) => [...a.first[i] ?? a.items, ...b.first[i] ?? b.items]),
    items: [...a.items, ...b.items],
    ...(others === undefined ? {} : { others })
  }
}

/** What a property has to keep to. */
export function schemasOf (
  { properties, patterned, others }: Flat, name: string, matches: (pattern: Located, name: string) => boolean
): All {
  const declared = properties.get(name)
  if (declared !== undefined) return declared
  const matched = patterned.filter(({ pattern }) => matches(pattern, name))
  return matched.length > 0 ? matched.flatMap(({ all }) => all) : others ?? []
}

const sizeOf = (f: Flat): number => 20 * (f.properties.size + f.required.size + f.first.length +
  f.items.length + f.patterns.length + f.patterned.length)

function mergeKinds (a: ReadonlySet<Kind> | null, b: ReadonlySet<Kind> | null): ReadonlySet<Kind> | null {
  if (a === null || b === null) return a ?? b
  const out = new Set([...a].filter((k) => b.has(k) || (k === 'integer' && b.has('number'))))
  if (b.has('integer') && a.has('number')) out.add('integer')
  return out
}

function mergeValues (a: readonly unknown[] | null, b: readonly unknown[] | null): readonly unknown[] | null {
  if (a === null || b === null) return a ?? b
  const text = (value: unknown): string => {
    const written = canonical(value)
    spend(20 + written.length)
    return written
  }
  const known = new Set(b.map(text))
  return a.filter((v) => known.has(text(v)))
}

const mergeLimits = (a: Limits, b: Limits): Limits =>
  Object.fromEntries(LIMIT_NAMES.flatMap((word) => {
    const [x, y] = [a[word], b[word]]
    const value = x === undefined || y === undefined ? x ?? y : LIMITS[word].sense.both(x, y)
    return value === undefined ? [] : [[word, value]]
  }))

/** The kinds of value that the keywords of a flat schema are about, `type`, `enum` and `const` left out. */
export function impliedKinds ({ limits, ...flat }: Flat): Set<Kind> {
  const implied = new Set<Kind>(LIMIT_NAMES.filter((word) => limits[word] !== undefined)
    .map((word) => LIMITS[word].kind))
  const declared = flat.properties.size + flat.required.size + flat.patterned.length + flat.names.length
  if (flat.others !== undefined || declared > 0) implied.add('object')
  if (flat.items.length + flat.first.length > 0) implied.add('array')
  if (flat.patterns.length + flat.notPatterns.length > 0) implied.add('string')
  return implied
}

/** The kinds of value a flat schema allows; without `type` those its other keywords are about. */
export function kindsOf (flat: Flat): Kind[] {
  const { kinds, values } = flat
  if (kinds !== null) return [...kinds]
  const all = KINDS.filter((kind) => kind !== 'integer')
  if (values !== null) return all.filter((kind) => values.some((v) => isKind(v, kind)))
  const implied = impliedKinds(flat)
  return implied.size > 0 ? all.filter((kind) => implied.has(kind)) : all
}

/** JSON with sorted keys: equal for equal values. */
export function canonical (value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (!isObject(value)) return JSON.stringify(value)
  return `{${Object.keys(value).sort().map((k) => `${JSON.stringify(k)}:${canonical(value[k])}`).join()}}`
}

/** Whether a number, or the size of a value of another kind, keeps to the limits for its kind. */
export const fitsLimits = (limits: Limits, kind: Kind, size: number): boolean =>
  LIMIT_NAMES.every((word) => {
    const limit = limits[word]
    return limit === undefined || LIMITS[word].kind !== kind || LIMITS[word].sense.holds(size, limit)
  })

/** Whether a JSON value is of a JSON Schema type. */
export function isKind (value: unknown, kind: Kind): boolean {
  switch (kind) {
    case 'null': return value === null
    case 'array': return Array.isArray(value)
    case 'object': return isObject(value)
    case 'integer': return Number.isInteger(value)
    default: return typeof value === kind
  }
}
