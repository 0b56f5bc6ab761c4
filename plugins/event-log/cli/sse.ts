/** One server-sent event. */
export interface ServerEvent { readonly type: string, readonly data: string, readonly id: string | null }

/** Reads server-sent events; comments are left out. `heard` is called whenever anything arrives. */
export async function * serverEvents (
  bytes: AsyncIterable<Uint8Array>, heard: () => void
): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const part of bytes) {
    heard()
    text += decoder.decode(part, { stream: true })
    const blocks = text.split('\n\n')
    text = blocks.pop()!
    for (const block of blocks) {
      const event = readBlock(block)
      if (event !== null) yield event
    }
  }
}

function readBlock (block: string): ServerEvent | null {
  const fields = block.split('\n').map((line) => /^([a-z]+): ?(.*)$/.exec(line)).filter((m) => m !== null)
  const field = (name: string): string | undefined => fields.findLast(([, key]) => key === name)?.[2]
  const data = fields.filter(([, key]) => key === 'data').map(([, , value]) => value).join('\n')
  return data === '' ? null : { type: field('event') ?? 'message', data, id: field('id') ?? null }
}
