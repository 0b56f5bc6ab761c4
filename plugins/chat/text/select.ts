const BUCKETS = 1024
/** Tokens this many (scaled) nats under the best have less than 1e-17 of its probability. */
const FAR = 40

/** What remains to be drawn from. */
export interface TruncationRule { temperature: number, topK: number, topP: number, minP: number }

/**
 * The tokens that top_k, top_p and min_p leave, in the order of transformers' processors. Works on one
 * row of logits without sorting the vocabulary: counts and masses in buckets by distance from the best say
 * which tokens are in for certain, and only the bucket at the border is sorted. Buffers are kept between
 * calls; one instance may serve many sequences, one after the other.
 */
export class Truncation {
  private ids = new Int32Array()
  private bucket = new Uint16Array()
  private readonly counts = new Uint32Array(BUCKETS)
  private readonly masses = new Float64Array(BUCKETS)

  /**
   * Ids that remain, most of them in rising order. `best`: the greatest logit. The view is valid until the
   * next call.
   */
  keep (logits: Float32Array, best: number, rule: TruncationRule): Int32Array {
    if (logits.length > this.ids.length) {
      this.ids = new Int32Array(logits.length)
      this.bucket = new Uint16Array(logits.length)
    }
    let n = this.near(logits, best - rule.temperature * FAR)
    if (rule.topK > 0 && rule.topK < n) {
      this.fill(logits, best, n, 0)
      n = this.greatest(logits, n, this.counts, rule.topK, () => 1)
    }
    if (rule.topP < 1) {
      const all = this.fill(logits, best, n, rule.temperature)
      n = this.greatest(logits, n, this.masses, rule.topP * all,
        (logit) => Math.exp((logit - best) / rule.temperature))
    }
    if (rule.minP > 0) n = this.above(logits, n, best + rule.temperature * Math.log(rule.minP))
    return this.ids.subarray(0, n)
  }

  private near (logits: Float32Array, floor: number): number {
    const ids = this.ids
    let n = 0
    for (let i = 0; i < logits.length; i++) if ((logits[i] as number) >= floor) ids[n++] = i
    return n
  }

  private above (logits: Float32Array, n: number, floor: number): number {
    const ids = this.ids
    let kept = 0
    for (let i = 0; i < n; i++) {
      const id = ids[i] as number
      // Equal to the floor is in; the best stays whatever rounding does.
      if ((logits[id] as number) >= floor - 1e-6) ids[kept++] = id
    }
    return kept
  }

  /**
   * Keeps the fewest of the first n candidates, at least one, whose amounts come to `wanted`: the greatest
   * ones. `amounts` has those of whole buckets, `amountOf` that of a candidate.
   */
  private greatest (
    logits: Float32Array, n: number, amounts: Uint32Array | Float64Array, wanted: number,
    amountOf: (logit: number) => number
  ): number {
    let border = 0
    let sum = 0
    while (border < BUCKETS - 1 && sum + (amounts[border] as number) < wanted) {
      sum += amounts[border++] as number
    }
    const [sure, open] = this.split(n, border)
    let kept = sure
    for (const id of byLogit(open, logits)) {
      if (kept > 0 && sum >= wanted) break
      this.ids[kept++] = id
      sum += amountOf(logits[id] as number)
    }
    return kept
  }

  /**
   * Fills the buckets with the first n candidates; returns their (unnormalised) probability, 0 at
   * temperature 0.
   */
  private fill (logits: Float32Array, best: number, n: number, temperature: number): number {
    const { ids, bucket, counts, masses } = this
    counts.fill(0)
    masses.fill(0)
    let least = best
    for (let i = 0; i < n; i++) {
      const x = logits[ids[i] as number] as number
      if (x < least) least = x
    }
    const scale = least < best ? (BUCKETS - 1) / (best - least) : 0
    let total = 0
    for (let i = 0; i < n; i++) {
      const below = best - (logits[ids[i] as number] as number)
      const b = (below * scale) | 0
      bucket[i] = b
      counts[b] = (counts[b] as number) + 1
      if (temperature === 0) continue
      const p = Math.exp(-below / temperature)
      masses[b] = (masses[b] as number) + p
      total += p
    }
    return total
  }

  /**
   * Moves candidates of buckets before the border to the front; returns their number and the ids in the
   * border bucket.
   */
  private split (n: number, border: number): [number, number[]] {
    const { ids, bucket } = this
    const open: number[] = []
    let sure = 0
    for (let i = 0; i < n; i++) {
      const id = ids[i] as number
      const b = bucket[i] as number
      if (b === border) open.push(id)
      else if (b < border) ids[sure++] = id
    }
    return [sure, open]
  }
}

/** Greatest logit first, of equals the lowest id. */
function byLogit (ids: number[], logits: Float32Array): number[] {
  return ids.sort((a, b) => (logits[b] as number) - (logits[a] as number) || a - b)
}
