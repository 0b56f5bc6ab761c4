/** The text of a short answer; empty when it has more than `most` bytes. Throws what the body throws. */
export async function shortText (body: AsyncIterable<Uint8Array>, most: number): Promise<string> {
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of body) {
    size += part.byteLength
    if (size > most) return ''
    parts.push(part)
  }
  return Buffer.concat(parts).toString()
}
