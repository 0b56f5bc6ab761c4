// Encodes the state as replica entries. Imports no Node modules, since browsers use it too.
import { isObject } from '../api/schema.js'

export interface Entry { readonly key: string, readonly val: unknown }

/** What an entry holds: a whole key of the state (`member` null) or one member of an object. */
export interface EntryOwner { readonly of: string, readonly member: string | null, readonly val: unknown }

const EMPTY = Object.freeze({})

/**
 * Splits the state into entries. An object becomes `{ key: 'instances', val: {} }` and, for each member, `{
 * key: 'instances/ID', val }`, so that a change to one member sends only that member; any other value becomes
 * `{ key, val }`.
 */
export function * partsOf (state: Readonly<Record<string, unknown>>): Iterable<EntryOwner> {
  for (const [of, val] of Object.entries(state)) {
    if (val === undefined) continue
    yield { of, member: null, val: isObject(val) ? EMPTY : val }
    if (!isObject(val)) continue
    for (const member of Object.keys(val)) {
      const inner = val[member]
      if (inner !== undefined) yield { of, member, val: inner }
    }
  }
}

export const entryKey = (of: string, member: string | null): string =>
  member === null ? of : `${of}/${member}`

export function keyOf (entry: string): string {
  const slash = entry.indexOf('/')
  return slash < 0 ? entry : entry.slice(0, slash)
}

/** Removes round-trip times and transfer rates, which change with every measurement. */
export function withoutTimes (topology: unknown): unknown {
  return JSON.parse(JSON.stringify(topology ?? null, (key, value: unknown) =>
    key === 'rttMs' || key === 'bytesPerSecond' ? undefined : value))
}
