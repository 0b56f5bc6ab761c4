/** The peak amplitude, from 0 to 1, in each of `count` equal parts of the samples. */
export function peaksOf (samples: Float32Array, count: number): number[] {
  const slice = samples.length / count
  return Array.from({ length: count }, (_, i) => {
    const first = Math.floor(i * slice)
    const part = samples.subarray(first, Math.max(first + 1, Math.floor((i + 1) * slice)))
    return Math.min(1, part.reduce((peak, one) => Math.max(peak, Math.abs(one)), 0))
  })
}
