/** Weights of the generated models: pseudo-random, seeded by name, in common exporters' formats. Pure. */

/** A repeatable generator of numbers in [0, 1): mulberry32. */
function uniform (seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = state + 0x6d2b79f5 | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** FNV-1a hash of a string. */
const hashOf = (text: string): number =>
  [...text].reduce((hash, char) => Math.imul(hash ^ (char.codePointAt(0) as number), 0x01000193), 0x811c9dc5)

/** Gaussian weights with mean 0, seeded by name, so that every dtype of a model has the same weights. */
export function randomWeights (name: string, size: number, deviation: number): Float32Array {
  const next = uniform(hashOf(name))
  const values = new Float32Array(size)
  // The sum of three uniform numbers is close enough to a Gaussian, and much cheaper; its variance is 1/4.
  for (let i = 0; i < size; i++) values[i] = (next() + next() + next() - 1.5) * 2 * deviation
  return values
}

const word = new Uint32Array(1)
const real = new Float32Array(word.buffer)

/** Bits of the nearest half-precision float; ties round to even. */
export function halfOf (value: number): number {
  real[0] = value
  const bits = word[0] as number
  const sign = bits >>> 16 & 0x8000
  const exponent = (bits >>> 23 & 0xff) - 112
  if (exponent >= 31) return sign | 0x7c00
  const fraction = exponent > 0
    ? bits >>> 0 & 0x7fffff
    : exponent < -10 ? 0 : (bits & 0x7fffff | 0x800000) >>> 1 - exponent
  const whole = (Math.max(exponent, 0) << 10) + (fraction >>> 13)
  const rest = fraction & 0x1fff
  const up = rest > 0x1000 || (rest === 0x1000 && (whole & 1) === 1) ? 1 : 0
  return sign | whole + up
}

export function halves (values: Float32Array): Uint16Array {
  const bits = new Uint16Array(values.length)
  for (let i = 0; i < values.length; i++) bits[i] = halfOf(values[i] as number)
  return bits
}

/** Eight-bit weights with one scale: `value = q * scale`. */
export interface Bytes { q: Int8Array, scale: number }

/** Quantises to signed bytes, as quantize_dynamic does. */
export function toBytes (values: Float32Array): Bytes {
  const scale = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0) / 127
  return { q: Int8Array.from(values, (value) => Math.round(value / scale)), scale }
}

/** Number of four-bit weights that share a scale. */
export const BLOCK = 32

/**
 * Four-bit weights in blocks along rows of `width`, without zero points, as in MatMulNBits: two values per
 * byte, the first one in its lower half; `value = (q - 8) * scale` of its block.
 */
export function toNibbles (values: Float32Array, width: number): { q: Uint8Array, scales: Float32Array } {
  if (width % BLOCK !== 0) throw new Error(`rows of ${width} are not whole blocks of ${BLOCK}`)
  const scales = new Float32Array(values.length / BLOCK)
  const q = new Uint8Array(values.length / 2)
  for (let block = 0; block < scales.length; block++) {
    const part = values.subarray(block * BLOCK, (block + 1) * BLOCK)
    const furthest = part.reduce((most, value) => Math.abs(value) > Math.abs(most) ? value : most, 0)
    const scale = furthest === 0 ? 1 : furthest / -8
    scales[block] = scale
    part.forEach((value, i) => {
      const nibble = Math.min(15, Math.max(0, Math.round(value / scale) + 8))
      const at = (block * BLOCK + i) >> 1
      q[at] = (q[at] as number) | nibble << (i % 2) * 4
    })
  }
  return { q, scales }
}

/** Transposes a `[rows, columns]` matrix into `[columns, rows]`. */
export function transposed (values: Float32Array, rows: number, columns: number): Float32Array {
  const out = new Float32Array(values.length)
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      out[column * rows + row] = values[row * columns + column] as number
    }
  }
  return out
}
