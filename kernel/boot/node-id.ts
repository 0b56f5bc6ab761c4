import { randomBytes } from 'node:crypto'
import { base32 } from '../net/encoding.js'

/** A new peer id: 26 characters, made at every process start. */
export function newNodeId (): string {
  return base32(randomBytes(16))
}
