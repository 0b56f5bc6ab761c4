import { durableEvent } from '../../kernel/index.js'
import type { EventDecl } from '../../kernel/index.js'

const idx = { type: 'integer', minimum: 0 } as const
const text = { type: 'string' } as const

export const events = {
  LogGap: durableEvent(
    'Events from one index to the other were dropped, or counted and not stored; `count` says how many.',
    { from: idx, to: idx, count: { type: 'integer', minimum: 1 } }),
  LogCorrupt: durableEvent(
    'A damaged file of the stored event log was set aside; `from` is the first index it may have had.',
    { nodeId: text, file: text, from: idx, errorMessage: text })
} as const satisfies Record<string, EventDecl>
