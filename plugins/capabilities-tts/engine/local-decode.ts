/** Running a graph's local tail piece by piece with overlap. */
import type { Pace } from './pace.js'

/** The tail of one unit: `run(from, to)` answers the samples of frames [from, to). */
export interface TailRun {
  frames: number
  /** Samples per frame. */
  hop: number
  /** Frames to each side that a frame's samples depend on. */
  overlap: number
  sampleRate: number
  run: (from: number, to: number) => Promise<Float32Array>
}

/**
 * Samples of all frames in pieces. A piece is computed with `overlap` frames to each side, clipped at the
 * ends, and only its own samples are kept: they equal those of one whole run up to float rounding.
 */
export async function * decodeLocal (
  tail: TailRun, pace: Pace, signal: AbortSignal
): AsyncGenerator<Float32Array> {
  const { frames, hop, overlap } = tail
  for (let a = 0; a < frames && !signal.aborted;) {
    const length = Math.max(1, Math.round(pace.next() * tail.sampleRate / hop))
    // A last piece shorter than its overlap costs more alone than together with this one.
    const b = frames - a - length <= overlap ? frames : a + length
    const from = Math.max(0, a - overlap)
    const samples = await tail.run(from, Math.min(frames, b + overlap))
    yield samples.subarray((a - from) * hop, (b - from) * hop)
    a = b
  }
}

/** Columns [from, to) of a row-major [rows, width] tensor. */
export function columns (data: Float32Array, rows: number, from: number, to: number): Float32Array {
  const width = data.length / rows
  const out = new Float32Array(rows * (to - from))
  for (let r = 0; r < rows; r++) out.set(data.subarray(r * width + from, r * width + to), r * (to - from))
  return out
}
