import { kernelError } from '../api/errors.js'
import { isObject, parseJson } from '../api/schema.js'
import type { Caller } from '../api/plugin.js'

/** Header naming the caller of a request that another node forwards; read only on members' connections. */
export const CALLER_HEADER = 'x-svc-caller'

const MODES: ReadonlySet<unknown> = new Set(['direct', 'paired', 'relay'])

/** Serialises a caller with \\u escapes, since header values are limited to Latin-1. */
export function writeCaller ({ id, mode, authorities, models }: Caller): string {
  return JSON.stringify({ id, mode, authorities: [...authorities], models })
    .replace(/[^\x20-\x7e]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/**
 * Caller of a forwarded request, authorised by the member that received it. Throws `unauthenticated` for a
 * missing or malformed header.
 */
export function readCaller (header: string | string[] | undefined): Caller {
  const fields = parse(header)
  const { id, mode, authorities, models } = fields
  const fine = typeof id === 'string' && id !== '' && MODES.has(mode) && isTexts(authorities) &&
    (models === undefined || isTexts(models))
  if (!fine) throw kernelError('unauthenticated', 'A request forwarded by a member must name its caller.')
  return {
    id, mode: mode as Caller['mode'], authorities: new Set(authorities),
    ...models === undefined ? {} : { models }
  }
}

const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((one) => typeof one === 'string')

function parse (header: string | string[] | undefined): Record<string, unknown> {
  const value = parseJson(typeof header === 'string' ? header : '')
  return isObject(value) ? value : {}
}

/** Install ids of members, by their socket on the members' listener. */
const members = new WeakMap<object, string>()

/** Called once the member's key is verified; undefined removes the entry. */
export function setMember (socket: object, installId: string | undefined): void {
  if (installId === undefined) members.delete(socket)
  else members.set(socket, installId)
}

export function memberOf (socket: object): string | undefined { return members.get(socket) }
