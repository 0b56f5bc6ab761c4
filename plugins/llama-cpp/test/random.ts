const MASK64 = (1n << 64n) - 1n

/** SplitMix64 (Steele, Lea, Flood 2014; https://prng.di.unimi.it/splitmix64.c): expands a seed to 64 bits. */
export function splitMix64 (seed: bigint): () => bigint {
  let state = seed & MASK64
  return () => {
    state = (state + 0x9e3779b97f4a7c15n) & MASK64
    let z = state
    z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK64
    z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK64
    return z ^ (z >> 31n)
  }
}

const rotate = (x: number, k: number): number => (x << k) | (x >>> (32 - k))

/**
 * xoshiro128** 1.1 (Blackman and Vigna, https://prng.di.unimi.it/xoshiro128starstar.c, public domain): 32-bit
 * numbers from a state of four words, not all 0.
 */
export function xoshiro128 (seed: readonly [number, number, number, number]): () => number {
  let [a, b, c, d] = seed
  return () => {
    const result = Math.imul(rotate(Math.imul(b, 5), 7), 9) >>> 0
    const t = b << 9
    c ^= a
    d ^= b
    b ^= c
    a ^= d
    c ^= t
    d = rotate(d, 11)
    return result
  }
}

/** Random numbers in [0, 1) with 53 bits; a seed gives the same numbers on every machine. */
export function seededRandom (seed: number): () => number {
  const spread = splitMix64(BigInt(Math.trunc(seed)))
  const [x, y] = [spread(), spread()]
  const word = (v: bigint): number => Number(v & 0xffffffffn) | 0
  const next = xoshiro128([word(x), word(x >> 32n), word(y), word(y >> 32n) | 1])
  return () => ((next() >>> 5) * 0x4000000 + (next() >>> 6)) / 0x20000000000000
}
