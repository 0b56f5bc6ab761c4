import { entryKey, partsOf } from '../state/entries.js'
import type { Entry } from '../state/entries.js'

/** The entries of a whole state, as its replica has them. */
export const entriesOf = (state: Record<string, unknown>): Entry[] =>
  [...partsOf(state)].map(({ of, member, val }) => ({ key: entryKey(of, member), val }))
