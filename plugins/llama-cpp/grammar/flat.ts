/** The flat form of schemas: no references or combinations, one set of assertions for each type of value. */
import { isObject } from './errors.js'
import type { Bounds } from './number.js'

export const TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'] as const
export type Type = (typeof TYPES)[number]
/** A subschema and its JSON pointer. */
export interface Node { schema: unknown, at: string }
/** Subschemas that all hold. */
export type All = readonly Node[]

export interface Flat {
  at: string
  /** Undefined if no `type` limits them. */
  types: ReadonlySet<Type> | undefined
  /** Types that the keywords are about. */
  hints: ReadonlySet<Type>
  values: readonly unknown[] | undefined
  number: Bounds
  /** Bounds of the length. */
  sizes: Readonly<Record<'string' | 'array' | 'object', readonly [min: number, max: number]>>
  /** Regular expressions, and the pointers of their keywords. */
  texts: readonly { source: string, at: string }[]
  first: readonly All[]
  items: All
  /** Whether a keyword allows more items than `first`, more properties than `properties`. */
  moreItems: boolean
  more: boolean
  properties: ReadonlyMap<string, All>
  patterns: ReadonlyMap<string, All>
  others: All
  required: ReadonlySet<string>
  /** Keywords that are not expressible, with the type of value that they are about. */
  lost: readonly { type?: Type | undefined, at: string }[]
}

export const EVERYTHING: Flat = {
  at: '', types: undefined, hints: new Set(), values: undefined,
  number: { min: -Infinity, aboveMin: false, max: Infinity, belowMax: false },
  sizes: { string: [0, Infinity], array: [0, Infinity], object: [0, Infinity] },
  texts: [], first: [], items: [], moreItems: false, more: false, properties: new Map(), patterns: new Map(),
  others: [], required: new Set(), lost: []
}

/** Both at once; `property` says what the value of a property must fulfil. */
export function merge (a: Flat, b: Flat, property: (flat: Flat, name: string) => All): Flat {
  const lower = b.number.min > a.number.min || (b.number.min === a.number.min && b.number.aboveMin) ? b : a
  const upper = b.number.max < a.number.max || (b.number.max === a.number.max && b.number.belowMax) ? b : a
  const size = (type: keyof Flat['sizes']): [number, number] =>
    [Math.max(a.sizes[type][0], b.sizes[type][0]), Math.min(a.sizes[type][1], b.sizes[type][1])]
  const known = new Set(b.values?.map(canonical))
  // A name that matches a pattern of one side only is another property of the other side.
  const patterns = new Map([...a.patterns].map(([key, all]) =>
    [key, [...all, ...b.patterns.get(key) ?? b.others]]))
  for (const [key, all] of b.patterns) if (!patterns.has(key)) patterns.set(key, [...all, ...a.others])
  return {
    at: a.at,
    types: a.types === undefined || b.types === undefined ? a.types ?? b.types : meet(a.types, b.types),
    hints: new Set([...a.hints, ...b.hints]),
    values: a.values === undefined || b.values === undefined ? a.values ?? b.values
      : a.values.filter((value) => known.has(canonical(value))),
    number: { ...lower.number, max: upper.number.max, belowMax: upper.number.belowMax },
    sizes: { string: size('string'), array: size('array'), object: size('object') },
    texts: [...a.texts, ...b.texts],
    first: Array.from({ length: Math.max(a.first.length, b.first.length) }, (_, i) =>
      [...a.first[i] ?? a.items, ...b.first[i] ?? b.items]),
    items: [...a.items, ...b.items],
    moreItems: a.moreItems || b.moreItems,
    more: a.more || b.more,
    properties: new Map([...a.properties.keys(), ...b.properties.keys()].map((name) =>
      [name, [...property(a, name), ...property(b, name)]])),
    patterns,
    others: [...a.others, ...b.others],
    required: new Set([...a.required, ...b.required]),
    lost: [...a.lost, ...b.lost]
  }
}

/** Types of both; an integer is a number. */
const meet = (a: ReadonlySet<Type>, b: ReadonlySet<Type>): Set<Type> => new Set(TYPES.filter((type) =>
  [a, b].every((types) => types.has(type) || (type === 'integer' && types.has('number')))))

export function isType (value: unknown, type: Type): boolean {
  switch (type) {
    case 'null': return value === null
    case 'array': return Array.isArray(value)
    case 'object': return isObject(value)
    case 'integer': return Number.isInteger(value)
    default: return typeof value === type
  }
}

/** JSON with sorted keys: equal for equal values. */
export function canonical (value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (!isObject(value)) return JSON.stringify(value)
  const members = Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`)
  return `{${members.join()}}`
}
