export { closeCodes, closeWord } from './close-codes.js'
export type { CloseWord } from './close-codes.js'
export { defaultLimits } from './limits.js'
export { createLinks } from './links.js'
export { memberOf } from '../../http/member-socket.js'
export type {
  Dial, FrameKind, Hello, LinkEvents, LinkLimits, Links, LinksOptions, MemberRequest, MemberResponse, Peer
} from './types.js'
