import { createParser } from 'eventsource-parser'

/** A part of a stream of server-sent events: a comment, or an event with its data. */
export type ServerEvent =
  | { readonly kind: 'comment', readonly text: string }
  | { readonly kind: 'event', readonly type: string, readonly data: string, readonly id: string | null }

/**
 * Parses server-sent events and comments across chunk boundaries; drops an unfinished last event. Throws an
 * Error for an event of more than `longest` characters. Skips events without data. A field named `also` is an
 * event: the field's name is the type, its value the data.
 */
export async function * serverEvents (
  bytes: AsyncIterable<Uint8Array>, longest?: number, also?: string
): AsyncGenerator<ServerEvent> {
  const parser = new EventParser(longest, also)
  for await (const part of bytes) yield * parser.push(part)
}

/** Push parser for sources that are not async iterables. */
export class EventParser {
  readonly #decoder = new TextDecoder()
  readonly #parser: ReturnType<typeof createParser>
  #found: ServerEvent[] = []

  constructor (longest?: number, also?: string) {
    this.#parser = createParser({
      maxBufferSize: longest,
      onEvent: ({ event: type = 'message', data, id = null }) => {
        this.#found.push({ kind: 'event', type, data, id })
      },
      onComment: (text) => { this.#found.push({ kind: 'comment', text }) },
      onError: ({ type, field, value = '' }) => {
        if (type === 'max-buffer-size-exceeded') {
          throw new Error(`an event of more than ${longest} characters`)
        }
        if (also !== undefined && field === also) {
          this.#found.push({ kind: 'event', type: also, data: value, id: null })
        }
      }
    })
  }

  /** Returns the events that these bytes complete. */
  push (bytes: Uint8Array): ServerEvent[] {
    this.#parser.feed(this.#decoder.decode(bytes, { stream: true }))
    return this.#found.splice(0)
  }
}
