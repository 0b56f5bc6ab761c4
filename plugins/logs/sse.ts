import { EVENT_CHARS } from './limits.js'

/** A server-sent event; a comment is one of type `comment` without data. */
export interface ServerEvent { readonly type: string, readonly data: string }

/** Reads server-sent events. Throws an Error for one that is too long to be held. */
export async function * serverEvents (bytes: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const part of bytes) {
    text += decoder.decode(part, { stream: true })
    const blocks = text.split('\n\n')
    text = blocks.pop()!
    if (text.length > EVENT_CHARS) throw new Error(`an event of over ${EVENT_CHARS} characters`)
    for (const block of blocks) yield readBlock(block)
  }
}

function readBlock (block: string): ServerEvent {
  const fields = block.split('\n').map((line) => /^([a-z]+): ?(.*)$/.exec(line)).filter((m) => m !== null)
  const type = fields.findLast(([, key]) => key === 'event')?.[2]
  const data = fields.filter(([, key]) => key === 'data').map(([, , value]) => value)
  if (data.length === 0) return { type: 'comment', data: '' }
  return { type: type ?? 'message', data: data.join('\n') }
}
