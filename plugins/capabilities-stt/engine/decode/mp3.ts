/** MP3 (mpg123 in WebAssembly): the build of FFmpeg that decodes the other types has no MP3. */
import type { FileHandle } from 'node:fs/promises'
import { MPEGDecoder } from 'mpg123-decoder'
import { readAt, type Sound } from './sound.js'

/** Bytes decoded at once: at most half a minute of sound at the lowest bit rate. */
const PIECE = 16 * 1024

/** A sync word of 11 bits; layer 0 is AAC. */
export const isMp3 = ([first = 0, second = 0]: Buffer): boolean =>
  first === 0xff && second >= 0xe0 && (second & 6) !== 0

export async function * decodeMp3 (file: FileHandle, start: number): AsyncGenerator<Sound> {
  const decoder = new MPEGDecoder()
  try {
    await decoder.ready
    for (let at = start; ; at += PIECE) {
      const bytes = await readAt(file, at, PIECE)
      if (bytes.length === 0) return
      const { channelData: channels, sampleRate: rate, samplesDecoded } = decoder.decode(bytes)
      if (samplesDecoded > 0) yield { channels, rate }
    }
  } finally {
    decoder.free()
  }
}
