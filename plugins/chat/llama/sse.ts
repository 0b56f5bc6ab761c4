/** Server-sent events, as far as llama.cpp's server uses them. Pure. */

/** Letters of one event; an event holds some tokens of text at most. */
const MOST_CHARS = 4 * 2 ** 20

/** An event: its field (`data`, or `error` from older servers) and its text. */
export interface SseEvent { field: 'data' | 'error', text: string }

/** Takes a stream apart into events. The result does not depend on how the stream was cut. */
export class SseReader {
  private readonly decoder = new TextDecoder()
  private rest = ''
  private field: SseEvent['field'] = 'data'
  private lines: string[] = []
  private chars = 0

  /** @throws RangeError for an event that has no end within 4 Mi letters */
  push (bytes: Uint8Array): SseEvent[] {
    const text = this.rest + this.decoder.decode(bytes, { stream: true })
    const lines = text.split('\n')
    this.rest = lines.pop() as string
    if (this.chars + this.rest.length > MOST_CHARS) {
      throw new RangeError(`an event has more than ${MOST_CHARS} letters`)
    }
    return lines.flatMap(line => this.line(line.endsWith('\r') ? line.slice(0, -1) : line))
  }

  private line (line: string): SseEvent[] {
    if (line === '') return this.ended()
    const colon = line.indexOf(':')
    const name = colon < 0 ? line : line.slice(0, colon)
    // A line that begins with a colon is a comment; other fields say nothing here.
    if (name !== 'data' && name !== 'error') return []
    const value = colon < 0 ? '' : line.slice(colon + 1)
    this.field = name
    this.lines.push(value.startsWith(' ') ? value.slice(1) : value)
    this.chars += value.length
    return []
  }

  private ended (): SseEvent[] {
    if (this.lines.length === 0) return []
    const event: SseEvent = { field: this.field, text: this.lines.join('\n') }
    this.lines = []
    this.chars = 0
    return [event]
  }
}
