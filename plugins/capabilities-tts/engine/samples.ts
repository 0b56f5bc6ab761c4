/** Bytes and the seconds of sound in them. */
export interface Encoded { bytes: Uint8Array, seconds: number }

/** One encoder serves one answer from its first to its last sample. */
export interface AudioEncoder {
  /** Takes samples in -1…1 (clipped); answers what is complete so far, possibly nothing. */
  encode (samples: Float32Array): Encoded | Promise<Encoded>
  /** The rest; never without bytes. */
  finish (): Encoded | Promise<Encoded>
  /** Gives back what it holds; called once, also when the answer ends early. */
  close? (): void | Promise<void>
}

/** Samples within -1…1; what is not a number becomes silence. */
export const clipped = (samples: Float32Array): Float32Array =>
  samples.map((v) => v >= -1 && v <= 1 ? v : v > 1 ? 1 : v < -1 ? -1 : 0)

/** Samples in -1…1 as 16-bit integers, clipped; what is not a number becomes silence. */
export function toInt16 (samples: Float32Array): Int16Array {
  const out = new Int16Array(samples.length)
  for (let i = 0; i < samples.length; i++) {
    const v = samples[i] as number
    // The typed array turns NaN into 0.
    out[i] = v >= 1 ? 32_767 : v <= -1 ? -32_767 : Math.round(v * 32_767)
  }
  return out
}
