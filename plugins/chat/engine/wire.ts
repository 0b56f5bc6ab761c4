/** Protobuf messages as bytes: walking their fields without copying, and writing a few. */

/** One field: `from` to `to` are its content, `start` is where its tag begins. */
export interface Field {
  number: number
  /** 0 varint, 1 eight bytes, 2 bytes, 5 four bytes. */
  wire: number
  start: number
  from: number
  to: number
  /** Of a varint; exact below 2^53. */
  value: number
}

/** A part of a file. */
export interface Range { from: number, to: number }

const LAST_BYTE = 0x80
const VARINT_BYTES = 10

class Cursor {
  at: number
  private readonly bytes: Uint8Array
  private readonly end: number

  constructor (bytes: Uint8Array, { from, to }: Range) {
    this.bytes = bytes
    this.at = from
    this.end = to
  }

  get more (): boolean { return this.at < this.end }

  varint (): number {
    let value = 0
    for (let i = 0, factor = 1; i < VARINT_BYTES && this.at < this.end; i++, factor *= 128) {
      const byte = this.bytes[this.at++] as number
      value += (byte & 0x7f) * factor
      if (byte < LAST_BYTE) return value
    }
    throw new RangeError(`no protobuf: a number does not end at byte ${this.at}`)
  }

  field (): Field {
    const start = this.at
    const tag = this.varint()
    const wire = tag % 8
    const value = wire === 0 ? this.varint() : 0
    const length = wire === 2 ? this.varint() : wire === 1 ? 8 : wire === 5 ? 4 : 0
    const from = this.at
    this.at += length
    if (this.at > this.end || wire === 3 || wire === 4 || wire > 5) {
      throw new RangeError(`no protobuf: field ${Math.floor(tag / 8)} at byte ${start} does not fit`)
    }
    return { number: Math.floor(tag / 8), wire, start, from, to: this.at, value }
  }
}

/** The fields of a message, in their order. @throws RangeError for bytes that are no message */
export function * fieldsOf (bytes: Uint8Array, range: Range): Generator<Field, void> {
  const cursor = new Cursor(bytes, range)
  while (cursor.more) yield cursor.field()
}

/** The content of a field as text. */
export const textOf = (bytes: Uint8Array, { from, to }: Range): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from).toString('utf8')

function varintBytes (value: number): number[] {
  const bytes: number[] = []
  for (; value >= 128; value = Math.floor(value / 128)) bytes.push(value % 128 + LAST_BYTE)
  return [...bytes, value]
}

/** A field with a whole number from 0 up. */
export const varintField = (number: number, value: number): Buffer =>
  Buffer.from([...varintBytes(number * 8), ...varintBytes(value)])

/** A field with bytes, a text or a message. */
export function bytesField (number: number, content: Uint8Array | string): Buffer {
  const body = typeof content === 'string' ? Buffer.from(content) : content
  return Buffer.concat([headOf(number, body.length), body])
}

/** Tag and length of a field with that many bytes. */
export const headOf = (number: number, length: number): Buffer =>
  Buffer.from([...varintBytes(number * 8 + 2), ...varintBytes(length)])
