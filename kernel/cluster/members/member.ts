import { kernelError } from '../../api/errors.js'
import { MAX_ADDRESSES, readAddress } from '../identity/addresses.js'
import type { SvcError } from '../../api/errors.js'

/** One node that belongs to the cluster. */
export interface Member {
  installId: string
  fingerprint: string
  name: string
  /** host:port of its members' listener, IPv6 in []. */
  addresses: readonly string[]
  /** ISO 8601. */
  joinedAt: string
}

/** A member as it describes itself, before it was admitted. */
export type Candidate = Omit<Member, 'joinedAt'>

/** A key that was a member's and never is again. */
export interface Removed {
  installId: string
  fingerprint: string
  /** ISO 8601. */
  at: string
}

/** Who belongs to the cluster, as this node last learned it. */
export interface Membership {
  clusterId: string
  members: readonly Member[]
  removed: readonly Removed[]
}

const INSTALL_ID = /^[A-Za-z0-9-]{1,64}$/
const CLUSTER_ID = INSTALL_ID
/** base64url of 32 bytes: the last character carries four bits. */
const FINGERPRINT = /^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/
const NAME = /^[^\p{Cc}]{1,128}$/u
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,3})?Z$/
export const MAX_MEMBERS = 512
export const MAX_REMOVED = 10_000

/** A value that is not what it should be; `path` names the field. */
export class ShapeError extends Error {
  override readonly name = 'ShapeError'
  readonly path: string

  constructor (path: string, what: string) {
    super(`${path === '' ? 'the value' : path} ${what}`)
    this.path = path
  }
}

type Fields = Readonly<Record<string, unknown>>

/** The value as an object. Throws ShapeError, as everything here that reads. */
export function fieldsOf (value: unknown, path: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ShapeError(path, 'must be an object')
  }
  return value as Fields
}

const below = (path: string, key: string): string => path === '' ? key : `${path}.${key}`

/** A text field that matches `pattern`; `what` says in words what it must be. */
export function textOf (fields: Fields, path: string, key: string, pattern: RegExp, what: string): string {
  const value = fields[key]
  if (typeof value === 'string' && pattern.test(value)) return value
  throw new ShapeError(below(path, key), `must be ${what}`)
}

const identifier = 'up to 64 letters, digits and hyphens'
const installIdOf = (fields: Fields, path: string): string =>
  textOf(fields, path, 'installId', INSTALL_ID, identifier)

export const clusterIdOf = (fields: Fields, path: string): string =>
  textOf(fields, path, 'clusterId', CLUSTER_ID, identifier)

export const fingerprintIn = (fields: Fields, path: string): string =>
  textOf(fields, path, 'fingerprint', FINGERPRINT, 'a base64url SHA-256 of 43 characters')

const instantOf = (fields: Fields, path: string, key: string): string =>
  textOf(fields, path, key, INSTANT, 'a time as 2026-01-31T12:00:00.000Z')

/** A list of at most `max`, each read by `read`. */
function listOf<T> (
  fields: Fields, path: string, key: string, max: number, read: (item: unknown, path: string) => T
): T[] {
  const value = fields[key]
  const where = below(path, key)
  if (!Array.isArray(value)) throw new ShapeError(where, 'must be a list')
  if (value.length > max) throw new ShapeError(where, `has ${value.length} entries, at most ${max} may be`)
  return value.map((item: unknown, i) => read(item, `${where}[${i}]`))
}

/** A list of host:port. */
export function addressesOf (fields: Fields, path: string, key: string): string[] {
  return listOf(fields, path, key, MAX_ADDRESSES, (item, where) => {
    if (typeof item === 'string' && readAddress(item) !== undefined) return item
    throw new ShapeError(where, 'must be host:port, with IPv6 in []')
  })
}

export function readCandidate (value: unknown, path: string): Candidate {
  const fields = fieldsOf(value, path)
  return {
    installId: installIdOf(fields, path),
    fingerprint: fingerprintIn(fields, path),
    name: textOf(fields, path, 'name', NAME, '1 to 128 characters without control characters'),
    addresses: Object.freeze(addressesOf(fields, path, 'addresses'))
  }
}

export function readMember (value: unknown, path: string): Member {
  const joinedAt = instantOf(fieldsOf(value, path), path, 'joinedAt')
  return Object.freeze({ ...readCandidate(value, path), joinedAt })
}

export function readRemoved (value: unknown, path: string): Removed {
  const fields = fieldsOf(value, path)
  return Object.freeze({
    installId: installIdOf(fields, path),
    fingerprint: fingerprintIn(fields, path),
    at: instantOf(fields, path, 'at')
  })
}

/** Two members with one id or one key, or a member with a removed key, would each be found as the other. */
function checkKeys (members: readonly Member[], removed: readonly Removed[]): void {
  const gone = new Set(removed.map((entry) => entry.fingerprint))
  const ids = new Set<string>()
  const keys = new Set<string>()
  for (const [i, member] of members.entries()) {
    const path = `members[${i}]`
    if (ids.has(member.installId)) throw new ShapeError(`${path}.installId`, 'occurs twice')
    if (keys.has(member.fingerprint)) throw new ShapeError(`${path}.fingerprint`, 'occurs twice')
    if (gone.has(member.fingerprint)) throw new ShapeError(`${path}.fingerprint`, 'is also under removed')
    ids.add(member.installId)
    keys.add(member.fingerprint)
  }
}

/** A frozen copy with the known fields only, in one order. Throws ShapeError naming the first bad field. */
export function readMembership (value: unknown): Membership {
  const fields = fieldsOf(value, '')
  const clusterId = clusterIdOf(fields, '')
  const members = listOf(fields, '', 'members', MAX_MEMBERS, readMember)
  const removed = listOf(fields, '', 'removed', MAX_REMOVED, readRemoved)
  checkKeys(members, removed)
  return Object.freeze({ clusterId, members: Object.freeze(members), removed: Object.freeze(removed) })
}

/** Runs a reader; its ShapeError becomes what `refuse` makes of it. */
export function shaped<T> (read: () => T, refuse: (error: ShapeError) => Error): T {
  try {
    return read()
  } catch (error) {
    throw error instanceof ShapeError ? refuse(error) : error
  }
}

/** invalid_request that names the field. */
export function invalidField (error: ShapeError): SvcError {
  const { path, message } = error
  return kernelError('invalid_request', message, { param: path, issues: [{ path, message }] })
}
