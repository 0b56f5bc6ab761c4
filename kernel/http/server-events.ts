/** A part of a stream of server-sent events: a comment, or an event with its data. */
export type ServerEvent =
  | { readonly kind: 'comment', readonly text: string }
  | { readonly kind: 'event', readonly type: string, readonly data: string, readonly id: string | null }

/**
 * Reads server-sent events with their comments, wherever they are cut. An unfinished one is left out. Throws
 * an Error for one of more than `longest` characters. An event without data counts where it has the field
 * `also`, whose name is its type then.
 */
export async function * serverEvents (
  bytes: AsyncIterable<Uint8Array>, longest = Infinity, also?: string
): AsyncGenerator<ServerEvent> {
  let fields = new Map<string, string>()
  let held = 0
  const check = (unfinished: number): void => {
    if (held + unfinished > longest) throw new Error(`an event of over ${longest} characters`)
  }
  for await (const line of linesOf(bytes, check)) {
    held += line.length
    if (line === '') {
      const other = also === undefined || fields.has('data') ? undefined : fields.get(also)
      const type = other === undefined ? fields.get('event') ?? 'message' : also!
      const data = other ?? fields.get('data')
      if (data !== undefined) yield { kind: 'event', type, data, id: fields.get('id') ?? null }
      fields = new Map()
      held = 0
      continue
    }
    const [, field, value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line)!
    const before = fields.get(field!)
    if (field === '') yield { kind: 'comment', text: value }
    else fields.set(field!, field === 'data' && before !== undefined ? `${before}\n${value}` : value)
  }
}

/** Lines that were ended by CR, LF or both; `check` is told how long the unfinished one is. */
async function * linesOf (
  bytes: AsyncIterable<Uint8Array>, check: (unfinished: number) => void
): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const part of bytes) {
    rest += decoder.decode(part, { stream: true })
    // The LF that belongs to a CR may be in the next part.
    const held = rest.endsWith('\r') ? '\r' : ''
    const lines = rest.slice(0, rest.length - held.length).split(/\r\n|\r|\n/)
    rest = lines.pop()! + held
    yield * lines
    check(rest.length)
  }
}
