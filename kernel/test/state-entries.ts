import { entryKey, partsOf } from '../state/entries.js'
import type { Entry } from '../state/entries.js'

/** All entries of a state, as in a replica. */
export const entriesOf = (state: Record<string, unknown>): Entry[] =>
  [...partsOf(state)].map(({ of, member, val }) => ({ key: entryKey(of, member), val }))
