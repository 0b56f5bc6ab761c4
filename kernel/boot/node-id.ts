import { randomBytes } from 'node:crypto'
import { base32 } from '../net/encoding.js'

/** Creates a peer id: 26 characters, new at every process start. */
export function newNodeId (): string {
  return base32(randomBytes(16))
}
