/** Events of the Wyoming protocol: a line of JSON, then more JSON, then bytes. */
import { setImmediate as nextTurn } from 'node:timers/promises'

/** Bounds in bytes on what one event may bring. */
const HEADER = 64 * 1024
const BODY = 1024 ** 2
/** Version of the protocol's reference implementation, whose events these are. */
const VERSION = '1.10.2'

export type Data = Readonly<Record<string, unknown>>
export interface WyomingEvent { type: string, data: Data, payload: Buffer }

/** Bytes that are no event. The connection cannot go on. */
export class ProtocolError extends Error { readonly reason = 'protocol_error' }

/** Reads events to the end of the stream. Throws ProtocolError. */
export async function * readEvents (source: AsyncIterable<Buffer>): AsyncGenerator<WyomingEvent> {
  const bytes = new Bytes(source[Symbol.asyncIterator]())
  for (let count = 1, line = await bytes.line(); line !== null; line = await bytes.line(), count++) {
    const header = parse(line)
    const { type } = header
    if (typeof type !== 'string') throw new ProtocolError('An event has no type.')
    const more = await bytes.take(lengthOf(header, 'data_length'))
    const data = { ...fieldOf(header, 'data', {}), ...more.length === 0 ? {} : parse(more.toString()) }
    yield { type, data, payload: await bytes.take(lengthOf(header, 'payload_length')) }
    // Thousands of small events may have arrived together.
    if (count % 64 === 0) await nextTurn()
  }
}

function parse (json: string): Data {
  let value: unknown
  try { value = JSON.parse(json) } catch { /* refused below */ }
  return fieldOf({ event: value ?? '' }, 'event', {})
}

/** The field `key`, which must have the type of `absent`, its default. Throws ProtocolError. */
export function fieldOf<T extends string | number | Data> (data: Data, key: string, absent: T): T {
  const value = data[key] ?? absent
  if (typeof value === typeof absent && !Array.isArray(value)) return value as T
  throw new ProtocolError(`\`${key}\` must be of the JSON type ${typeof absent}.`)
}

export const isWithin = (value: unknown, least: number, most: number): boolean =>
  Number.isInteger(value) && Number(value) >= least && Number(value) <= most

function lengthOf (header: Data, key: string): number {
  const length = fieldOf(header, key, 0)
  if (isWithin(length, 0, BODY)) return length
  throw new ProtocolError(`\`${key}\` must be an integer from 0 to ${BODY}.`)
}

const NOTHING = Buffer.alloc(0)

class Bytes {
  readonly #source: AsyncIterator<Buffer>
  #rest: Buffer = NOTHING

  constructor (source: AsyncIterator<Buffer>) { this.#source = source }

  /** The next bytes, at least one; null at the end. */
  async #next (): Promise<Buffer | null> {
    const rest = this.#rest
    this.#rest = NOTHING
    if (rest.length > 0) return rest
    const { done, value } = await this.#source.next()
    return done === true ? null : value
  }

  /** Null at the end. */
  async line (): Promise<string | null> {
    const parts: Buffer[] = []
    for (let length = 0, piece = await this.#next(); piece !== null; piece = await this.#next()) {
      const end = piece.indexOf('\n')
      parts.push(end < 0 ? piece : piece.subarray(0, end))
      length += parts.at(-1)!.length
      if (length > HEADER) throw new ProtocolError(`A header is longer than ${HEADER} bytes.`)
      if (end < 0) continue
      this.#rest = piece.subarray(end + 1)
      return Buffer.concat(parts).toString()
    }
    return null
  }

  async take (count: number): Promise<Buffer> {
    const out = Buffer.alloc(count)
    for (let at = 0; at < count;) {
      const piece = await this.#next()
      if (piece === null) throw new ProtocolError('The connection ended within an event.')
      const copied = piece.copy(out, at)
      this.#rest = piece.subarray(copied)
      at += copied
    }
    return out
  }
}

export function encodeEvent (type: string, data: object = {}, payload: Uint8Array = NOTHING): Buffer {
  const json = Buffer.from(JSON.stringify(data))
  const header = { type, version: VERSION, data_length: json.length, payload_length: payload.byteLength }
  return Buffer.concat([Buffer.from(`${JSON.stringify(header)}\n`), json, payload])
}
