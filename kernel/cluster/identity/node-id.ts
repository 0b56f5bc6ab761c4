import { randomBytes } from 'node:crypto'

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567'

/** RFC 4648 base32, lower case, no padding. */
export function base32 (bytes: Uint8Array): string {
  let bits = 0
  let held = 0
  let out = ''
  for (const byte of bytes) {
    held = (held << 8) | byte
    for (bits += 8; bits >= 5; bits -= 5) out += ALPHABET[(held >>> (bits - 5)) & 31]
  }
  return bits > 0 ? out + ALPHABET[(held << (5 - bits)) & 31] : out
}

/** A new peer id: 26 characters, made at every process start. */
export function newNodeId (): string {
  return base32(randomBytes(16))
}
