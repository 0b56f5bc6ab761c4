import { addAbortSignal } from 'node:stream'
import type { VerbContext } from './verb.js'

/** Reads the pipe, but stops after `most` bytes. */
export async function readPipe ({ signal, io: { stdin } }: VerbContext, most: number): Promise<Buffer> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of addAbortSignal(signal, stdin)) {
    const bytes = Buffer.from(part as Uint8Array | string)
    parts.push(bytes)
    size += bytes.length
    if (size > most) break
  }
  return Buffer.concat(parts)
}
