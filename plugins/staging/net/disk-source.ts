import { openInside } from '../files/index.js'
import type { ChunkSource } from '../transfer/index.js'
import { readPieces } from './pieces.js'
import type { ByteRange } from './range.js'

/** A model on another disk of this node as a source of chunks. */
export function diskSource ({ directory }: { directory: string }): ChunkSource {
  return {
    id: 'disk',
    kind: 'store',
    has: () => true,
    read: async (path, range, signal) => read(directory, path, range, signal)
  }
}

async function * read (
  directory: string, path: string, range: ByteRange, signal: AbortSignal
): AsyncGenerator<Uint8Array> {
  const handle = await openInside(directory, path, 'read')
  try {
    for await (const piece of readPieces(handle, range)) {
      signal.throwIfAborted()
      yield piece
    }
  } finally {
    await handle.close()
  }
}
