/** A part of a stream of server-sent events: a comment, or an event with its data. */
export type SsePart =
  | { readonly kind: 'comment', readonly text: string }
  | { readonly kind: 'event', readonly data: string }

/** Reads server-sent events with their comments, wherever they are cut. An unfinished one is left out. */
export async function * sseParts (bytes: AsyncIterable<Uint8Array>): AsyncGenerator<SsePart> {
  let data: string[] = []
  for await (const line of linesOf(bytes)) {
    if (line === '') {
      if (data.length > 0) yield { kind: 'event', data: data.join('\n') }
      data = []
      continue
    }
    const [, field, value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line)!
    if (field === '') yield { kind: 'comment', text: value }
    else if (field === 'data') data.push(value)
  }
}

/** Lines that were ended by CR, LF or both. */
async function * linesOf (bytes: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const part of bytes) {
    rest += decoder.decode(part, { stream: true })
    // The LF that belongs to a CR may be in the next part.
    const held = rest.endsWith('\r') ? '\r' : ''
    const lines = rest.slice(0, rest.length - held.length).split(/\r\n|\r|\n/)
    rest = lines.pop()! + held
    yield * lines
  }
}
