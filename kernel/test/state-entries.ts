import { isObject } from '../api/schema.js'
import { entryKey, keyOf, partsOf, type Entry } from '../state/entries.js'

/** All entries that a replica holds for a state. */
export const entriesOf = (state: Record<string, unknown>): Entry[] =>
  [...partsOf(state)].map(({ of, member, val }) => ({ key: entryKey(of, member), val }))

/** Rebuilds the state from a replica's entries; of two with one key the later wins. Copies no values. */
export function stateOf (entries: Iterable<Entry>): Record<string, unknown> {
  const whole = new Map<string, unknown>()
  const members = new Map<string, Map<string, unknown>>()
  for (const { key, val } of entries) {
    const of = keyOf(key)
    if (of === key) {
      whole.set(key, val)
      continue
    }
    let group = members.get(of)
    if (group === undefined) members.set(of, group = new Map())
    group.set(key.slice(of.length + 1), val)
  }
  // Uses Object.fromEntries, since assigning a member named __proto__ would set the prototype.
  for (const [key, val] of whole) {
    if (isObject(val)) whole.set(key, Object.fromEntries([...Object.entries(val), ...members.get(key) ?? []]))
  }
  return Object.fromEntries(whole)
}
