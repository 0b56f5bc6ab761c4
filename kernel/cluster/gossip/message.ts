/** What travels between nodes: `readings` by key. */
export interface GossipBody { v: 1, readings: Record<string, unknown> }

/** Most keys in one body, and most that wait to be published. */
export const MAX_KEYS = 64
/** Largest reading, bytes of its JSON. */
export const MAX_READING_BYTES = 64 * 1024
/** Deepest nesting of a reading. */
const MAX_DEPTH = 16

const KEY = /^[a-zA-Z0-9/_.:@-]{1,200}$/
/** Names that would reach into an object's own workings. */
const FORBIDDEN = new Set(['__proto__', 'constructor', 'prototype'])

export const validKey = (key: string): boolean => KEY.test(key) && !FORBIDDEN.has(key)

/** Bytes of a value as JSON; null when it is no plain JSON, is nested too deeply or is too large. */
export function jsonBytes (value: unknown): number | null {
  if (!isJson(value, 0)) return null
  const bytes = Buffer.byteLength(JSON.stringify(value))
  return bytes <= MAX_READING_BYTES ? bytes : null
}

function isJson (value: unknown, depth: number): boolean {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true
  if (typeof value === 'number') return Number.isFinite(value)
  if (typeof value !== 'object' || depth >= MAX_DEPTH) return false
  if (Array.isArray(value)) return value.every((inner) => isJson(inner, depth + 1))
  return isPlain(value) && Object.entries(value).every(([key, inner]) =>
    !FORBIDDEN.has(key) && (inner === undefined || isJson(inner, depth + 1)))
}

function isPlain (value: object): value is Record<string, unknown> {
  const proto: unknown = Object.getPrototypeOf(value)
  return proto === Object.prototype || proto === null
}

/** The readings of a body from a peer, or what is wrong with it. Nothing is believed about it. Pure. */
export function readBody (body: unknown): { readings: [string, unknown][] } | { wrong: string } {
  if (typeof body !== 'object' || body === null || !isPlain(body)) return { wrong: 'is no object' }
  const { v, readings } = body
  if (v !== 1) return { wrong: `has version ${String(v).slice(0, 20)}, not 1` }
  if (typeof readings !== 'object' || readings === null || !isPlain(readings)) {
    return { wrong: '"readings" is no object' }
  }
  const entries = Object.entries(readings)
  if (entries.length > MAX_KEYS) return { wrong: `has ${entries.length} readings, over ${MAX_KEYS}` }
  for (const [key, value] of entries) {
    if (!validKey(key)) return { wrong: `has the key "${key.slice(0, 40)}"` }
    if (jsonBytes(value) === null) {
      return { wrong: `"${key}" is no plain JSON of at most ${MAX_READING_BYTES} bytes` }
    }
  }
  return { readings: entries }
}
