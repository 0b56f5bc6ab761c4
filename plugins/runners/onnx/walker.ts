/** Reads protobuf messages from a file. Unwanted fields are skipped without loading them. */

const HEAD_BYTES = 20
const DEPTH = 96
/** Limit on the fields read from a file, which bounds the time for a file of tiny fields. */
const FIELDS = 8_000_000

/** A file read through a small window. Throws for broken content and for reads outside the window. */
export interface FileReader {
  readonly size: number
  readonly position: number
  /** Waits until `u8` can read this many bytes; returns undefined if it already can. */
  ready: (bytes: number) => Promise<void> | undefined
  seek: (position: number) => void
  u8: () => number
  bytes: (count: number) => Promise<Buffer>
  text: (count: number) => Promise<string>
  fail: (what: string) => never
}

export interface Field {
  number: number
  /** Wire type: 0 varint, 1 64-bit, 2 length-delimited, 5 32-bit. */
  wire: number
  /** Unsigned value of a varint; not exact above 2^53. */
  value: number
  /** Length of the content in bytes; the content starts at the reader's position. */
  length: number
}

/** Walks messages with a reader. Content that a visitor does not read is skipped. */
export class ProtoWalker {
  readonly r: FileReader
  #depth = 0
  #fields = 0

  constructor (r: FileReader) { this.r = r }

  /**
   * Calls `visit` for each field of the message of `length` bytes at the reader's position, with the reader
   * moved to the field's content.
   * @throws the reader's error for content outside the message
   */
  async each (length: number, visit: (field: Field) => Promise<void> | void): Promise<void> {
    const { r } = this
    const end = r.position + length
    if (++this.#depth > DEPTH) r.fail(`messages are nested deeper than ${DEPTH}`)
    while (r.position < end) {
      const wait = r.ready(HEAD_BYTES)
      if (wait !== undefined) await wait
      const field = this.#head(end)
      const next = r.position + field.length
      const done = visit(field)
      if (done !== undefined) await done
      r.seek(next)
    }
    this.#depth--
  }

  /** Content of a field as text. @throws the reader's error above `limit` bytes */
  async text (field: Field, limit = 4096): Promise<string> {
    if (field.wire !== 2) this.r.fail(`field ${field.number} should be text`)
    if (field.length > limit) this.r.fail(`a text of ${field.length} bytes is longer than ${limit}`)
    return await this.r.text(field.length)
  }

  async message (field: Field, visit: (field: Field) => Promise<void> | void): Promise<void> {
    if (field.wire !== 2) this.r.fail(`field ${field.number} should be a message`)
    await this.each(field.length, visit)
  }

  #head (end: number): Field {
    const { r } = this
    if (++this.#fields > FIELDS) r.fail(`it has more than ${FIELDS} fields`)
    const tag = this.#varint()
    const [number, wire] = [Math.floor(tag / 8), tag % 8]
    if (number < 1 || number > 536_870_911) r.fail(`${number} is not a valid field number`)
    const field = { number, wire, value: 0, length: 0 }
    if (wire === 0) field.value = this.#varint()
    else if (wire === 1) field.length = 8
    else if (wire === 2) field.length = this.#varint()
    else if (wire === 5) field.length = 4
    else r.fail(`field ${number} has wire type ${wire}`)
    if (r.position + field.length > end) r.fail(`field ${number} is longer than its message`)
    return field
  }

  #varint (): number {
    let value = 0
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = this.r.u8()
      value += (byte & 127) * 2 ** shift
      if (byte < 128) return value
    }
    return this.r.fail('a number has more than ten bytes')
  }
}
