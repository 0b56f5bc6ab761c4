import { kernelError } from '../../../kernel/index.js'
import type { SvcError } from '../../../kernel/index.js'
import { kindOf } from '../log/entries.js'
import type { Entry } from '../log/entries.js'
import type { Moment } from '../store/types.js'

/** The query of GET /events as it arrives. */
export interface RawQuery {
  since?: string
  limit?: string
  kinds?: string
  node?: string
  follow?: '0' | '1'
}

/** What is needed to check a query. */
export interface QueryWorld {
  /** Kinds of events that are declared; null when that is not known. */
  kinds: ReadonlySet<string> | null
  /** The ids of a node that is named by id, install id or name; null for an unknown one. */
  node: (ref: string) => ReadonlySet<string> | null
  /** Value of the header Last-Event-ID, if any. */
  lastEventId: string | undefined
}

/** A checked query. */
export interface Query {
  /** Only events after this index; null when no index was given. */
  readonly sinceIdx: number | null
  /** Only events from this time on, ms since 1970; null when no time was given. */
  readonly sinceMs: number | null
  readonly limit: number
  readonly follow: boolean
  /** Only these kinds, and only events of these nodes; all when absent. */
  readonly kinds?: readonly string[]
  readonly origins?: readonly string[]
  /** True for an entry that fits the query. */
  readonly wants: (entry: Entry) => boolean
}

const LIMIT = 200
const MOST = 1000

/** Reads the query. Throws `invalid_request` naming the parameter, `node_not_found` for an unknown node. */
export function readQuery (raw: RawQuery, world: QueryWorld): Query {
  const follow = raw.follow === '1'
  const since = readSince(follow && world.lastEventId !== undefined ? world.lastEventId : raw.since)
  const limit = readLimit(raw.limit)
  if (follow && limit !== null && (since.idx !== null || since.ms !== null)) {
    throw invalid('limit', 'limit goes with follow only when there is no since (or Last-Event-ID): ' +
      'it is the number of events to begin with')
  }
  const kinds = readKinds(raw.kinds, world.kinds)
  const nodes = raw.node === undefined ? null : world.node(raw.node)
  if (raw.node !== undefined && nodes === null) {
    throw kernelError('node_not_found', `No node "${raw.node}" is known, and no event came from it.`)
  }
  const { idx, ms } = since
  return {
    sinceIdx: idx,
    sinceMs: ms,
    follow,
    limit: limit ?? (follow ? 0 : LIMIT),
    ...(kinds === null ? {} : { kinds: [...kinds] }),
    ...(nodes === null ? {} : { origins: [...nodes] }),
    wants: (entry) => (kinds === null || kinds.has(kindOf(entry.event))) &&
      (nodes === null || nodes.has(entry.origin)) && (ms === null || Date.parse(entry.at) >= ms)
  }
}

function readSince (text: string | undefined): { idx: number | null, ms: number | null } {
  return { idx: null, ms: null, ...text === undefined ? {} : readPoint('since', text) }
}

/** Reads an index or a time (ISO-8601). Throws `invalid_request` naming the parameter for anything else. */
export function readPoint (param: string, text: string): Moment {
  if (/^\d{1,15}$/.test(text)) return { idx: Number(text) }
  const ms = /^\d{4}-\d{2}-\d{2}(T[\d:.]+(Z|[+-]\d{2}:?\d{2})?)?$/.test(text) ? Date.parse(text) : Number.NaN
  if (!Number.isNaN(ms)) return { ms }
  throw invalid(param, `${param} is "${text}": it must be an index such as 1200 or a time such as ` +
    '2026-01-31T08:00:00Z')
}

function readLimit (text: string | undefined): number | null {
  if (text === undefined) return null
  const limit = Number(text)
  if (limit < 1 || limit > MOST) throw invalid('limit', `limit is ${text}: it must be 1 to ${MOST}`)
  return limit
}

function readKinds (text: string | undefined, known: ReadonlySet<string> | null): ReadonlySet<string> | null {
  if (text === undefined) return null
  const kinds = text.split(',').map((kind) => kind.trim())
  const stranger = kinds.find((kind) => !/^[A-Z][A-Za-z0-9]*$/.test(kind) || known?.has(kind) === false)
  if (stranger !== undefined) {
    throw invalid('kinds', `there is no event kind "${stranger}"; docs/reference/events.md lists them`)
  }
  return new Set(kinds)
}

/** The error for an invalid parameter. */
export function invalid (param: string, message: string): SvcError {
  return kernelError('invalid_request', `The request is not valid: ${message}.`,
    { param, issues: [{ path: param, message }] })
}
