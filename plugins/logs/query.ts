import { kernelError, type FromSchema, type LogFilter, type SvcError } from '../../kernel/index.js'
import { LIMIT, LIMIT_MOST } from './limits.js'
import type { routes } from './routes.js'

export type RawQuery = FromSchema<typeof routes.here.query>

/** The position after line `seq`. `nodeId` identifies a node process and changes with each start. */
export interface Position { readonly nodeId: string, readonly seq: number }

export type Query = ReturnType<typeof readQuery>

const POSITION = /^([\w-]{1,64}):(\d{1,15})$/
const TIME = /^\d{4}-\d{2}-\d{2}(T[\d:.]+(Z|[+-]\d{2}:?\d{2})?)?$/

/** Parses a query; Last-Event-ID overrides `since`. Throws `invalid_request` if either is invalid. */
export function readQuery (raw: RawQuery, lastEventId?: string) {
  const follow = raw.follow === '1'
  const since = follow && lastEventId !== undefined ? lastEventId : raw.since
  const { sinceMs, position } = readSince(since)
  const some = sinceMs === null ? LIMIT : LIMIT_MOST
  /** Filters that are also sent to other nodes. */
  const want: Pick<LogFilter, 'level' | 'modelId' | 'plugin'> = {
    ...raw.level === undefined ? {} : { level: raw.level },
    ...raw.model === undefined ? {} : { modelId: raw.model },
    ...raw.plugin === undefined ? {} : { plugin: raw.plugin }
  }
  /** Limit on the lines in a page; with `follow`, on those in the first page. */
  const limit = raw.limit ?? (follow && sinceMs === null ? 0 : some)
  return { want, sinceMs, position, limit, follow }
}

function readSince (since: string | undefined): { sinceMs: number | null, position: Position | null } {
  if (since === undefined) return { sinceMs: null, position: null }
  const sinceMs = TIME.test(since) ? Date.parse(since) : Number.NaN
  if (!Number.isNaN(sinceMs)) return { sinceMs, position: null }
  const [, nodeId, seq] = POSITION.exec(since) ?? []
  if (nodeId !== undefined && !TIME.test(since)) {
    return { sinceMs: null, position: { nodeId, seq: Number(seq) } }
  }
  throw badSince(since, 'a time such as 2026-01-31T08:00:00Z or a position nodeId:seq')
}

export function badSince (since: string, expected: string): SvcError {
  const message = `since is "${since}": it must be ${expected}`
  return kernelError('invalid_request', `The request is not valid: ${message}.`,
    { param: 'since', issues: [{ path: 'since', message }] })
}

/** The filter for a node's log ring. A position from an earlier process start selects all current lines. */
export function wantOf ({ want, sinceMs, position, limit }: Query, nodeId: string): LogFilter {
  return {
    ...want, limit, ...sinceMs === null ? {} : { sinceMs },
    ...position === null ? {} : { afterSeq: seqAt(position, nodeId) }
  }
}

export const seqAt = (position: Position, nodeId: string): number =>
  position.nodeId === nodeId ? position.seq : 0

/** The path for the same query on another node. */
export function pathFor ({ want, sinceMs, position, limit, follow }: Query): string {
  const query = new URLSearchParams()
  if (want.level !== undefined) query.set('level', want.level)
  if (want.modelId !== undefined) query.set('model', want.modelId)
  if (want.plugin !== undefined) query.set('plugin', want.plugin)
  if (sinceMs !== null) query.set('since', new Date(sinceMs).toISOString())
  if (position !== null) query.set('since', `${position.nodeId}:${position.seq}`)
  if (limit > 0) query.set('limit', String(limit))
  if (follow) query.set('follow', '1')
  return `/v1/logs?${query.toString()}`
}
