import { createHash } from 'node:crypto'
import { checkValue } from './values.js'
import type { Entry, NodeId } from '../election/index.js'
import type { Snapshot } from './snapshot.js'

/** An entry as it goes to followers. `update` is empty when the document did not change. */
export interface WireEntry {
  readonly kind: Entry['kind']
  readonly id: string
  readonly sid: string
  readonly term: number
  readonly seq: number
  /** Covers this entry and all before it. */
  readonly digest: string
  readonly update: Uint8Array
  readonly result: unknown
  /** The list as this entry leaves it; only where it changes. */
  readonly voters?: readonly NodeId[]
}

/** What follows entry `base.seq`, for a node that holds the document of that writer. */
export interface PartBody {
  readonly base: { readonly seq: number, readonly digest: string }
  readonly clientId: number
  readonly entries: readonly WireEntry[]
}

/** Everything. `state` is a Yjs update for an empty document (the payload of a sync step 2). */
export interface WholeBody extends Omit<Snapshot, 'entries'> {
  readonly base: null
  readonly state: Uint8Array
  readonly clientId: number
}

export type ControlBody = PartBody | WholeBody

/** Digest before the first entry. */
export const GENESIS = ''

type Digested = Omit<WireEntry, 'digest'>

/** SHA-256, base64url, over the digest before an entry and all that the entry says. */
export function digestOf (before: string, entry: Digested): string {
  const { seq, term, sid, kind, id, update, result, voters } = entry
  const head = JSON.stringify([before, seq, term, sid, kind, id, voters ?? null, result ?? null])
  return createHash('sha256').update(head).update(update).digest('base64url')
}

type Check = (value: unknown) => boolean
type Shape = Readonly<Record<string, Check>>

const text: Check = (v) => typeof v === 'string' && v !== ''
const count: Check = (v) => Number.isSafeInteger(v) && (v as number) >= 0
const bytes: Check = (v) => v instanceof Uint8Array
const digest: Check = (v) => typeof v === 'string'
const json: Check = (v) => v === undefined || checkValue(v) === null
/** A list of node ids. */
export const isNames = (v: unknown): v is readonly NodeId[] => Array.isArray(v) && v.every(text)
const kind: Check = (v) => v === 'session' || v === 'anoint' || v === 'voters' || v === 'command'
const optional = (check: Check): Check => (v) => v === undefined || check(v)
const orNull = (check: Check): Check => (v) => v === null || check(v)
const listOf = (check: Check): Check => (v) => Array.isArray(v) && v.every(check)
const record = (shape: Shape): Check => (v) => wrongField(v, shape) === null

function wrongField (value: unknown, shape: Shape): string | null {
  if (typeof value !== 'object' || value === null) return 'body'
  const fields = value as Record<string, unknown>
  return Object.keys(shape).find((name) => shape[name]?.(fields[name]) !== true) ?? null
}

const receipt = record({ id: text, sid: text, term: count, seq: count, result: json })
const entry = record({
  kind,
  id: text,
  sid: text,
  term: count,
  seq: count,
  digest,
  update: bytes,
  result: json,
  voters: optional(isNames)
})
const PART: Shape = { base: record({ seq: count, digest }), clientId: count, entries: listOf(entry) }
const WHOLE: Shape = {
  state: bytes,
  clientId: count,
  sid: orNull(text),
  term: count,
  seq: count,
  gen: count,
  digest,
  voters: orNull(isNames),
  receipts: listOf(receipt)
}

/** The body, or what is wrong with it. Fields that are unknown here are left alone. Never throws. */
export function readBody (value: unknown): ControlBody | string {
  if (typeof value !== 'object' || value === null) return 'not an object'
  const wrong = wrongField(value, (value as { base?: unknown }).base === null ? WHOLE : PART)
  if (wrong !== null) return `the field "${wrong}" is not what it should be`
  const body = value as ControlBody
  if (body.base === null) return body
  const { base, entries } = body
  const hole = entries.find((entry, i) => entry.seq !== base.seq + 1 + i)
  return hole === undefined ? body : `entry ${hole.seq} is out of its place`
}
