import { invalid } from '../errors.js'
import { isObject } from '../../json.js'
import { spend } from './budget.js'

/** A subschema and its path in the request, for messages. */
export interface Located { schema: unknown, path: string }

/** Schemas that must all hold. */
export type All = readonly Located[]

/** Types of JSON Schema. */
export const KINDS = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'] as const
export type Kind = (typeof KINDS)[number]

/** How the value of a keyword is checked, and the end of the message where it is wrong. */
interface Check { fits: (value: number) => boolean, words: string }
const COUNT: Check = { fits: (n) => Number.isInteger(n) && n >= 0, words: ' is not a whole number from 0' }
const BOUND: Check = { fits: () => true, words: ' is not a number' }
const DIVISOR: Check = {
  fits: (n) => Number.isSafeInteger(n) && n > 0, words: ': only whole numbers from 1 can be enforced'
}

/** Keywords that are numbers: the kind of value they are about, and what two of them come to. */
const LIMITS = {
  minimum: { kind: 'number', check: BOUND, both: Math.max },
  maximum: { kind: 'number', check: BOUND, both: Math.min },
  exclusiveMinimum: { kind: 'number', check: BOUND, both: Math.max },
  exclusiveMaximum: { kind: 'number', check: BOUND, both: Math.min },
  multipleOf: { kind: 'number', check: DIVISOR, both: leastCommonMultiple },
  minLength: { kind: 'string', check: COUNT, both: Math.max },
  maxLength: { kind: 'string', check: COUNT, both: Math.min },
  minProperties: { kind: 'object', check: COUNT, both: Math.max },
  maxProperties: { kind: 'object', check: COUNT, both: Math.min },
  minItems: { kind: 'array', check: COUNT, both: Math.max },
  maxItems: { kind: 'array', check: COUNT, both: Math.min }
} as const satisfies Record<string, { kind: Kind, check: Check, both: (a: number, b: number) => number }>

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
  properties: ReadonlyMap<string, All>, others?: All, required: ReadonlySet<string>
  first: readonly All[], items: All
}

/** What every value fits. */
export const anything = (path: string): Flat => ({
  path, kinds: null, values: null, limits: {}, patterns: [], properties: new Map(), required: new Set(),
  first: [], items: []
})

/** The numbers of a schema. @throws EngineError invalid_request for one that is none */
export function limitsOf (schema: Record<string, unknown>, path: string): Limits {
  return Object.fromEntries(LIMIT_NAMES.flatMap((word) => {
    const value = schema[word]
    const { fits, words } = LIMITS[word].check
    if (value === undefined) return []
    if (typeof value === 'number' && fits(value)) return [[word, value]]
    throw invalid(`${path}/${word}${words}`, `${path}/${word}`)
  }))
}

/** Both at once; null where no value can fit both. */
export function merge (a: Flat, b: Flat): Flat | null {
  spend(200 + sizeOf(a) + sizeOf(b))
  const kinds = mergeKinds(a.kinds, b.kinds)
  const values = mergeValues(a.values, b.values)
  if (kinds?.size === 0 || values?.length === 0) return null
  const keys = new Set([...a.properties.keys(), ...b.properties.keys()])
  const propertyOf = (f: Flat, key: string): All => f.properties.get(key) ?? f.others ?? []
  const length = Math.max(a.first.length, b.first.length)
  const others = a.others === undefined && b.others === undefined ? undefined
    : [...a.others ?? [], ...b.others ?? []]
  return {
    path: a.path,
    kinds,
    values,
    limits: mergeLimits(a.limits, b.limits),
    patterns: [...a.patterns, ...b.patterns],
    properties: new Map([...keys].map((k) => [k, [...propertyOf(a, k), ...propertyOf(b, k)]])),
    required: new Set([...a.required, ...b.required]),
    first: Array.from({ length }, (_, i) => [...a.first[i] ?? a.items, ...b.first[i] ?? b.items]),
    items: [...a.items, ...b.items],
    ...(others === undefined ? {} : { others })
  }
}

const sizeOf = (f: Flat): number => 20 * (f.properties.size + f.required.size + f.first.length +
  f.items.length + f.patterns.length)

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
    const value = x === undefined || y === undefined ? x ?? y : LIMITS[word].both(x, y)
    return value === undefined ? [] : [[word, value]]
  }))

function leastCommonMultiple (a: number, b: number): number {
  let [x, y] = [a, b]
  while (y !== 0) [x, y] = [y, x % y]
  return a / x * b
}

/** The kinds of value a flat schema allows; without `type` those its other keywords are about. */
export function kindsOf ({ kinds, values, limits, ...flat }: Flat): Kind[] {
  if (kinds !== null) return [...kinds]
  const all = KINDS.filter((kind) => kind !== 'integer')
  if (values !== null) return all.filter((kind) => values.some((v) => isKind(v, kind)))
  const implied = new Set<Kind>(LIMIT_NAMES.filter((word) => limits[word] !== undefined)
    .map((word) => LIMITS[word].kind))
  if (flat.others !== undefined || flat.properties.size + flat.required.size > 0) implied.add('object')
  if (flat.items.length + flat.first.length > 0) implied.add('array')
  if (flat.patterns.length > 0) implied.add('string')
  return implied.size > 0 ? all.filter((kind) => implied.has(kind)) : all
}

/** JSON with sorted keys: equal for equal values. */
export function canonical (value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (!isObject(value)) return JSON.stringify(value)
  return `{${Object.keys(value).sort().map((k) => `${JSON.stringify(k)}:${canonical(value[k])}`).join()}}`
}

/** Whether a number keeps to the limits of a schema. */
export function numberFits (limits: Limits, x: number): boolean {
  const { minimum = -Infinity, maximum = Infinity, multipleOf } = limits
  const { exclusiveMinimum: above = -Infinity, exclusiveMaximum: below = Infinity } = limits
  return x >= minimum && x <= maximum && x > above && x < below &&
    (multipleOf === undefined || x % multipleOf === 0)
}

/** Whether a schema has rules for what is inside of objects or arrays. */
export function hasInnerRules (f: Flat): boolean {
  return f.properties.size > 0 || f.others !== undefined || f.required.size > 0 || f.first.length > 0 ||
    f.items.length > 0 || LIMIT_NAMES.some((word) =>
    f.limits[word] !== undefined && ['object', 'array'].includes(LIMITS[word].kind))
}

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
