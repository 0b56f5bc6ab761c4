// Aligns letters with phones by expectation maximisation: every training word is cut into pieces of one or
// two letters with zero to two phones, and the probability of a piece is re-estimated from all cuts of all
// words. (Jiampojamarn, Kondrak and Sherif 2007, "Applying many-to-many alignments ... to letter-to-phoneme
// conversion".)

/** possible [letters, phones] counts of a piece; two silent letters are two silent pieces */
const SHAPES = [[1, 1], [1, 0], [1, 2], [2, 1], [2, 2]]
/** prior per shape; pieces of two letters must cost more, because otherwise the longest pieces always win */
const PRIOR = [1, 0.5, 0.3, 0.3, 0.02]
const ITERATIONS = 8

/** stress is ignored during alignment: it would triple the number of pieces without a benefit */
const plain = (phone) => phone < 25 ? phone : 25 + Math.floor((phone - 25) / 3)

/** key of the piece that maps letters [i, i+l) to phones [j, j+p) */
function pieceKey (word, i, l, j, p) {
  const a = word.letters[i]
  const b = l > 1 ? word.letters[i + 1] : 0
  const x = p > 0 ? word.plain[j] : 0
  const y = p > 1 ? word.plain[j + 1] : 0
  return ((a * 27 + b) * 64 + x) * 64 + y
}

/** calls visit(i, j, shape, key) for every piece that can end at cell (i, j), in cell order */
function eachPiece (word, visit) {
  const n = word.letters.length
  const m = word.plain.length
  for (let i = 0; i <= n; i++) {
    for (let j = 0; j <= m; j++) {
      for (let s = 0; s < SHAPES.length; s++) {
        const [l, p] = SHAPES[s]
        if (i >= l && j >= p) visit(i, j, s, pieceKey(word, i - l, l, j - p, p))
      }
    }
  }
}

function expectation (words, weight) {
  const counts = new Map()
  for (const word of words) {
    const width = word.plain.length + 1
    const size = (word.letters.length + 1) * width
    const forward = new Float64Array(size)
    const backward = new Float64Array(size)
    forward[0] = 1
    const pieces = []
    eachPiece(word, (i, j, s, key) => {
      const [l, p] = SHAPES[s]
      const from = (i - l) * width + j - p
      if (forward[from] === 0) return
      const w = weight(key, s)
      if (w === 0) return
      forward[i * width + j] += forward[from] * w
      pieces.push(from, i * width + j, w, key)
    })
    const total = forward[size - 1]
    if (total === 0) continue
    backward[size - 1] = 1
    for (let k = pieces.length - 4; k >= 0; k -= 4) {
      backward[pieces[k]] += backward[pieces[k + 1]] * pieces[k + 2]
    }
    for (let k = 0; k < pieces.length; k += 4) {
      const gain = forward[pieces[k]] * pieces[k + 2] * backward[pieces[k + 1]] / total
      if (gain > 1e-6) counts.set(pieces[k + 3], (counts.get(pieces[k + 3]) ?? 0) + gain)
    }
  }
  return counts
}

/** the best cut of one word: a list of [letters, phones] counts; undefined if the word cannot be cut */
function bestCut (word, weight) {
  const width = word.plain.length + 1
  const size = (word.letters.length + 1) * width
  const best = new Float64Array(size)
  const back = new Int8Array(size).fill(-1)
  best[0] = 1
  eachPiece(word, (i, j, s, key) => {
    const [l, p] = SHAPES[s]
    const score = best[(i - l) * width + j - p] * weight(key, s)
    if (score > best[i * width + j]) { best[i * width + j] = score; back[i * width + j] = s }
  })
  if (best[size - 1] === 0) return undefined
  const cut = []
  let i = word.letters.length
  let j = word.plain.length
  while (i > 0 || j > 0) {
    const [l, p] = SHAPES[back[i * width + j]]
    cut.unshift([l, p])
    i -= l
    j -= p
  }
  return cut
}

/**
 * words: [{ letters: number[] (1..26), phones: number[] }] -> the same with cut: [[letters, phones], ...];
 * words that cannot be cut (more than two phones per letter) are left out. `log` receives one line per
 * iteration.
 */
export function align (words, log) {
  for (const word of words) word.plain = word.phones.map(plain)
  let weight = (key, s) => PRIOR[s]
  for (let round = 0; round < ITERATIONS; round++) {
    const counts = expectation(words, weight)
    let total = 0
    for (const [key, n] of counts) if (n < 0.5) counts.delete(key); else total += n
    weight = (key, s) => (counts.get(key) ?? 0) / total * (s > 2 ? 0.5 : 1)
    log(`alignment ${round + 1}: ${counts.size} pieces`)
  }
  const out = []
  for (const word of words) {
    const cut = bestCut(word, weight)
    if (cut) out.push({ ...word, cut })
  }
  return out
}
