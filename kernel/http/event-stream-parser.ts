/** A part of a stream of server-sent events: a comment, or an event with its data. */
export type ServerEvent =
  | { readonly kind: 'comment', readonly text: string }
  | { readonly kind: 'event', readonly type: string, readonly data: string, readonly id: string | null }

/**
 * Parses server-sent events and comments across chunk boundaries; drops an unfinished last event. Throws an
 * Error for an event of more than `longest` characters. Skips events without data, except for those with a
 * field named `also`: the field's name becomes the type, its value the data.
 */
export async function * serverEvents (
  bytes: AsyncIterable<Uint8Array>, longest = Infinity, also?: string
): AsyncGenerator<ServerEvent> {
  const parser = new EventParser(longest, also)
  for await (const part of bytes) for (const event of parser.push(part)) yield event
}

/** Push parser for sources that are not async iterables. */
export class EventParser {
  readonly #longest: number
  readonly #also: string | undefined
  readonly #decoder = new TextDecoder()
  #fields = new Map<string, string>()
  /** Length in characters of the unfinished event and line. */
  #held = 0
  #rest = ''

  constructor (longest = Infinity, also?: string) {
    this.#longest = longest
    this.#also = also
  }

  /** Returns the events that these bytes complete. Lines may end with CR, LF or both. */
  * push (bytes: Uint8Array): Generator<ServerEvent> {
    const text = this.#rest + this.#decoder.decode(bytes, { stream: true })
    // The LF of a CRLF pair may be in the next chunk.
    const held = text.endsWith('\r') ? '\r' : ''
    const lines = text.slice(0, text.length - held.length).split(text.includes('\r') ? /\r\n|\r|\n/ : '\n')
    this.#rest = lines.pop()! + held
    for (const line of lines) {
      this.#held += line.length
      const event = line === '' ? this.#ended() : this.#field(line)
      if (event !== undefined) yield event
    }
    if (this.#held + this.#rest.length > this.#longest) {
      throw new Error(`an event of more than ${this.#longest} characters`)
    }
  }

  #field (line: string): ServerEvent | undefined {
    const colon = line.indexOf(':')
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + (line[colon + 1] === ' ' ? 2 : 1))
    if (field === '') return { kind: 'comment', text: value }
    const before = this.#fields.get(field)
    this.#fields.set(field, field === 'data' && before !== undefined ? `${before}\n${value}` : value)
    return undefined
  }

  #ended (): ServerEvent | undefined {
    const fields = this.#fields
    const also = this.#also
    this.#fields = new Map()
    this.#held = 0
    const other = also === undefined || fields.has('data') ? undefined : fields.get(also)
    const data = other ?? fields.get('data')
    const type = other === undefined ? fields.get('event') ?? 'message' : also!
    return data === undefined ? undefined : { kind: 'event', type, data, id: fields.get('id') ?? null }
  }
}
