import { readFrame, type Mp3Frame } from '../engine/mp3-duration.js'

/** A frame and where it lies. */
export interface FoundFrame extends Mp3Frame { offset: number, mono: boolean }

/**
 * All whole frames from the start of `bytes`. `rest` is the number of bytes behind the last whole frame:
 * 0 says that the bytes are frames and nothing else.
 */
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

/** Seconds of sound in whole frames. */
export function framesSeconds (frames: readonly Mp3Frame[]): number {
  return frames.reduce((sum, frame) => sum + frame.samples / frame.sampleRate, 0)
}
