import { createHash } from 'node:crypto'
import { encode, writeAny } from 'lib0/encoding'
import { deepFreeze } from '../../config/paths.js'
import { canonicalJson } from '../../net/encoding.js'

/** Maximum depth of nested containers in a value. */
export const MAX_DEPTH = 16

const KEY = /^[a-zA-Z0-9/_.:@-]{1,200}$/
/** Key parts that would access an object's prototype if the keys became property names. */
const RESERVED = new Set(['__proto__', 'constructor', 'prototype'])
/** Half of a surrogate pair, which UTF-8 cannot encode, so two nodes would have different strings. */
const BROKEN_TEXT = /\p{Surrogate}/u

/** The reason why documents refuse this key; null for a valid key. */
export function checkKey (key: unknown): string | null {
  if (typeof key !== 'string' || !KEY.test(key)) return 'must be 1 to 200 of a-z A-Z 0-9 / _ . : @ -'
  const reserved = key.split('/').find((part) => RESERVED.has(part))
  return reserved === undefined ? null : `must not contain the name ${reserved}`
}

/** The reason why documents refuse this value; null for plain JSON of at most 16 nested containers. */
export function checkValue (value: unknown, depth = 0): string | null {
  if (value === null || typeof value === 'boolean') return null
  if (typeof value === 'string') return BROKEN_TEXT.test(value) ? 'has half a surrogate pair in a text' : null
  if (typeof value === 'number') return Number.isFinite(value) ? null : `has the number ${value}`
  if (typeof value !== 'object') return `has ${article(typeof value)}, which is not JSON`
  if (depth === MAX_DEPTH) return `is more than ${MAX_DEPTH} levels deep`
  return Array.isArray(value) ? checkArray(value, depth) : checkObject(value, depth)
}

function article (type: string): string { return `${type === 'undefined' ? 'an' : 'a'} ${type}` }

function checkArray (list: readonly unknown[], depth: number): string | null {
  if (Object.getPrototypeOf(list) !== Array.prototype) return 'has a list with a foreign prototype'
  // Iterates by index, since a hole then reads as undefined, which is refused.
  for (let i = 0; i < list.length; i++) {
    const wrong = checkValue(list[i], depth + 1)
    if (wrong !== null) return wrong
  }
  return null
}

function checkObject (object: object, depth: number): string | null {
  const prototype: unknown = Object.getPrototypeOf(object)
  if (prototype !== Object.prototype && prototype !== null) return 'has an object with a foreign prototype'
  for (const [name, inner] of Object.entries(object)) {
    if (name === '__proto__') return 'has a field named __proto__'
    if (BROKEN_TEXT.test(name)) return 'has half a surrogate pair in a field name'
    const wrong = inner === undefined ? null : checkValue(inner, depth + 1)
    if (wrong !== null) return wrong
  }
  return null
}

/** A frozen copy without undefined fields. @throws TypeError naming the key */
export function frozenCopy (key: string, value: unknown): unknown {
  const wrong = checkKey(key)
  if (wrong !== null) throw new TypeError(`key ${JSON.stringify(key)} ${wrong}`)
  const unfit = checkValue(value)
  if (unfit !== null) throw new TypeError(`the value of "${key}" ${unfit}`)
  return deepFreeze(JSON.parse(JSON.stringify(value)) as unknown)
}

/** Bytes of an entry as encoded in an update; differs from JSON, e.g. a decimal always takes nine bytes. */
export function sizeOf (key: string, val: unknown): number {
  return encode((encoder) => { writeAny(encoder, { key, val } as Parameters<typeof writeAny>[1]) }).length
}

/** SHA-256 (hex) of the canonical JSON of the entries `[key, value]`, ordered by key (UTF-16 code units). */
export function hashOf (entries: Iterable<readonly [string, unknown]>): string {
  const sorted = [...entries].sort(([a], [b]) => a < b ? -1 : 1)
  return createHash('sha256').update(canonicalJson(sorted)).digest('hex')
}
