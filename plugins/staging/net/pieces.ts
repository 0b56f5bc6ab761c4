import type { FileHandle } from 'node:fs/promises'
import type { ByteRange } from './range.js'

/** Bytes read at once. */
const PIECE_BYTES = 256 * 1024

/** Reads a range in pieces, each in memory of its own: whoever sends them still holds the ones before. */
export async function * readPieces (
  handle: FileHandle, { start, end }: ByteRange
): AsyncGenerator<Uint8Array> {
  for (let at = start; at < end;) {
    const buffer = Buffer.allocUnsafeSlow(Math.min(PIECE_BYTES, end - at))
    const { bytesRead } = await handle.read(buffer, 0, buffer.byteLength, at)
    if (bytesRead === 0) throw new Error(`the file ended at ${at}, ${end - at} bytes early`)
    yield buffer.subarray(0, bytesRead)
    at += bytesRead
  }
}
