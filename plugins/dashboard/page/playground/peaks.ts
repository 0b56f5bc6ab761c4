/** The peak amplitude, from 0 to 1, in each of `count` equal parts of the samples. */
export function peaksOf (samples: Float32Array, count: number): number[] {
  const slice = samples.length / count
  return Array.from({ length: count }, (_, i) => {
    const last = Math.max(Math.floor(i * slice) + 1, Math.floor((i + 1) * slice))
    let peak = 0
    for (let at = Math.floor(i * slice); at < last && at < samples.length; at++) {
      peak = Math.max(peak, Math.abs(samples[at]!))
    }
    return Math.min(1, peak)
  })
}
