import { closedObject, type RouteDecl } from '../../../kernel/index.js'

const text = { type: 'string' } as const
const count = { type: 'integer', minimum: 0 } as const
const seconds = { type: 'number', minimum: 0 } as const
const day = { type: 'string', maxLength: 10, pattern: '^\\d{4}-\\d\\d-\\d\\d$' } as const

/** Cached tokens are part of the prompt tokens. */
const counts = {
  requests: count, failed: count, prompt_tokens: count, cached_tokens: count, output_tokens: count,
  sound_in_seconds: seconds, sound_out_seconds: seconds
} as const
export type Counts = Record<keyof typeof counts, number>
export const COUNTS = Object.keys(counts) as (keyof Counts)[]

export const usageRoute = {
  method: 'GET', url: '/v1/usage', authority: 'read', members: true,
  summary: 'Requests, tokens and sound by key, model, day or node, of all nodes; without "operator" only ' +
    'those of the caller.',
  query: closedObject({
    by: { enum: ['key', 'model', 'day', 'node'], default: 'key' },
    since: { ...day, description: 'First day (UTC); by default six days before `until`.' },
    until: { ...day, description: 'Last day (UTC); today by default.' }
  }, []),
  reply: closedObject({
    by: text, since: text, until: text,
    rows: {
      type: 'array',
      items: closedObject({
        key: { ...text, description: 'Caller id, model, day or name of a node; `other` beyond the limits.' },
        label: { type: ['string', 'null'], description: 'Label of a token.' }, ...counts
      })
    },
    total: closedObject(counts),
    not_asked: {
      type: 'array', description: 'Nodes that did not answer.',
      items: closedObject({ name: text, message: text })
    }
  }),
  errors: ['invalid_request']
} as const satisfies RouteDecl
