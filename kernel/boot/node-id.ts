import { randomBytes } from 'node:crypto'
import { base32 } from '../net/encoding.js'

/** Creates a node id of 26 characters; every process start gets a new one. */
export function newNodeId (): string { return base32(randomBytes(16)) }
