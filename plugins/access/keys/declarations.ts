import { closedObject, type FromSchema } from '../../../kernel/index.js'
import { limitsSchema, spentSchema } from '../limits.js'

/** Keys of the cluster at most, including ended ones whose room is not needed yet. */
export const MAX_KEYS = 200
/** Maximum size as JSON of one key and of all, since the control document has 256 KiB for all plugins. */
export const MAX_KEY_BYTES = 1024
export const MAX_KEYS_BYTES = 64 * 1024
export const MAX_MAKERS = 32

const text = { type: 'string', minLength: 1, maxLength: 100 } as const
const time = { type: 'string', maxLength: 30 } as const
const timeOrNull = { type: ['string', 'null'], maxLength: 30 } as const
const texts = {
  type: 'array', maxItems: MAX_MAKERS, items: { type: 'string', minLength: 1, maxLength: 200 }
} as const

/**
 * A key that every node accepts. `makers`: its creator, that one's creator, and so on; `node`: install id of
 * the node that created it.
 */
export const keySchema = closedObject({
  label: text, authorities: texts, models: { ...texts, type: ['array', 'null'] },
  hash: { type: 'string', pattern: '^[\\w-]{43}$', description: 'SHA-256 of the secret, base64url' },
  created: time, expires: timeOrNull, makers: { ...texts, minItems: 1 },
  node: text, replaces: { type: ['string', 'null'], maxLength: 64 }, limits: limitsSchema
}, ['label', 'authorities', 'models', 'hash', 'created', 'expires', 'makers', 'node', 'replaces'])
export type Key = Readonly<FromSchema<typeof keySchema>>

export const keySections = {
  keys: { writer: 'master', summary: 'The keys that every node accepts, by id.', value: keySchema },
  keyUse: {
    writer: 'node', summary: 'The day on which each key was last used at a node.',
    value: { type: 'string', maxLength: 10 }
  },
  keySpent: {
    writer: 'node', summary: 'What each key with limits has used at a node in this minute and on this day.',
    value: spentSchema
  }
} as const

export const addKeyDecl = {
  summary: 'Adds a key; one that it replaces ends at `until`.',
  args: closedObject({
    id: { type: 'string', pattern: '^key_[0-9a-f]{12}$' }, key: keySchema, until: timeOrNull
  })
} as const

export const keyErrors = {
  keys_unconfirmed: {
    status: 503, retryable: true, retryAfterSeconds: 10,
    message: 'This node has had no contact with its cluster for a minute: the key may have been revoked.',
    remedy: 'Ask another node, or see `svc doctor` on this one; tokens made with `--local` still work here.'
  },
  too_many_keys: {
    status: 409, retryable: false, message: 'There is no room for another key of the cluster.',
    remedy: 'Revoke one that is not used: `svc token ls` shows them, `svc token revoke ID` ends one.'
  },
  limit_reached: {
    status: 429, retryable: true, message: 'The key has reached one of its limits.',
    remedy: 'Wait for as long as Retry-After says; `svc usage` shows what was used, and when.'
  },
  token_replaced: {
    status: 409, retryable: false, message: 'The key was replaced already.',
    remedy: 'Rotate the key that replaces it; `svc token ls` lists both.'
  }
} as const
