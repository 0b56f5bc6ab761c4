/** A file of an archive. */
export interface TarFile { name: string, bytes: Uint8Array }

const BLOCK = 512
/** Longest name that fits into a header without an extension. */
const NAME_BYTES = 100

/**
 * A POSIX (ustar) archive. `seconds` is the time of all files, since 1970. Throws RangeError for a name that
 * does not fit.
 */
export function packTar (files: readonly TarFile[], seconds: number): Buffer {
  const parts = files.flatMap(({ name, bytes }) => [
    header(name, bytes.byteLength, seconds), bytes, Buffer.alloc((BLOCK - bytes.byteLength % BLOCK) % BLOCK)
  ])
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK)])
}

function header (name: string, size: number, seconds: number): Buffer {
  if (Buffer.byteLength(name) > NAME_BYTES) {
    throw new RangeError(`"${name}" is longer than the ${NAME_BYTES} bytes a tar header takes`)
  }
  const block = Buffer.alloc(BLOCK)
  const octal = (value: number, at: number, length: number): void => {
    block.write(`${Math.floor(value).toString(8).padStart(length - 1, '0')}\0`, at, 'latin1')
  }
  block.write(name, 0)
  octal(0o600, 100, 8)
  octal(0, 108, 8)
  octal(0, 116, 8)
  octal(size, 124, 12)
  octal(seconds, 136, 12)
  // The sum is taken with blanks in its own place.
  block.write(' '.repeat(8), 148, 'latin1')
  block.write('0', 156, 'latin1')
  block.write('ustar\x0000', 257, 'latin1')
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return block
}

/** The files of an archive made by `packTar`. Throws RangeError for bytes that are no such archive. */
export function unpackTar (bytes: Buffer): TarFile[] {
  const files: TarFile[] = []
  let at = 0
  while (bytes[at] !== 0) {
    const text = (from: number, length: number): string => {
      const field = bytes.toString('latin1', at + from, at + from + length)
      return field.split('\0')[0]!.trim()
    }
    const size = Number.parseInt(text(124, 12), 8)
    const end = at + BLOCK + size
    // An empty block ends it.
    if (text(257, 6) !== 'ustar' || !(size >= 0) || end >= bytes.length) {
      throw new RangeError(`no tar archive: byte ${at} begins no file`)
    }
    files.push({ name: text(0, NAME_BYTES), bytes: bytes.subarray(at + BLOCK, end) })
    at = end + (BLOCK - size % BLOCK) % BLOCK
  }
  return files
}
