/** Why a link is closed: codes of the WebSocket close frame (RFC 6455 7.4.2 leaves 4000 to 4999 to us). */
export const closeCodes = {
  /** Normal: the node stops. */
  stopping: 1001,
  /** The bytes are no frame: cut short, too long, nested too deep, unknown value types. */
  bad_frame: 4400,
  /** Links speak binary only. */
  text_frame: 4401,
  unknown_kind: 4402,
  /** The key is no member's any more. */
  not_member: 4403,
  other_cluster: 4404,
  /** The hello names another node than the key does. */
  wrong_identity: 4405,
  /** A frame of a later version of this protocol. */
  other_version: 4406,
  /** A frame before the hello, a second hello, or a hello with wrong fields. */
  bad_hello: 4407,
  no_hello: 4408,
  /** A better link to the same member is up. */
  duplicate: 4409,
  /** Nothing came from the other end while three pings were sent. */
  stalled: 4410,
  /** A frame that can be read and makes no sense to the cluster. */
  off_protocol: 4411,
  /** It broke the protocol, and its back-off is not over. */
  too_soon: 4412,
  too_large: 4413,
  /** More waits than may. */
  slow_reader: 4429,
  /** The other end sends documents and channels beyond its credit. */
  no_credit: 4430
} as const

export type CloseWord = keyof typeof closeCodes

/** Words for which the other end broke the protocol. */
export const VIOLATIONS: ReadonlySet<string> = new Set<CloseWord>([
  'bad_frame', 'text_frame', 'unknown_kind', 'wrong_identity', 'bad_hello', 'off_protocol', 'too_large',
  'no_credit'
])

const words = new Map<number, string>(Object.entries(closeCodes).map(([word, code]) => [code, word]))

/** A word for a close code, ours or the WebSocket protocol's: `lost` when there was no close frame. */
export function closeWord (code: number): string {
  return words.get(code) ?? (code === 1006 ? 'lost' : 'closed')
}
