import { createHash } from 'node:crypto'

export interface RecordFields {
  /** Id of the caller; `node` for what a node does to its own chain. */
  readonly who: string
  /** Transport of the request: direct, paired, relay. */
  readonly how: string
  /** Method and path of the route, or one of `own`. */
  readonly what: string
  readonly detail: Readonly<Record<string, unknown>>
}

/** A link of a node's chain. */
export interface AuditRecord extends RecordFields {
  /** From 1, without gaps. */
  readonly seq: number
  /** ISO-8601, by the node's clock. */
  readonly at: string
  /** Install id of the node. */
  readonly node: string
  /** The `hash` of the record before it; `GENESIS` for the first. */
  readonly prev: string
  /** SHA-256 over the canonical JSON of all other fields, 64 hex digits. */
  readonly hash: string
}

/** The `what` of records that are no request. */
export const own = {
  /** How a request ended: `detail` has `of` (the seq of its record), `status`, `reason` and `noted`. */
  outcome: 'outcome',
  /** Older records are no longer kept: `detail.dropped` has the `seq` and `hash` of the newest of them. */
  retention: 'retention',
  /** The disk was full: `detail.unrecorded` records since `detail.from` are missing. */
  gap: 'gap'
} as const

/** `prev` of the first record. */
export const GENESIS = '0'.repeat(64)

/**
 * JSON by RFC 8785: names sorted by UTF-16 code units, no blanks, ECMAScript numbers and texts. Throws
 * TypeError for values outside of the RFC.
 */
export function canonicalJson (value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (typeof value === 'object' && value !== null) {
    const fields = Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1)
    return `{${fields.map(([key, inner]) => `${canonicalJson(key)}:${canonicalJson(inner)}`).join(',')}}`
  }
  const known = value === null || typeof value === 'boolean' || Number.isFinite(value)
  if (!known && (typeof value !== 'string' || /\p{Surrogate}/u.test(value))) {
    const what = typeof value === 'string' ? 'a text with half a letter' : String(value)
    throw new TypeError(`there is no canonical JSON of ${what}`)
  }
  return JSON.stringify(value)
}

/** The hash of a record; a `hash` that it has already does not count. */
export function hashOf ({ hash: _, ...fields }: Omit<AuditRecord, 'hash'> & { hash?: string }): string {
  return createHash('sha256').update(canonicalJson(fields)).digest('hex')
}

export function withHash (fields: Omit<AuditRecord, 'hash'>): AuditRecord {
  return { ...fields, hash: hashOf(fields) }
}

const HASH = /^[0-9a-f]{64}$/
const TEXTS = ['at', 'node', 'who', 'how', 'what'] as const

/** The record in a line of a chain; null for anything else. Whether its hash is right is another question. */
export function readRecord (line: string): AuditRecord | null {
  let value: Partial<AuditRecord> | null
  try {
    value = JSON.parse(line) as Partial<AuditRecord> | null
    // Written in another way it may say the same, or something else to another reader.
    if (canonicalJson(value) !== line) return null
  } catch {
    return null
  }
  const { seq, prev, hash, detail } = value ?? {}
  const fine = Number.isSafeInteger(seq) && seq! > 0 && isHash(prev) && isHash(hash) &&
    typeof detail === 'object' && detail !== null && TEXTS.every((key) => typeof value![key] === 'string')
  return fine ? value as AuditRecord : null
}

export const isHash = (value: unknown): value is string => typeof value === 'string' && HASH.test(value)
