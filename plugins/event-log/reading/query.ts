import { kernelError, type FromSchema, type SvcError } from '../../../kernel/index.js'
import type { routes } from '../routes.js'
import type { IndexOrTime, StoreQuery } from '../store/types.js'

export interface QueryWorld {
  readonly kinds: readonly string[]
  /** Ids of the requested node; null if the node is unknown. */
  readonly origins: readonly string[] | null
  readonly lastEventId: string | undefined
}

export type Query = ReturnType<typeof readQuery>

const LIMIT = 200
const MOST = 1000

/** Parses the query. Throws `invalid_request`, and `node_not_found` for an unknown node. */
export function readQuery (raw: FromSchema<typeof routes.list.query>, world: QueryWorld) {
  const follow = raw.follow === '1'
  const since = follow ? world.lastEventId ?? raw.since : raw.since
  const from = since === undefined ? null : readPoint('since', since)
  const limit = readLimit(raw.limit)
  if (follow && limit !== null && from !== null) {
    throw invalid('limit', 'limit and follow exclude since (and Last-Event-ID): ' +
      'limit is then the number of events to start with')
  }
  const kinds = raw.kinds?.split(',').map((kind) => kind.trim())
  const stranger = kinds?.find((kind) => !world.kinds.includes(kind))
  if (stranger !== undefined) {
    throw invalid('kinds', `there is no event kind "${stranger}"; docs/reference/events.md lists them`)
  }
  if (raw.node !== undefined && world.origins === null) {
    throw kernelError('node_not_found', `The node "${raw.node}" is unknown and has no events.`)
  }
  /** Selects events by kind, origin node and earliest time; an absent field selects all events. */
  const wanted: Pick<StoreQuery, 'kinds' | 'origins' | 'sinceMs'> = {
    ...(kinds === undefined ? {} : { kinds }),
    ...(world.origins === null ? {} : { origins: world.origins }),
    ...(from !== null && 'ms' in from ? { sinceMs: from.ms } : {})
  }
  return {
    /** Only events after this index; null means no lower bound. */
    sinceIdx: from !== null && 'idx' in from ? from.idx : null,
    follow,
    limit: limit ?? (follow ? 0 : LIMIT),
    wanted
  }
}

/** Parses an index or a time (ISO-8601). Throws `invalid_request` for anything else. */
export function readPoint (param: string, text: string): IndexOrTime {
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

export function invalid (param: string, message: string): SvcError {
  return kernelError('invalid_request', `The request is not valid: ${message}.`,
    { param, issues: [{ path: param, message }] })
}
