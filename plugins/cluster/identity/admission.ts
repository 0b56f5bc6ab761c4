import { fingerprintOfRaw, requireAuthority } from '../../../kernel/cluster.js'
import type { Caller, Identity } from '../../../kernel/cluster.js'
import type { Members } from '../members/file.js'
import type { Maker } from './join-tokens.js'
import type { Member } from '../members/member.js'

/**
 * The admitter for a caller. It needs every authority that exists: a member signs grants and passes on
 * requests, whose authorities other nodes believe. Throws `unauthenticated` and `missing_grant`.
 */
export function admitterOf (caller: Caller, known: Iterable<string>): Maker {
  for (const authority of known) {
    requireAuthority(caller, authority,
      `A member can vouch for every authority, so admitting one needs all, "${authority}" too`)
  }
  const { id } = caller
  // The operator's authorities are those that a plugin brings later, too.
  return id === 'operator' ? { by: id } : { by: id, authorities: [...caller.authorities] }
}

/** The authorities that count when a member vouches for these: those of whoever admitted it. */
export function grantableAuthorities (
  member: Pick<Member, 'admitted'> | undefined, authorities: Iterable<string>
): string[] {
  // Without a record it is the first member, or one that the previous release let in: as the operator's.
  const most = member?.admitted?.authorities
  return [...authorities].filter((authority) => most?.includes(authority) !== false)
}

/** The keys of the members, as `createIdentity` asks for them. */
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
