import { MAX_ADDRESSES } from '../identity/addresses.js'
import { listOf, matching, orNull, read, record, schemaOf, ShapeError, type Of } from '../wire.js'

export const MAX_MEMBERS = 512
export const MAX_REMOVED = 10_000
/** Maximum number of credential ids recorded per admission: the admitter's chain of credentials. */
export const MAX_ADMITTING_CREDENTIALS = 16

const identifier = matching(/^[A-Za-z0-9-]{1,64}$/, 'up to 64 letters, digits and hyphens')
const instant = matching(
  /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,3})?Z$/, 'a time as 2026-01-31T12:00:00.000Z')
/** Fingerprint of a public key: base64url of 32 bytes, whose last character carries four bits. */
const fingerprint = matching(/^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/, 'a base64url SHA-256 of 43 characters')
const address = schemaOf<string>({
  type: 'string', format: 'host-port', says: 'must be host:port, with IPv6 in []'
})

const shortText = matching(/^.{1,128}$/, 'a text of 1 to 128 characters')

const details = {
  installId: identifier,
  fingerprint,
  name: matching(/^[^\p{Cc}]{1,128}$/u, '1 to 128 characters without control characters'),
  addresses: listOf(address, { maxItems: MAX_ADDRESSES })
}

/**
 * Who admitted a member: the node, the chain of credentials there (the creator of the join token first) and
 * their authorities; absent authorities mean all, as for the operator.
 */
export const admissionSchema = record({
  node: identifier, by: listOf(shortText, { maxItems: MAX_ADMITTING_CREDENTIALS })
}, { authorities: listOf(shortText, { maxItems: 128 }) })

/** A member's own description, before its admission. */
export const applicantSchema = record(details)
export const memberSchema = record({ ...details, joinedAt: instant }, { admitted: admissionSchema })
/** A member in the control document. `nodeId` identifies its latest start; null before the first one. */
export const memberRecordSchema = record({
  ...details, joinedAt: instant, nodeId: orNull(schemaOf<string>({ type: 'string' }))
}, { admitted: admissionSchema })
/** The key of a removed member, which stays refused. */
export const removedSchema = record({ installId: identifier, fingerprint, at: instant })
export const listSchema = record({
  clusterId: identifier,
  members: listOf(memberSchema, { maxItems: MAX_MEMBERS }),
  removed: listOf(removedSchema, { maxItems: MAX_REMOVED })
})
export const invitationFields = {
  clusterId: identifier,
  seeds: listOf(address, { minItems: 1, maxItems: MAX_ADDRESSES, says: 'must have at least one address' }),
  fingerprint
}

export type Admission = Of<typeof admissionSchema>
export type Applicant = Of<typeof applicantSchema>
export type Member = Of<typeof memberSchema>
export type MemberRecord = Of<typeof memberRecordSchema>
export type Removed = Of<typeof removedSchema>
export type MemberList = Of<typeof listSchema>

/** Throws for duplicate ids or keys and for a member with a removed key, because they would be ambiguous. */
function checkKeys ({ members, removed }: MemberList): void {
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

/** A frozen copy with the known fields only, in a fixed order. Throws ShapeError for the first bad field. */
export function readMemberList (value: unknown): MemberList {
  const list = read(listSchema, value)
  checkKeys(list)
  return list
}
