import { Header } from 'tar'

/** A file of an archive. */
export interface TarFile { name: string, bytes: Uint8Array }

const BLOCK = 512

/** A tar archive; `seconds` is the time of all files, since 1970. Throws RangeError for a long name. */
export function packTar (files: readonly TarFile[], seconds: number): Buffer {
  const parts = files.flatMap(({ name, bytes }) => {
    const size = bytes.byteLength
    const block = Buffer.alloc(BLOCK)
    const mtime = new Date(seconds * 1000)
    const header = new Header({ path: name, mode: 0o600, size, mtime, type: 'File' })
    if (header.encode(block)) throw new RangeError(`"${name}" is too long for a tar header`)
    return [block, bytes, Buffer.alloc((BLOCK - size % BLOCK) % BLOCK)]
  })
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK)])
}

/** The files of an archive made by `packTar`. Throws RangeError for bytes that are no such archive. */
export function unpackTar (bytes: Buffer): TarFile[] {
  const files: TarFile[] = []
  let at = 0
  while (bytes[at] !== 0) {
    const { path, size = -1, cksumValid } = bytes.length < at + BLOCK ? new Header() : new Header(bytes, at)
    const end = at + BLOCK + size
    // An empty block ends the archive.
    if (!cksumValid || path === undefined || size < 0 || end >= bytes.length) {
      throw new RangeError(`no tar archive: byte ${at} begins no file`)
    }
    files.push({ name: path, bytes: bytes.subarray(at + BLOCK, end) })
    at = end + (BLOCK - size % BLOCK) % BLOCK
  }
  return files
}
