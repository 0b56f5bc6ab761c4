/**
 * Reads Kokoro's style packs: float32 rows of 256 values, one row per phoneme string length. They come as one
 * raw file per voice (`voices/af_heart.bin`) or as a NumPy archive (`voices-v1.0.bin`, a ZIP of `.npy` files
 * named after the voices).
 */
import { inflateRawSync } from 'node:zlib'

/** Values per row: 128 for the decoder and 128 for the prosody. */
export const STYLE_WIDTH = 256
export const STYLE_ROW = STYLE_WIDTH * 4

export const PACK_FILE = /(^|\/)voices\/[^/]+\.bin$/
export const PACK_ARCHIVE = /(^|\/)voices[^/]*\.(bin|npz)$/

/** A voice's entry in a ZIP archive: byte offset, sizes and compression. */
export interface PackEntry { voice: string, at: number, packed: number, size: number, deflated: boolean }

/** Bytes at an archive's end that must contain its directory; enough for 4,096 voices. */
export const ARCHIVE_TAIL = 512 * 1024
/** Limit on the bytes of one pack; real packs have 510 rows and a header. */
const MOST_BYTES = 4096 * STYLE_ROW

const END_OF_LIST = 0x06054b50
const LIST_ENTRY = 0x02014b50
const LOCAL_ENTRY = 0x04034b50

export const isArchive = (head: Uint8Array): boolean =>
  head.length >= 4 && Buffer.from(head.buffer, head.byteOffset, 4).readUInt32LE(0) === LOCAL_ENTRY

/** Lists an archive's voices from its last bytes, `tail`, which begin at offset `from`. @throws RangeError */
export function archiveVoices (tail: Uint8Array, from: number): PackEntry[] {
  const bytes = Buffer.from(tail.buffer, tail.byteOffset, tail.length)
  const end = bytes.lastIndexOf(Buffer.from([0x50, 0x4b, 5, 6]))
  if (end < 0 || end + 22 > bytes.length || bytes.readUInt32LE(end) !== END_OF_LIST) {
    throw new RangeError('it has no directory: it is truncated, or not an archive')
  }
  const count = bytes.readUInt16LE(end + 10)
  let at = bytes.readUInt32LE(end + 16) - from
  const entries: PackEntry[] = []
  for (let i = 0; i < count; i++) {
    if (at < 0 || at + 46 > end || bytes.readUInt32LE(at) !== LIST_ENTRY) {
      throw new RangeError(`entry ${i + 1} of ${count} in its directory is invalid`)
    }
    const [method, packed, size] = [bytes.readUInt16LE(at + 10), bytes.readUInt32LE(at + 20),
      bytes.readUInt32LE(at + 24)]
    const [named, extra, comment] = [28, 30, 32].map((field) => bytes.readUInt16LE(at + field)) as
      [number, number, number]
    const name = bytes.toString('utf8', at + 46, at + 46 + named)
    if (name.endsWith('.npy')) {
      entries.push(entryOf(name, { method, packed, size }, bytes.readUInt32LE(at + 42)))
    }
    at += 46 + named + extra + comment
  }
  return entries
}

function entryOf (
  name: string, { method, packed, size }: { method: number, packed: number, size: number }, at: number
): PackEntry {
  if (method !== 0 && method !== 8) {
    throw new RangeError(`${name} is compressed by method ${method}; only 0 and 8 are supported`)
  }
  if (size > MOST_BYTES || packed > MOST_BYTES) {
    throw new RangeError(`${name} has ${size} bytes, too many for a style pack`)
  }
  return { voice: name.slice(0, -'.npy'.length), at, packed, size, deflated: method === 8 }
}

/** Unpacks the style pack of one voice. @throws RangeError for an invalid entry */
export function archivePack (archive: Uint8Array, { voice, at, packed, deflated }: PackEntry): Float32Array {
  const bytes = Buffer.from(archive.buffer, archive.byteOffset, archive.length)
  if (at + 30 > bytes.length || bytes.readUInt32LE(at) !== LOCAL_ENTRY) {
    throw new RangeError(`${voice} is not at the offset in the directory of the archive`)
  }
  const start = at + 30 + bytes.readUInt16LE(at + 26) + bytes.readUInt16LE(at + 28)
  const entry = bytes.subarray(start, start + packed)
  if (entry.length < packed) throw new RangeError(`${voice} is truncated`)
  return fromNpy(deflated ? inflateRawSync(entry, { maxOutputLength: MOST_BYTES }) : entry, voice)
}

/** Parses a NumPy array of float32 with rows of 256 values. */
function fromNpy (npy: Buffer, voice: string): Float32Array {
  const wide = npy[6] === 1 ? 2 : 4
  if (npy.length < 16 || npy.toString('latin1', 1, 6) !== 'NUMPY') {
    throw new RangeError(`${voice} is not a NumPy array`)
  }
  const header = npy.readUIntLE(8, wide)
  const text = npy.toString('latin1', 8 + wide, 8 + wide + header)
  const width = /'shape': \((?:\d+, )*(\d+),?\)/.exec(text)?.[1]
  if (!text.includes("'<f4'") || !text.includes("'fortran_order': False") || Number(width) !== STYLE_WIDTH) {
    const told = text.trim().slice(0, 120)
    throw new RangeError(`${voice} is not float32 in rows of ${STYLE_WIDTH}: ${told}`)
  }
  return packOf(npy.subarray(8 + wide + header), voice)
}

/** Reads a raw style pack. @throws RangeError for a size that is not a multiple of a row */
export function packOf (bytes: Uint8Array, voice: string): Float32Array {
  if (bytes.length === 0 || bytes.length % STYLE_ROW !== 0) {
    throw new RangeError(`style pack ${voice} has ${bytes.length} bytes, not a multiple of ${STYLE_ROW}`)
  }
  return new Float32Array(Uint8Array.from(bytes).buffer)
}
