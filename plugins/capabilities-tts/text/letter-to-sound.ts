import { readData } from './dictionary.js'
import { isPrimary } from './phones.js'

const BEGIN = 0
const END = 1
const BEAM = 24
/** Beam width in 1/16 nats: hypotheses that cost this much more than the best are dropped. */
const MARGIN = 16 * 9
const NO_STRESS = 0
const ONE_PRIMARY = 1

/**
 * A joint n-gram model of letters and phones; docs/recipes/letter-to-sound/train-lts.mjs defines the file
 * format.
 */
interface Model {
  /** Indices of the model's pieces, keyed by the letters that a piece covers. */
  byLetters: Map<string, number[]>
  phones: Uint8Array[], primaries: Uint8Array, firstChild: Uint32Array, symbol: Uint16Array
  cost: Uint8Array, backOff: Int16Array, suffix: Uint32Array
}

interface Hypothesis {
  cost: number, node: number, stress: number, piece: number, from: Hypothesis | undefined
}

function readPieces (data: Buffer, count: number): { end: number, letters: string[], phones: Uint8Array[] } {
  const letters: string[] = []
  const phones: Uint8Array[] = []
  let at = 8
  for (let i = 0; i < count; i++) {
    const middle = data.indexOf(0, at)
    const end = data.indexOf(0, middle + 1)
    letters.push(data.toString('latin1', at, middle))
    phones.push(Uint8Array.prototype.slice.call(data, middle + 1, end))
    at = end + 1
  }
  return { end: at, letters, phones }
}

function findChild (model: Pick<Model, 'firstChild' | 'symbol'>, node: number, piece: number): number {
  let low = model.firstChild[node]!
  let high = model.firstChild[node + 1]! - 1
  while (low <= high) {
    const middle = (low + high) >> 1
    const symbol = model.symbol[middle]!
    if (symbol === piece) return middle
    if (symbol < piece) low = middle + 1
    else high = middle - 1
  }
  return -1
}

/** Finds every n-gram's longest stored suffix, shorter n-grams first because longer ones build on them. */
function suffixLinks (model: Pick<Model, 'firstChild' | 'symbol'>, nodes: number): Uint32Array {
  const suffix = new Uint32Array(nodes)
  for (let node = 0; node < nodes; node++) {
    for (let child = model.firstChild[node]!; child < model.firstChild[node + 1]!; child++) {
      let history = node
      let found = -1
      while (history !== 0 && found < 0) {
        history = suffix[history]!
        found = findChild(model, history, model.symbol[child]!)
      }
      suffix[child] = found < 0 ? 0 : found
    }
  }
  return suffix
}

function parse (data: Buffer): Model {
  const count = data.readUInt32LE(0)
  const nodes = data.readUInt32LE(4)
  const { end, letters, phones } = readPieces(data, count)
  const plane = (k: number): Buffer => data.subarray(end + k * nodes, end + (k + 1) * nodes)
  const planes = [0, 1, 2, 3].map(plane)
  const firstChild = new Uint32Array(nodes + 1)
  const symbol = new Uint16Array(nodes)
  const backOff = new Int16Array(nodes)
  let next = 1
  for (let i = 0; i < nodes; i++) {
    firstChild[i] = next
    next += planes[0]![i]! + 256 * planes[1]![i]!
    symbol[i] = planes[2]![i]! + 256 * planes[3]![i]!
    backOff[i] = plane(5)[i]! - 32
  }
  firstChild[nodes] = next
  const byLetters = new Map<string, number[]>()
  letters.forEach((key, piece) => {
    if (piece > END) byLetters.set(key, [...byLetters.get(key) ?? [], piece])
  })
  const suffix = suffixLinks({ firstChild, symbol }, nodes)
  const primaries = Uint8Array.from(phones, (list) => list.filter(isPrimary).length)
  return { byLetters, phones, primaries, firstChild, symbol, cost: plane(4), backOff, suffix }
}

/** The cost of `piece` after the history `node`, in 1/16 nats, and the resulting history. */
function step (model: Model, node: number, piece: number): { cost: number, node: number } {
  let cost = 0
  let history = node
  for (;;) {
    const child = findChild(model, history, piece)
    if (child >= 0) {
      const leaf = model.firstChild[child] === model.firstChild[child + 1]
      return { cost: cost + model.cost[child]!, node: leaf ? model.suffix[child]! : child }
    }
    if (history === 0) return { cost: cost + 255, node: 0 }
    cost += model.backOff[history]!
    history = model.suffix[history]!
  }
}

function prune (candidates: Map<number, Hypothesis>): Hypothesis[] {
  const sorted = [...candidates.values()].sort((a, b) => a.cost - b.cost)
  const best = sorted[0]?.cost ?? 0
  return sorted.slice(0, BEAM).filter((each) => each.cost <= best + MARGIN)
}

function extend (model: Model, from: Hypothesis, piece: number, into: Map<number, Hypothesis>): void {
  const stress = from.stress + model.primaries[piece]!
  if (stress > ONE_PRIMARY) return
  const { cost, node } = step(model, from.node, piece)
  const total = from.cost + cost
  const key = node * 2 + stress
  const known = into.get(key)
  if (known === undefined || known.cost > total) into.set(key, { cost: total, node, stress, piece, from })
}

function trace (model: Model, last: Hypothesis): number[] {
  const pieces: number[] = []
  for (let at: Hypothesis | undefined = last; at; at = at.from) pieces.push(at.piece)
  return pieces.reverse().flatMap((piece) => Array.from(model.phones[piece]!))
}

/** The phones of the cheapest complete hypothesis, preferably one with a primary stress. */
function finish (model: Model, open: Hypothesis[]): number[] {
  let best: Hypothesis | undefined
  for (const each of open) {
    const cost = each.cost + step(model, each.node, END).cost + (each.stress === NO_STRESS ? 16 * 20 : 0)
    if (!best || cost < best.cost) best = { ...each, cost }
  }
  return best ? trace(model, best) : []
}

/** The letter-to-sound model, loaded once per process (about 6 MB in memory). */
let loaded: Model | undefined

/**
 * Phone codes (see `phones.ts`) of a word spelled with a to z, by beam search over the n-gram model. Linear
 * in the word's length, so callers cut long words. Empty for an empty word.
 */
export function readLetters (word: string): number[] {
  const m = loaded ??= parse(readData('lts.bin'))
  const start = findChild(m, 0, BEGIN)
  const open: Hypothesis[][] = Array.from({ length: word.length + 1 }, () => [])
  const next: Array<Map<number, Hypothesis>> = Array.from({ length: word.length + 1 }, () => new Map())
  open[0] = [{ cost: 0, node: Math.max(0, start), stress: NO_STRESS, piece: BEGIN, from: undefined }]
  for (let i = 0; i < word.length; i++) {
    if (i > 0) open[i] = prune(next[i]!)
    next[i] = new Map()
    for (const length of [1, 2]) {
      const pieces = i + length <= word.length ? m.byLetters.get(word.slice(i, i + length)) : undefined
      for (const piece of pieces ?? []) {
        for (const from of open[i]!) extend(m, from, piece, next[i + length]!)
      }
    }
  }
  return finish(m, prune(next[word.length]!))
}
