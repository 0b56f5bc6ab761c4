import { createHash } from 'node:crypto'
import type { Hash } from 'node:crypto'
import type { Chunk } from '../files/index.js'

/** A chunk that is begun and not complete; goes from one source to the next at the offset reached. */
export interface Work {
  readonly number: number
  readonly chunk: Chunk
  readonly size: number
  /** Of the first `done` bytes. */
  readonly hash: Hash
  /** Bytes on disk. */
  done: number
  /** The sources that gave bytes of it. */
  readonly givers: Set<string>
  /** Its first bytes are from an earlier run: when its hash is wrong, no source is to blame. */
  readonly kept: boolean
}

/** A chunk of which nothing is here yet, or of which the `kept` hash covers the first `done` bytes. */
export function beginWork (number: number, chunk: Chunk, kept?: { hash: Hash, done: number }): Work {
  return {
    number,
    chunk,
    size: chunk.end - chunk.start,
    hash: kept?.hash ?? createHash('sha256'),
    done: kept?.done ?? 0,
    givers: new Set(),
    kept: kept !== undefined
  }
}
