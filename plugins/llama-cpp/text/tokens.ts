/**
 * The bytes of all tokens in one array; an id without a token has no bytes. `strip` is the number of leading
 * spaces that the decoder removes from the start of its output.
 */
export interface TokenTable {
  size: number
  bytes: Uint8Array
  /** Token `id` has the bytes from `offsets[id]` to `offsets[id + 1]`. */
  offsets: Uint32Array
  special: ReadonlySet<number>
  /** Added tokens (special or not) by text. */
  added: ReadonlyMap<string, number>
  strip: number
}

/** The bytes of a token; empty for ids outside the table. */
export function bytesOf (table: TokenTable, id: number): Uint8Array {
  if (id < 0 || id >= table.size) return table.bytes.subarray(0, 0)
  return table.bytes.subarray(table.offsets[id], table.offsets[id + 1])
}
