/**
 * The bytes of every token, in one flat array; an id without a token has none. `strip`: how many
 * leading spaces the decoder removes from a whole text.
 */
export interface TokenTable {
  size: number
  bytes: Uint8Array
  /** `offsets[id]` to `offsets[id + 1]` are the bytes of the token. */
  offsets: Uint32Array
  special: ReadonlySet<number>
  /** Text of the added tokens (special or not) to their id. */
  added: ReadonlyMap<string, number>
  strip: number
}

/** The bytes of one token; none for ids outside the table. */
export function bytesOf (table: TokenTable, id: number): Uint8Array {
  if (id < 0 || id >= table.size) return table.bytes.subarray(0, 0)
  return table.bytes.subarray(table.offsets[id], table.offsets[id + 1])
}
