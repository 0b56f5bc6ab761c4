import { isObject } from '../../json.js'
import { spend } from './budget.js'

/** A subschema and its path in the request, for messages. */
export interface Located { schema: unknown, path: string }

/** Schemas that must all hold. */
export type All = readonly Located[]

/** Types of JSON Schema. */
export type Kind = 'object' | 'array' | 'string' | 'number' | 'integer' | 'boolean' | 'null'

/**
 * A schema without alternatives: references, allOf and anyOf are dissolved. Absent limits are absent.
 * `others` undefined: the schema says nothing about additional properties.
 */
export interface Flat {
  path: string
  kinds: ReadonlySet<Kind> | null
  values: readonly unknown[] | null
  min?: number, max?: number, above?: number, below?: number, multipleOf?: number
  minLength?: number, maxLength?: number, patterns: readonly Located[]
  properties: ReadonlyMap<string, All>, others?: All, required: ReadonlySet<string>
  minProperties?: number, maxProperties?: number
  first: readonly All[], items: All, minItems?: number, maxItems?: number
}

/** What every value fits. */
export const anything = (path: string): Flat =>
  ({ path, kinds: null, values: null, patterns: [], properties: new Map(), required: new Set(), first: [],
    items: [] })

/** Both at once; null where no value can fit both. */
export function merge (a: Flat, b: Flat): Flat | null {
  spend(200 + sizeOf(a) + sizeOf(b))
  const kinds = mergeKinds(a.kinds, b.kinds)
  const values = mergeValues(a.values, b.values)
  if (kinds?.size === 0 || values?.length === 0) return null
  const limits = mergeLimits(a, b)
  const keys = new Set([...a.properties.keys(), ...b.properties.keys()])
  const propertyOf = (f: Flat, key: string): All => f.properties.get(key) ?? f.others ?? []
  const length = Math.max(a.first.length, b.first.length)
  const others = a.others === undefined ? b.others : b.others === undefined ? a.others
    : [...a.others, ...b.others]
  return {
    path: a.path,
    kinds,
    values,
    ...limits,
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

type Limit = 'min' | 'max' | 'above' | 'below' | 'minLength' | 'maxLength' | 'minProperties' |
  'maxProperties' | 'minItems' | 'maxItems' | 'multipleOf'
const GREATER: readonly Limit[] = ['min', 'above', 'minLength', 'minProperties', 'minItems']
const LESSER: readonly Limit[] = ['max', 'below', 'maxLength', 'maxProperties', 'maxItems']

function mergeLimits (a: Flat, b: Flat): Partial<Record<Limit, number>> {
  const out: Partial<Record<Limit, number>> = {}
  const put = (key: Limit, pick: (x: number, y: number) => number): void => {
    const [x, y] = [a[key], b[key]]
    const value = x === undefined ? y : y === undefined ? x : pick(x, y)
    if (value !== undefined) out[key] = value
  }
  for (const key of GREATER) put(key, Math.max)
  for (const key of LESSER) put(key, Math.min)
  put('multipleOf', leastCommonMultiple)
  return out
}

function leastCommonMultiple (a: number, b: number): number {
  let [x, y] = [a, b]
  while (y !== 0) [x, y] = [y, x % y]
  return a / x * b
}

/** JSON with sorted keys: equal for equal values. */
export function canonical (value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (!isObject(value)) return JSON.stringify(value)
  return `{${Object.keys(value).sort().map((k) => `${JSON.stringify(k)}:${canonical(value[k])}`).join()}}`
}

/** Whether a number keeps to the limits of a schema. */
export function numberFits (flat: Flat, x: number): boolean {
  return x >= (flat.min ?? -Infinity) && x <= (flat.max ?? Infinity) && x > (flat.above ?? -Infinity) &&
    x < (flat.below ?? Infinity) && (flat.multipleOf === undefined || x % flat.multipleOf === 0)
}

/** Whether a schema has rules for what is inside of objects or arrays. */
export function hasInnerRules (f: Flat): boolean {
  return f.properties.size > 0 || f.others !== undefined || f.required.size > 0 || f.first.length > 0 ||
    f.items.length > 0 || [f.minProperties, f.maxProperties, f.minItems, f.maxItems].some((n) =>
    n !== undefined)
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
