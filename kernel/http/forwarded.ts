import { kernelError } from '../api/errors.js'
import { isObject, parseJson } from '../api/schema.js'
import type { Caller } from '../api/plugin.js'

/** Carries who asked, with a request that one node passes on to another. Read from members' sockets only. */
export const CALLER_HEADER = 'x-svc-caller'

const MODES: ReadonlySet<unknown> = new Set(['direct', 'paired', 'relay'])

/** The header's value for a caller. Header values are Latin-1, so other letters become \\u escapes. */
export function writeCaller ({ id, mode, authorities }: Caller): string {
  return JSON.stringify({ id, mode, authorities: [...authorities] })
    .replace(/[^\x20-\x7e]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/**
 * The caller of a passed-on request, authorised by the member that it entered. Throws `unauthenticated` for a
 * missing or malformed header.
 */
export function readCaller (header: string | string[] | undefined): Caller {
  const fields = parse(header)
  const { id, mode, authorities } = fields
  const fine = typeof id === 'string' && id !== '' && MODES.has(mode) && Array.isArray(authorities) &&
    authorities.every((a) => typeof a === 'string')
  if (!fine) throw kernelError('unauthenticated', 'A request passed on by a member must say who asked.')
  return { id, mode: mode as Caller['mode'], authorities: new Set(authorities) }
}

function parse (header: string | string[] | undefined): Record<string, unknown> {
  const value = parseJson(typeof header === 'string' ? header : '')
  return isObject(value) ? value : {}
}

/** Which member is at the other end of a socket of the members' listener. */
const members = new WeakMap<object, string>()

/** Remembers whose socket it is, once its key was compared; undefined forgets it. */
export function setMember (socket: object, installId: string | undefined): void {
  if (installId === undefined) members.delete(socket)
  else members.set(socket, installId)
}

/** Install id of the member at a socket of the members' listener; undefined for every other socket. */
export function memberOf (socket: object): string | undefined { return members.get(socket) }
