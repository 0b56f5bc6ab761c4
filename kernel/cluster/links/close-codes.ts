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
  /** Nothing that waited was taken for a long time. */
  stalled: 4410,
  too_large: 4413,
  /** More waits than may. */
  slow_reader: 4429
} as const

export type CloseWord = keyof typeof closeCodes

const words = new Map<number, string>(Object.entries(closeCodes).map(([word, code]) => [code, word]))

/** A word for a close code, ours or the WebSocket protocol's: `lost` when there was no close frame. */
export function closeWord (code: number): string {
  return words.get(code) ?? (code === 1006 ? 'lost' : 'closed')
}
