import { fingerprintOfRaw, requireAuthority, type Caller, type Identity } from '../../../kernel/cluster.js'
import type { Members } from '../members/file.js'
import type { Maker } from './join-tokens.js'
import type { Member } from '../members/member.js'

/**
 * Returns the record of a caller who may admit members. The caller needs every authority, because other nodes
 * trust the grants that a member signs and the authorities of requests that it forwards. Throws
 * `unauthenticated` and `missing_grant`.
 */
export function admitterOf (caller: Caller, known: Iterable<string>): Maker {
  for (const authority of known) {
    requireAuthority(caller, authority,
      `A member can vouch for every authority, so admitting one needs all of them, including "${authority}"`)
  }
  const { id } = caller
  // The operator also has the authorities of plugins that are added later.
  return id === 'operator' ? { by: id } : { by: id, authorities: [...caller.authorities] }
}

/** Filters a list of authorities to those that a member may vouch for: at most its admitter's. */
export function grantableAuthorities (
  member: Pick<Member, 'admitted'> | undefined, authorities: Iterable<string>
): string[] {
  // A member without a record is the first one or was admitted by the previous release, so it has no limit.
  const most = member?.admitted?.authorities
  return [...authorities].filter((authority) => most?.includes(authority) !== false)
}

/** The members' keys in the form that `createIdentity` needs. */
export function memberKeys (
  members: Pick<Members, 'current' | 'byFingerprint'>
): Pick<Identity, 'vouched' | 'fingerprints'> {
  return {
    vouched: (key, authorities) => {
      const member = members.byFingerprint(fingerprintOfRaw(key))
      return member && grantableAuthorities(member, authorities)
    },
    fingerprints: () => new Map(members.current().members.map((m) => [m.installId, m.fingerprint]))
  }
}
