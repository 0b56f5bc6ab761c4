import type { EventDecl } from '../../kernel/index.js'

const idx = { type: 'integer', minimum: 0 } as const

export const events = {
  LogGap: {
    plane: 'durable',
    summary: 'Events of this node between two indices were dropped, not logged; `count` says how many.',
    payload: {
      type: 'object', additionalProperties: false, required: ['from', 'to', 'count'],
      properties: { from: idx, to: idx, count: { type: 'integer', minimum: 1 } }
    }
  }
} as const satisfies Record<string, EventDecl>
