import { readFrame, type Mp3Frame } from './mp3-frames.js'

export interface FoundFrame extends Mp3Frame { offset: number, mono: boolean }

/** All complete frames from the start of `bytes`, and the number of bytes after them. */
export function walkFrames (bytes: Uint8Array): { frames: FoundFrame[], rest: number } {
  const frames: FoundFrame[] = []
  for (let offset = 0; ;) {
    const frame = readFrame(bytes, offset)
    const rest = bytes.length - offset
    if (frame === undefined || frame.size > rest) return { frames, rest }
    frames.push({ ...frame, offset, mono: bytes[offset + 3]! >> 6 === 3 })
    offset += frame.size
  }
}

export function framesSeconds (frames: readonly Mp3Frame[]): number {
  return frames.reduce((sum, frame) => sum + frame.samples / frame.sampleRate, 0)
}
