// An n-gram model over pieces with modified Kneser-Ney smoothing (Chen and Goodman 1999), in back-off form,
// then thinned: an n-gram whose removal changes the likelihood of the training text least goes first (Seymore
// and Rosenfeld 1996, "Scalable backoff language models").

/** Trie of n-grams: node 0 is the empty history. Children are found through one map per level of the trie. */
export class Ngrams {
  constructor (vocabulary, order) {
    this.vocabulary = vocabulary
    this.order = order
    this.index = Array.from({ length: order + 1 }, () => new Map())
    this.parent = [0]
    this.symbol = [0]
    this.depth = [0]
    this.count = [0]
    this.suffix = [0]
  }

  child (node, symbol) {
    return this.index[this.depth[node] + 1]?.get(node * this.vocabulary + symbol)
  }

  grow (node, symbol) {
    const key = node * this.vocabulary + symbol
    const level = this.index[this.depth[node] + 1]
    let id = level.get(key)
    if (id === undefined) {
      id = this.parent.length
      level.set(key, id)
      this.parent.push(node)
      this.symbol.push(symbol)
      this.depth.push(this.depth[node] + 1)
      this.count.push(0)
      this.suffix.push(0)
    }
    return id
  }

  /** counts all n-grams of one sequence, which starts with the begin mark and ends with the end mark */
  add (sequence) {
    for (let start = 0; start < sequence.length; start++) {
      let node = 0
      for (let i = start; i < Math.min(sequence.length, start + this.order); i++) {
        node = this.grow(node, sequence[i])
        this.count[node]++
      }
    }
  }
}

/** node ids sorted by n-gram length, shortest first */
function byDepth (model) {
  const levels = Array.from({ length: model.order + 1 }, () => [])
  for (let id = 0; id < model.parent.length; id++) levels[model.depth[id]].push(id)
  return levels
}

/** lower orders count the distinct preceding symbols, except after the begin mark, which nothing precedes */
function continuationCounts (model, levels, begin) {
  for (const id of levels.flat()) {
    if (model.depth[id] > 1) model.suffix[id] = model.child(model.suffix[model.parent[id]], model.symbol[id])
  }
  const kept = Float64Array.from(model.count)
  const seen = new Float64Array(model.count.length)
  for (let id = 1; id < kept.length; id++) seen[model.suffix[id]]++
  const starts = new Uint8Array(kept.length)
  for (const id of levels.flat()) {
    starts[id] = model.depth[id] === 1 ? Number(model.symbol[id] === begin) : starts[model.parent[id]]
    if (model.depth[id] < model.order && !starts[id]) kept[id] = seen[id]
  }
  return kept
}

function discounts (counts, level) {
  const n = [0, 0, 0, 0, 0]
  for (const id of level) if (counts[id] >= 1 && counts[id] <= 4) n[counts[id]]++
  const y = n[1] / (n[1] + 2 * n[2])
  return [0, 1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3]]
}

/** probability of every n-gram (prob) and back-off weight of each history (bow), plain numbers, not logs */
export function smooth (model, begin) {
  const levels = byDepth(model)
  const counts = continuationCounts(model, levels, begin)
  const prob = new Float64Array(counts.length)
  const bow = new Float64Array(counts.length).fill(1)
  const sum = new Float64Array(counts.length)
  const lost = new Float64Array(counts.length)
  const taken = new Float64Array(counts.length)
  for (let k = 1; k <= model.order; k++) {
    const d = discounts(counts, levels[k])
    for (const id of levels[k]) {
      if (k === 1 && model.symbol[id] === begin) continue
      taken[id] = d[Math.min(3, counts[id])]
      sum[model.parent[id]] += counts[id]
      lost[model.parent[id]] += taken[id]
    }
  }
  for (let id = 0; id < counts.length; id++) if (sum[id] > 0) bow[id] = lost[id] / sum[id]
  for (const id of levels.slice(1).flat()) {
    if (model.depth[id] === 1 && model.symbol[id] === begin) continue
    const lower = model.depth[id] === 1 ? 1 / model.vocabulary : prob[model.suffix[id]]
    const above = model.parent[id]
    prob[id] = (counts[id] - taken[id]) / sum[above] + bow[above] * lower
  }
  return { levels, prob, bow }
}

/**
 * keep[id] = 1 for the n-grams that stay: all of one and two pieces, and the `budget` most useful longer ones
 */
export function thin (model, { levels, prob, bow }, budget) {
  const gain = new Float64Array(prob.length)
  for (const id of levels.slice(3).flat()) {
    const backed = bow[model.parent[id]] * prob[model.suffix[id]]
    gain[id] = model.count[id] * Math.abs(Math.log(prob[id]) - Math.log(backed))
  }
  // A continuation cannot be stored without its history, so a history is at least as useful as its best one.
  for (let k = model.order; k > 3; k--) {
    for (const id of levels[k]) gain[model.parent[id]] = Math.max(gain[model.parent[id]], gain[id])
  }
  const long = levels.slice(3).flat()
  const sorted = Float64Array.from(long, (id) => gain[id]).sort()
  const least = sorted[Math.max(0, sorted.length - budget)]
  const keep = new Uint8Array(prob.length)
  for (const id of levels.slice(0, 3).flat()) keep[id] = 1
  for (const id of long) if (gain[id] >= least && keep[model.parent[id]]) keep[id] = 1
  return keep
}

/** recomputes the back-off weights after thinning, so that the probabilities of each history sum to one */
export function renormalise (model, { levels, prob }, keep) {
  const stays = new Float64Array(prob.length)
  const lower = new Float64Array(prob.length)
  for (const id of levels.slice(2).flat()) {
    if (!keep[id]) continue
    stays[model.parent[id]] += prob[id]
    lower[model.parent[id]] += prob[model.suffix[id]]
  }
  const bow = new Float64Array(prob.length).fill(1)
  for (let id = 1; id < prob.length; id++) {
    if (stays[id] > 0) bow[id] = Math.max(1e-7, 1 - stays[id]) / Math.max(1e-7, 1 - lower[id])
  }
  return bow
}
