import { base32 } from '../node-id.js'
import type { NodeId, SessionId } from './types.js'

const TERM_BYTES = 6
const BOOT_BYTES = 4
const RANDOM_BYTES = 8

/**
 * base32 of the term (6 bytes, big endian), the master's id, its boot count (4 bytes) and 64 random bits.
 * Unique even when a disk lost the boot count.
 * @param random 0 (inclusive) to 1 (exclusive)
 */
export function newSessionId (term: number, master: NodeId, boot: number, random: () => number): SessionId {
  const name = new TextEncoder().encode(master)
  const bytes = [...bigEndian(term, TERM_BYTES), ...name, ...bigEndian(boot, BOOT_BYTES)]
  for (let i = 0; i < RANDOM_BYTES; i++) bytes.push(Math.floor(random() * 256))
  return base32(Uint8Array.from(bytes))
}

function bigEndian (value: number, size: number): number[] {
  return Array.from({ length: size }, (_, i) => Math.floor(value / 256 ** (size - 1 - i)) % 256)
}
