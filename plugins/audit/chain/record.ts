import { createHash } from 'node:crypto'

export interface RecordFields {
  /** Caller id; `node` for records of the chain itself. */
  readonly who: string
  /** How the request arrived: `direct`, `paired` or `relay`. */
  readonly how: string
  /** Method and path of the route, or a value of `own`. */
  readonly what: string
  readonly detail: Readonly<Record<string, unknown>>
}

export interface AuditRecord extends RecordFields {
  /** Number of the record in its chain, from 1 without gaps. */
  readonly seq: number
  /** Time of the record, ISO 8601, by the node's clock. */
  readonly at: string
  readonly node: string
  /** `hash` of the previous record; `GENESIS` for the first. */
  readonly prev: string
  /** SHA-256 over the canonical JSON of all other fields, 64 hex digits. */
  readonly hash: string
}

/** Values of `what` in records that are not about requests. */
export const own = {
  /** How a request ended. `detail` has `of` (the seq of its record), `status`, `reason` and `noted`. */
  outcome: 'outcome',
  /** The removal of older records. `detail.dropped` has the `seq` and `hash` of the newest removed one. */
  retention: 'retention',
  /** Reports a full disk: `detail.unrecorded` records are missing since `detail.from`. */
  gap: 'gap'
} as const

export const GENESIS = '0'.repeat(64)

/**
 * Canonical JSON (RFC 8785): names sorted by UTF-16 code units, no whitespace, ECMAScript numbers and
 * strings. Throws TypeError for values that the RFC does not allow.
 */
export function canonicalJson (value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (typeof value === 'object' && value !== null) {
    const fields = Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1)
    return `{${fields.map(([key, inner]) => `${canonicalJson(key)}:${canonicalJson(inner)}`).join(',')}}`
  }
  const known = value === null || typeof value === 'boolean' || Number.isFinite(value)
  if (!known && (typeof value !== 'string' || /\p{Surrogate}/u.test(value))) {
    const what = typeof value === 'string' ? 'a string with a lone surrogate' : String(value)
    throw new TypeError(`canonical JSON cannot represent ${what}`)
  }
  return JSON.stringify(value)
}

/** The hash of a record, computed without its `hash` field. */
export function hashOf ({ hash: _, ...fields }: Omit<AuditRecord, 'hash'> & { hash?: string }): string {
  return createHash('sha256').update(canonicalJson(fields)).digest('hex')
}

export function withHash (fields: Omit<AuditRecord, 'hash'>): AuditRecord {
  return { ...fields, hash: hashOf(fields) }
}

const HASH = /^[0-9a-f]{64}$/
const TEXTS = ['at', 'node', 'who', 'how', 'what'] as const

/** Parses a line of a chain; null if it is invalid. Does not check the hash. */
export function readRecord (line: string): AuditRecord | null {
  let value: Partial<AuditRecord> | null
  try {
    value = JSON.parse(line) as Partial<AuditRecord> | null
    // Only the canonical form is valid, because parsers could disagree about any other form.
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
