export { formatAddress, isLoopbackHost, isOutside, readAddress } from './address.js'
export { joinBinding, proofOf, readJoinRequest, readJoinToken } from './join-token.js'
export { openJoinTokens } from './join-tokens.js'
export { identityFile } from './files.js'
export { join } from './join.js'
export { fingerprintOf, openNodeKey } from './key.js'
export { openMembers } from './members.js'
export { dial, peerFingerprint, serverTls } from './tls.js'
export type { JoinOptions } from './join.js'
export type { DialError, DialOptions } from './tls.js'
export type {
  Candidate, Invitation, JoinRequest, JoinTicket, JoinTokens, Member, Members, MembersOptions, Membership,
  NodeKey, Redemption, Removed
} from './types.js'
