/** Encoded bytes, and their duration. */
export interface Encoded { bytes: Uint8Array, seconds: number }

/** An encoder for one answer. */
export interface AudioEncoder {
  /** Takes samples in -1…1 (clipped); returns the complete bytes, possibly none. */
  encode (samples: Float32Array): Encoded | Promise<Encoded>
  /** The remaining bytes; never empty. */
  finish (): Encoded | Promise<Encoded>
  /** Frees resources; called once, even if the answer ends early. */
  close? (): void | Promise<void>
}

/** Clips to -1…1; NaN becomes 0. */
export const clipped = (samples: Float32Array): Float32Array =>
  samples.map((v) => v >= -1 && v <= 1 ? v : v > 1 ? 1 : v < -1 ? -1 : 0)

/** Converts to 16-bit integers, clipped; NaN becomes 0. */
export function toInt16 (samples: Float32Array): Int16Array {
  const out = new Int16Array(samples.length)
  for (let i = 0; i < samples.length; i++) {
    const v = samples[i] as number
    // The typed array converts NaN to 0.
    out[i] = v >= 1 ? 32_767 : v <= -1 ? -32_767 : Math.round(v * 32_767)
  }
  return out
}

export function joined (a: Float32Array, b: Float32Array): Float32Array {
  if (a.length === 0) return b
  const all = new Float32Array(a.length + b.length)
  all.set(a)
  all.set(b, a.length)
  return all
}
