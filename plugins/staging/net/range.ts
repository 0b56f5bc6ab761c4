/** Bytes of a file, the end not included. */
export interface ByteRange { start: number, end: number }

/**
 * Reads a Range header (RFC 9110, 14.2) against a file's size: `whole` for none, several or one that makes
 * no sense, which are all to be ignored; `unsatisfiable` for one beyond the file. Pure.
 */
export function readRange (header: string | undefined, size: number): ByteRange | 'whole' | 'unsatisfiable' {
  const found = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.trim() ?? '')
  if (found === null) return 'whole'
  const [, first = '', last = ''] = found
  if (first === '' && last === '') return 'whole'
  if (first === '') {
    const length = Math.min(Number(last), size)
    return length === 0 ? 'unsatisfiable' : { start: size - length, end: size }
  }
  const start = Number(first)
  const end = last === '' ? size : Math.min(Number(last) + 1, size)
  if (last !== '' && Number(last) < start) return 'whole'
  return start >= size ? 'unsatisfiable' : { start, end }
}
