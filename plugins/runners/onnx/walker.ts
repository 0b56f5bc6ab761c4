/** Reads protobuf messages from a file. Unwanted fields are skipped without loading them. */
import type { HeaderReader } from '../cards/reader.js'

const HEAD_BYTES = 20
const DEPTH = 96
/** Limit on the fields read from a file, which bounds the time for a file of tiny fields. */
const FIELDS = 8_000_000

export interface Field {
  number: number
  /** Wire type: 0 varint, 1 64-bit, 2 length-delimited, 5 32-bit. */
  wire: number
  /** Unsigned value of a varint; not exact above 2^53. */
  value: number
  /** Length of the content in bytes; the content starts at the reader's position. */
  length: number
}

/** By field number, what to do with the content of a field. Content that is not read is skipped. */
type Readers = Readonly<Record<number, (field: Field) => unknown>>
type Results<R> = { [N in keyof R]?: R[N] extends (field: Field) => infer T ? Awaited<T> : never }

export class ProtoWalker {
  readonly r: HeaderReader
  #depth = 0
  #fields = 0

  constructor (r: HeaderReader) { this.r = r }

  /**
   * Reads the message whose content is at the reader's position; each function is called with the reader at
   * the content of its field. Returns the results by field number, of a repeated field the last one.
   * @throws the reader's error for content outside the message
   */
  async read<const R extends Readers> (
    { wire, number, length }: Pick<Field, 'wire' | 'number' | 'length'>, readers: R
  ): Promise<Results<R>> {
    const { r } = this
    if (wire !== 2) r.fail(`field ${number} should be a message`)
    const end = r.position + length
    const results: Record<number, unknown> = {}
    if (++this.#depth > DEPTH) r.fail(`messages are nested deeper than ${DEPTH}`)
    while (r.position < end) {
      const wait = r.ready(HEAD_BYTES)
      if (wait !== undefined) await wait
      const field = this.#head(end)
      const next = r.position + field.length
      const reader = readers[field.number]
      const result = reader?.(field)
      if (reader !== undefined) results[field.number] = result instanceof Promise ? await result : result
      r.seek(next)
    }
    this.#depth--
    return results as Results<R>
  }

  /** Content of a field as text. @throws the reader's error above `limit` bytes */
  async text (field: Field, limit = 4096): Promise<string> {
    if (field.wire !== 2) this.r.fail(`field ${field.number} should be text`)
    if (field.length > limit) this.r.fail(`a text of ${field.length} bytes is longer than ${limit}`)
    return await this.r.text(field.length)
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
