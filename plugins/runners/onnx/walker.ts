/** Reads protobuf messages in a file. Fields that are not asked for are skipped, and never loaded. */

/** Tag and length, or tag and value, at their longest. */
const HEAD_BYTES = 20
const DEPTH = 96
/** Bounds the time a file of tiny fields can take. */
const FIELDS = 8_000_000

/** A file that is read through a small window. What does not lie in it, or is broken, throws. */
export interface FileReader {
  readonly size: number
  readonly position: number
  /** Waits until so many bytes can be read by `u8`; undefined where they can be at once. */
  ready: (bytes: number) => Promise<void> | undefined
  seek: (position: number) => void
  u8: () => number
  bytes: (count: number) => Promise<Buffer>
  text: (count: number) => Promise<string>
  fail: (what: string) => never
}

/** A field of a message. */
export interface Field {
  number: number
  /** 0 varint, 1 eight bytes, 2 bytes, 5 four bytes. */
  wire: number
  /** Of a varint, as unsigned; not exact above 2^53. */
  value: number
  /** Bytes of content, which begin at the reader's position. */
  length: number
}

/** Reads messages with a reader. Content that a visitor leaves is skipped. */
export class ProtoWalker {
  readonly r: FileReader
  #depth = 0
  #fields = 0

  constructor (r: FileReader) { this.r = r }

  /**
   * Calls `visit` for each field of the message of `length` bytes that begins here; the reader stands at the
   * field's content then.
   * @throws the reader's error for anything that does not lie inside the message
   */
  async each (length: number, visit: (field: Field) => Promise<void> | void): Promise<void> {
    const { r } = this
    const end = r.position + length
    if (++this.#depth > DEPTH) r.fail(`messages lie in more than ${DEPTH} messages`)
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

  /** Walks the message in a field. */
  async message (field: Field, visit: (field: Field) => Promise<void> | void): Promise<void> {
    if (field.wire !== 2) this.r.fail(`field ${field.number} should be a message`)
    await this.each(field.length, visit)
  }

  #head (end: number): Field {
    const { r } = this
    if (++this.#fields > FIELDS) r.fail(`it has more than ${FIELDS} fields`)
    const tag = this.#varint()
    const [number, wire] = [Math.floor(tag / 8), tag % 8]
    if (number < 1 || number > 536_870_911) r.fail(`${number} is no field number`)
    const field = { number, wire, value: 0, length: 0 }
    if (wire === 0) field.value = this.#varint()
    else if (wire === 1) field.length = 8
    else if (wire === 2) field.length = this.#varint()
    else if (wire === 5) field.length = 4
    else r.fail(`field ${number} has wire type ${wire}`)
    if (r.position + field.length > end) r.fail(`field ${number} is longer than the message it lies in`)
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
