import { spend } from './budget.js'
import { ANY, charSet, RegexError, single, without, type CharSet, type Regex } from './regex.js'

/** Edge of an automaton over numbers: code points, or bytes. */
export interface Edge { low: number, high: number, to: number }

/** A deterministic automaton; state 0 is the first. From every state an accepting one can be reached. */
export interface Automaton { edges: readonly (readonly Edge[])[], accepting: readonly boolean[] }

/** Most ranges of characters at one state: a step searches all of them. */
const MAX_EDGES = 1024
/** Most states of one automaton. */
const MAX_STATES = 4000
/** Most copies of parts that repetitions may make. */
const MAX_PARTS = 20_000

interface Nfa { empty: number[][], edges: { set: CharSet, to: number }[][] }

/**
 * The texts in which the regular expression matches somewhere (as JSON Schema's `pattern` has it). Throws
 * RegexError where it gets too large or anchors stand inside.
 */
export function regexAutomaton (regex: Regex): Automaton {
  return automatonOf(branches(regex))
}

/** One alternative, and whether it has to begin and end where the text does. */
interface Branch { parts: Regex[], begin: boolean, end: boolean }

function automatonOf (alternatives: readonly Branch[]): Automaton {
  const nfa: Nfa = { empty: [], edges: [] }
  const begin = newState(nfa)
  const end = newState(nfa)
  for (const branch of alternatives) {
    const first = newState(nfa)
    const last = newState(nfa)
    link(nfa, begin, first)
    link(nfa, last, end)
    if (!branch.begin) nfa.edges[first]?.push({ set: ANY, to: first })
    if (!branch.end) nfa.edges[last]?.push({ set: ANY, to: last })
    build(nfa, { kind: 'join', parts: branch.parts }, first, last, branch)
  }
  return determinise(nfa, begin, end)
}

/** The alternatives at the top, without their anchors. */
function branches (regex: Regex): Branch[] {
  if (regex.kind === 'either') return regex.parts.flatMap(branches)
  const [only] = regex.kind === 'join' && regex.parts.length === 1 ? regex.parts : []
  if (only?.kind === 'either' || only?.kind === 'join') return branches(only)
  const parts = regex.kind === 'join' ? [...regex.parts] : [regex]
  const begin = parts[0]?.kind === 'begin'
  const end = parts.at(-1)?.kind === 'end'
  return [{ parts: parts.slice(begin ? 1 : 0, end ? -1 : undefined), begin, end }]
}

function newState (nfa: Nfa): number {
  if (nfa.empty.length > MAX_PARTS) throw new RegexError(`is too large (more than ${MAX_PARTS} steps)`)
  spend(20)
  nfa.edges.push([])
  return nfa.empty.push([]) - 1
}

function link (nfa: Nfa, from: number, to: number): void {
  nfa.empty[from]?.push(to)
}

/**
 * Adds the ways through `regex` between two states (Thompson 1968). `tail`: the branch that ends with it;
 * look ahead is known there only.
 */
function build (nfa: Nfa, regex: Regex, from: number, to: number, tail?: Branch): void {
  switch (regex.kind) {
    case 'chars':
      nfa.edges[from]?.push({ set: regex.set, to })
      return
    case 'join': {
      let at = from
      for (const [i, part] of regex.parts.entries()) {
        const rest = regex.parts.slice(i + 1)
        if (part.kind === 'look' && tail !== undefined) {
          const atStart = i === 0 && tail.begin && tail.parts === regex.parts
          return embed(nfa, lookedAhead(part, { parts: rest, begin: true, end: tail.end }, atStart), at, to)
        }
        const next = newState(nfa)
        build(nfa, part, at, next, rest.length === 0 ? tail : undefined)
        at = next
      }
      link(nfa, at, to)
      return
    }
    case 'either':
      for (const part of regex.parts) build(nfa, part, from, to, tail)
      return
    case 'repeat':
      buildRepeat(nfa, regex, from, to, regex.max === 1 ? tail : undefined)
      return
    case 'look':
      throw new RegexError('has look ahead in a part that something follows')
    default:
      throw new RegexError('has "^" or "$" inside; they are known at the two ends only')
  }
}

/** What follows look ahead, of which what it asks for is true. */
function lookedAhead (
  { part, negative }: Regex & { kind: 'look' }, rest: Branch, atStart: boolean
): Automaton {
  const asked = branches(part)
  if (!atStart && asked.some(({ begin }) => begin)) throw new RegexError('has "^" inside')
  const found = automatonOf(asked.map((branch) => ({ ...branch, begin: true })))
  return both(automatonOf([rest]), negative ? complement(found) : found)
}

/** Adds an automaton between two states. */
function embed (nfa: Nfa, { edges, accepting }: Automaton, from: number, to: number): void {
  const states = edges.map(() => newState(nfa))
  link(nfa, from, states[0] as number)
  for (const [i, out] of edges.entries()) {
    for (const { low, high, to: next } of out) {
      nfa.edges[states[i] as number]?.push({ set: [[low, high]], to: states[next] as number })
    }
    if (accepting[i] === true) link(nfa, states[i] as number, to)
  }
}

function buildRepeat (
  nfa: Nfa, regex: Regex & { kind: 'repeat' }, from: number, to: number, tail?: Branch
): void {
  let at = from
  for (let i = 0; i < regex.min; i++) {
    const next = newState(nfa)
    build(nfa, regex.part, at, next, tail)
    at = next
  }
  if (regex.max === Infinity) {
    const loop = newState(nfa)
    const back = newState(nfa)
    link(nfa, at, loop)
    build(nfa, regex.part, loop, back)
    link(nfa, back, loop)
    link(nfa, loop, to)
    return
  }
  for (let i = regex.min; i < regex.max; i++) {
    const next = newState(nfa)
    link(nfa, at, to)
    build(nfa, regex.part, at, next, tail)
    at = next
  }
  link(nfa, at, to)
}

function closure (nfa: Nfa, states: readonly number[]): number[] {
  const seen = new Set(states)
  for (const s of seen) for (const next of nfa.empty[s] ?? []) seen.add(next)
  spend(50 * seen.size)
  return [...seen].sort((a, b) => a - b)
}

/** The states of an automaton under construction: sets or pairs of other states, numbered as they are met. */
class States {
  /** Grows while it is gone through. */
  readonly met: number[][] = []
  private readonly numbers = new Map<string, number>()
  private readonly refusal: string

  /** `refusal` says of the pattern that there are too many. */
  constructor (refusal: string) { this.refusal = refusal }

  /** The number of a state. Throws RegexError above the most that are taken. */
  number (state: number[]): number {
    const key = state.join()
    let number = this.numbers.get(key)
    if (number === undefined) {
      if (this.met.length >= MAX_STATES) {
        throw new RegexError(`${this.refusal} (more than ${MAX_STATES} states)`)
      }
      number = this.met.push(state) - 1
      this.numbers.set(key, number)
    }
    return number
  }
}

/** Subset construction. */
function determinise (nfa: Nfa, begin: number, end: number): Automaton {
  const states = new States('is too complex')
  states.number(closure(nfa, [begin]))
  const edges: Edge[][] = []
  for (const set of states.met) {
    const out = set.flatMap((n) => nfa.edges[n] ?? [])
    spend(20 * set.length)
    edges.push(slices(out).map(([low, high, targets]) =>
      ({ low, high, to: states.number(closure(nfa, targets)) })))
  }
  return pruned(edges, states.met.map((set) => set.includes(end)))
}

/** Cuts overlapping edges into disjoint ranges with the states each one leads to. */
function slices (edges: readonly { set: CharSet, to: number }[]): [number, number, number[]][] {
  const flat = edges.flatMap(({ set, to }) => set.map(([low, high]) => ({ low, high, to })))
  spend(40 * edges.length + 20 * flat.length)
  const cuts = [...new Set(flat.flatMap((r) => [r.low, r.high + 1]))].sort((a, b) => a - b)
  if (cuts.length > 2 * MAX_EDGES) throw new RegexError(`has more than ${MAX_EDGES} ranges at one place`)
  spend(cuts.length * (flat.length + 10))
  const out: [number, number, number[]][] = []
  for (let i = 0; i + 1 < cuts.length; i++) {
    const low = cuts[i] as number
    const high = (cuts[i + 1] as number) - 1
    const targets = flat.filter((r) => r.low <= low && r.high >= high).map((r) => r.to)
    if (targets.length > 0) out.push([low, high, targets])
  }
  return out
}

/**
 * The cost of the cheapest way from each state to an accepting one; Infinity where there is none. `cost` is
 * that of the cheapest number in a range.
 */
export function distances (
  { edges, accepting }: Automaton, cost: (low: number, high: number) => number
): number[] {
  const rest = accepting.map((yes) => yes ? 0 : Infinity)
  for (let changed = true; changed;) {
    changed = false
    for (let s = edges.length - 1; s >= 0; s--) {
      spend(10 + 20 * (edges[s]?.length ?? 0))
      for (const e of edges[s] ?? []) {
        const way = cost(e.low, e.high) + (rest[e.to] ?? Infinity)
        if (way >= (rest[s] ?? 0)) continue
        rest[s] = way
        changed = true
      }
    }
  }
  return rest
}

/** Without the edges to states from which no accepting one can be reached. */
function pruned (edges: readonly Edge[][], accepting: readonly boolean[]): Automaton {
  const rest = distances({ edges, accepting }, () => 1)
  return { edges: edges.map((out) => out.filter((e) => rest[e.to] !== Infinity)), accepting }
}

/** Where the edge for a number leads; undefined where there is none. */
export const follow = (edges: readonly Edge[] = [], number: number): number | undefined =>
  edges.find(({ low, high }) => number >= low && number <= high)?.to

/** Whether a text is accepted. */
export function accepts ({ edges, accepting }: Automaton, text: string): boolean {
  let state: number | undefined = 0
  for (const character of text) {
    spend(10 + (edges[state]?.length ?? 0))
    state = follow(edges[state], character.codePointAt(0) as number)
    if (state === undefined) return false
  }
  return accepting[state] === true
}

/** The texts that both accept. Throws RegexError where that gets too large. */
export function both (a: Automaton, b: Automaton): Automaton {
  const states = new States('is too complex with the other limits')
  states.number([0, 0])
  const edges: Edge[][] = []
  for (const [p, q] of states.met as [number, number][]) {
    spend(100 + 5 * (a.edges[p]?.length ?? 0) * (b.edges[q]?.length ?? 0))
    edges.push((a.edges[p] ?? []).flatMap((e) => (b.edges[q] ?? []).flatMap((f) => {
      const [low, high] = [Math.max(e.low, f.low), Math.min(e.high, f.high)]
      return low > high ? [] : [{ low, high, to: states.number([e.to, f.to]) }]
    })))
  }
  return pruned(edges, states.met.map(([p = 0, q = 0]) => a.accepting[p] === true && b.accepting[q] === true))
}

/** Texts of `min` to `max` characters. Throws RegexError above the largest automaton. */
export function lengthAutomaton (min: number, max: number): Automaton {
  const last = max === Infinity ? min : max
  if (last >= MAX_STATES) {
    throw new RegexError(`cannot be enforced together with a length of ${last} (at most ${MAX_STATES - 1})`)
  }
  const states = Array.from({ length: last + 1 }, (_, i) => i)
  const next = (i: number): CharSet => i < last || max === Infinity ? ANY : []
  return pruned(states.map((i) => next(i).map(([low, high]) => ({ low, high, to: Math.min(i + 1, last) }))),
    states.map((i) => i >= min))
}

/** A tree of sequences: for each node where its numbers lead, and whether a sequence ends there. */
function treeOf (sequences: Iterable<Iterable<number>>): { next: Map<number, number>, ends: boolean }[] {
  const nodes = [{ next: new Map<number, number>(), ends: false }]
  for (const sequence of sequences) {
    let at = 0
    for (const number of sequence) {
      spend(30)
      let next = nodes[at]?.next.get(number)
      if (next === undefined) {
        next = nodes.push({ next: new Map(), ends: false }) - 1
        nodes[at]?.next.set(number, next)
      }
      at = next
    }
    (nodes[at] as { ends: boolean }).ends = true
  }
  return nodes
}

/** The given texts, as bytes. */
export function oneOf (texts: readonly string[]): Automaton {
  const nodes = treeOf(texts.map((text) => Buffer.from(text)))
  return {
    edges: nodes.map(({ next }) => [...next].map(([byte, to]) => ({ low: byte, high: byte, to }))),
    accepting: nodes.map(({ ends }) => ends)
  }
}

/** All texts but the given ones, as characters. */
export function allBut (texts: Iterable<string>): Automaton {
  const nodes = treeOf([...texts].map((text) => Array.from(text, (c) => c.codePointAt(0) as number)))
  // After the nodes of the tree comes the state of a text that has left it.
  const left = nodes.push({ next: new Map(), ends: false }) - 1
  const edges = nodes.map(({ next }) => {
    spend(500)
    const own = [...next].map(([code, to]) => ({ set: charSet([[code, code]]), to }))
    return slices([{ set: ANY, to: left }, ...own]).map(([low, high, to]) =>
      ({ low, high, to: Math.min(...to) }))
  })
  return pruned(edges, nodes.map(({ ends }) => !ends))
}

/** Texts, as characters, without a certain one inside. */
export function lacking (text: string): Automaton {
  const parts = Array.from(text, (c): Regex => ({ kind: 'chars', set: single(c.codePointAt(0) as number) }))
  return complement(regexAutomaton({ kind: 'join', parts }))
}

/** Every text that is not accepted. */
export function complement ({ edges, accepting }: Automaton): Automaton {
  const left = edges.length
  const others = edges.map((out) => {
    spend(20 + 20 * out.length)
    return [...out, ...without(out).map(([low, high]) => ({ low, high, to: left }))]
  })
  return pruned([...others, ANY.map(([low, high]) => ({ low, high, to: left }))],
    [...accepting.map((yes) => !yes), true])
}

/** Any bytes up to and including a marker, where it stands for the first time. */
export function upTo (marker: string): Automaton {
  const parts = Array.from(Buffer.from(marker), (byte): Regex => ({ kind: 'chars', set: [[byte, byte]] }))
  const { edges, accepting } = regexAutomaton({ kind: 'join', parts: [...parts, { kind: 'end' }] })
  return { accepting, edges: edges.map((out, state) => accepting[state] === true ? [] : out) }
}
