import { hash } from 'node:crypto'

export type TaggedEvent = Readonly<Record<string, Readonly<Record<string, unknown>>>>

/** An event without an index. */
export interface Submission {
  /** UUID from the origin. An event submitted twice is logged once. */
  readonly id: string
  /** Time of the event, ISO-8601 UTC, by the clock of `origin`. */
  readonly at: string
  /** Id of the node where the event happened. */
  readonly origin: string
  readonly event: TaggedEvent
}

export interface Entry extends Submission {
  /** Index in the log, strictly increasing, with unused numbers in between. */
  readonly idx: number
  /** Index of the previous entry; 0 for the first one. */
  readonly prev: number
  readonly chain: string
  /** Session of the master that assigned the index. */
  readonly sid: string
}

export interface Position { readonly idx: number, readonly chain: string }

export const START: Position = { idx: 0, chain: '' }

/** Base64 characters of a digest, 96 bits. */
const CHAIN_CHARS = 16

/** Digest of a log that ends at `before` and continues with the event `id` at `idx` in session `sid`. */
export function chainAfter (before: Position, { idx, sid, id }: Pick<Entry, 'idx' | 'sid' | 'id'>): string {
  const text = `${before.chain}|${before.idx}|${idx}|${sid}|${id}`
  return hash('sha256', text, 'base64url').slice(0, CHAIN_CHARS)
}

export function entryAfter (before: Position, idx: number, sid: string, submission: Submission): Entry {
  const { id, at, origin, event } = submission
  return { idx, prev: before.idx, chain: chainAfter(before, { idx, sid, id }), sid, at, origin, id, event }
}

export function submissionOf ({ id, at, origin, event }: Submission): Submission {
  return { id, at, origin, event }
}

export const positionOf = ({ idx, chain }: Position): Position => ({ idx, chain })

export function samePosition (a: Position, b: Position): boolean {
  return a.idx === b.idx && a.chain === b.chain
}

export function kindOf (event: TaggedEvent): string { return Object.keys(event)[0] ?? '' }

export function jsonBytes (value: unknown): number { return Buffer.byteLength(JSON.stringify(value)) }
