import { Header } from 'tar'

export interface TarFile { name: string, bytes: Uint8Array }

const BLOCK = 512

/** Creates a POSIX (ustar) archive; `seconds` since 1970 for all files. Throws RangeError for a long name. */
export function packTar (files: readonly TarFile[], seconds: number): Buffer {
  const parts = files.flatMap(({ name, bytes }) => {
    const size = bytes.byteLength
    const mtime = new Date(seconds * 1000)
    const header = new Header({ path: name, mode: 0o600, size, mtime, type: 'File' })
    if (header.encode()) throw new RangeError(`"${name}" is too long for a tar header`)
    return [header.block!, bytes, Buffer.alloc((BLOCK - size % BLOCK) % BLOCK)]
  })
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK)])
}
