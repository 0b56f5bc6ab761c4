import { isDeepStrictEqual } from 'node:util'
import { systemClock } from '../api/clock.js'
import type { Replica, ReplicaError } from '../state/follower.js'
import type { Client } from './client.js'
import { apiFailure, CliError, exitCodes, interrupted, readApiError } from './errors.js'

/** Changed keys with their new values; null: the key is gone. */
export type Changes = Readonly<Record<string, unknown>>

/**
 * Connects to the node's replica of /state. `changed` is called after every change. Throws CliError: 7 when
 * nothing answers, else by the answer.
 */
export async function follow (client: Client, signal: AbortSignal, changed: () => void): Promise<Replica> {
  const { openReplica, ReplicaError: Failure } = await import('../state/follower.js')
  const headers: Record<string, string> = client.token === undefined
    ? {}
    : { authorization: `Bearer ${client.token}` }
  try {
    return await openReplica({ url: client.url, headers, signal, clock: systemClock, changed })
  } catch (error) {
    throw error instanceof Failure ? asCliError(error, client) : error
  }
}

function asCliError ({ kind, message, answer }: ReplicaError, { url }: Client): CliError {
  if (kind === 'aborted') return interrupted()
  if (answer !== undefined) return apiFailure(answer.status, readApiError(answer.body), answer.body)
  if (kind === 'too late') {
    return new CliError(exitCodes.notReady, `${url}: ${message}; \`svc doctor\` shows what is wrong`)
  }
  return new CliError(exitCodes.unreachable,
    `no node answers at ${url}: ${message}; start one with \`svc up\`, or name another with --url`)
}

/** The keys whose values differ, with their new values; null for those that are gone. Pure. */
export function changesBetween (
  before: ReadonlyMap<string, unknown>, after: ReadonlyMap<string, unknown>
): Changes {
  const gone = [...before.keys()].filter((key) => !after.has(key)).map((key) => [key, null] as const)
  const changed = [...after].filter(([key, value]) => !isDeepStrictEqual(before.get(key), value))
  return Object.fromEntries([...changed, ...gone])
}

const MAX_WIDTH = 100
const isMap = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function short (value: unknown): string {
  const text = JSON.stringify(value) ?? 'null'
  return text.length > MAX_WIDTH ? `${text.slice(0, MAX_WIDTH - 1)}…` : text
}

/** Lines for people about a changed key: what was added (+), changed (~) and removed (-) in a map. Pure. */
export function describeChange (key: string, before: unknown, after: unknown): string {
  if (!isMap(after) || !isMap(before)) return `${key}: ${short(after)}`
  const marks = [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((id) => {
    if (!Object.hasOwn(before, id)) return [`+${id} ${short(after[id])}`]
    if (!Object.hasOwn(after, id)) return [`-${id}`]
    return isDeepStrictEqual(before[id], after[id]) ? [] : [`~${id} ${short(after[id])}`]
  })
  return marks.length === 0 ? `${key}: {}` : marks.map((mark) => `${key}: ${mark}`).join('\n')
}
