import { keyOf, type Entry } from '../../../kernel/state/entries.js'

/** Builds the state from a replica's entries (see kernel/state/entries.ts). */
export function stateOf (entries: Iterable<Entry>): Record<string, unknown> {
  const state = new Map<string, unknown>()
  const members = new Map<string, Map<string, unknown>>()
  for (const { key, val } of entries) {
    const of = keyOf(key)
    if (of === key) state.set(key, val)
    else members.set(of, (members.get(of) ?? new Map<string, unknown>()).set(key.slice(of.length + 1), val))
  }
  for (const [key, own] of members) {
    const val = state.get(key)
    if (typeof val !== 'object' || val === null || Array.isArray(val)) continue
    // Object.fromEntries creates a property even for a member named __proto__; an assignment would not.
    state.set(key, Object.fromEntries(own))
  }
  return Object.fromEntries(state)
}
