import { entryKey, partsOf, type Entry } from '../state/entries.js'

/** All entries that a replica holds for a state. */
export const entriesOf = (state: Record<string, unknown>): Entry[] =>
  [...partsOf(state)].map(({ of, member, val }) => ({ key: entryKey(of, member), val }))
