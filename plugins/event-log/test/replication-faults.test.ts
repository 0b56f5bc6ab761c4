import fc from 'fast-check'
import t from 'tap'
import { ClusterTwin } from './cluster-twin.js'

const ALL = ['a', 'b', 'c', 'd']
const RUNS = 200
const SEED = 7

type Move =
  | { do: 'happen', at: number, times: number }
  | { do: 'run', ms: number }
  | { do: 'split', sides: readonly number[] }
  /** Elects a master on each side of a split; with `keep`, a former master leads its old session again. */
  | { do: 'elect', picks: readonly number[], keep: boolean }
  | { do: 'weather', bad: boolean }
  /** One node does not learn of the election, because the message to it is lost. */
  | { do: 'lose', at: number }

const what = <T extends string>(name: T): fc.Arbitrary<T> => fc.constant(name)
const node = fc.nat({ max: ALL.length - 1 })
const moves: fc.Arbitrary<Move[]> = fc.array(fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ do: what('happen'), at: node, times: fc.integer({ min: 1, max: 30 }) })
  },
  { weight: 3, arbitrary: fc.record({ do: what('run'), ms: fc.integer({ min: 1, max: 1500 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: what('split'), sides: fc.tuple(...ALL.map(() => fc.nat({ max: 2 }))) })
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: what('elect'), picks: fc.tuple(node, node, node), keep: fc.boolean() })
  },
  { weight: 1, arbitrary: fc.record({ do: what('weather'), bad: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: what('lose'), at: node }) }
), { minLength: 12, maxLength: 40, size: 'max' })

/** A cluster that runs a list of moves with seeded randomness. */
class Story {
  readonly twin = new ClusterTwin(ALL)
  readonly #random: () => number
  #groups: string[][] = [ALL]
  #sessions = 0
  readonly #leads = new Map<string, string>()

  constructor (seed: number) {
    this.#random = chance(seed)
    this.twin.connect(ALL)
    this.#elect([0, 0, 0], false)
  }

  play (move: Move): void {
    const { twin } = this
    switch (move.do) {
      case 'happen': for (let i = 0; i < move.times; i++) twin.happen(ALL[move.at]!); break
      case 'run': twin.run(move.ms); break
      case 'split':
        this.#groups = [0, 1, 2].map((side) => ALL.filter((_, i) => move.sides[i] === side))
        twin.connect(...this.#groups)
        break
      case 'elect': this.#elect(move.picks, move.keep); break
      case 'weather': twin.fate = move.bad ? () => this.#badFate() : () => [1]; break
      case 'lose': twin.step(ALL[move.at]!, { type: 'session', sid: '', isMaster: false, master: null })
    }
  }

  /** One in five messages is lost, one in ten repeated; all are reordered. */
  #badFate (): number[] {
    const draw = this.#random()
    const delay = (): number => 1 + Math.floor(this.#random() * 300)
    if (draw < 0.2) return []
    return draw < 0.3 ? [delay(), delay()] : [delay()]
  }

  #elect (picks: readonly number[], keep: boolean): void {
    this.#groups.forEach((group, i) => {
      const master = group[picks[i]! % group.length]
      if (master === undefined) return
      const sid = keep ? this.#leads.get(master) ?? this.#newSid() : this.#newSid()
      for (const id of group) this.#leads.delete(id)
      this.#leads.set(master, sid)
      this.twin.elect(sid, master, group)
    })
  }

  #newSid (): string { return `s${++this.#sessions}` }

  /** Restores everything: reliable links, one network, one master. */
  heal (pick: number, keep: boolean): void {
    this.play({ do: 'weather', bad: false })
    this.#groups = [ALL]
    this.twin.connect(ALL)
    this.#elect([pick, pick, pick], keep)
    this.twin.run(15_000)
  }
}

/** A seeded generator of numbers in [0, 1) (multiplicative, modulus 2^31 - 1). */
function chance (seed: number): () => number {
  let state = seed % 2147483646 + 1
  return () => {
    state = state * 48271 % 2147483647
    return (state - 1) / 2147483646
  }
}

/** The problems of the cluster at the end; empty if there are none. */
function faults ({ nodes, submitted }: ClusterTwin): string[] {
  const sorted = [...submitted].sort().join()
  const first = JSON.stringify(nodes.get('a')!.log.entries)
  return [...nodes.values()].flatMap(({ id, log, read, rising, machine, dropped }) => [
    ...JSON.stringify(log.entries) === first ? [] : [`${id} holds another list`],
    ...log.entries.map((e) => e.id).sort().join() === sorted ? [] : [`${id} does not hold each event once`],
    ...isRising(log.entries.map((e) => e.idx)) ? [] : [`indices of ${id} do not rise`],
    ...new Set(read).size === read.length ? [] : [`the reader at ${id} had something twice`],
    ...[...read].sort().join() === sorted ? [] : [`the reader at ${id} missed something`],
    ...isRising(rising) ? [] : [`the reader's ids at ${id} do not rise`],
    ...machine.waiting === 0 ? [] : [`${machine.waiting} events wait at ${id}`],
    ...machine.inStep ? [] : [`${id} is not in step`],
    ...dropped === 0 ? [] : [`${id} dropped ${dropped}`]
  ])
}

const isRising = (list: readonly number[]): boolean => list.every((n, i) => i === 0 || n > list[i - 1]!)

t.test('whatever happened, all nodes end with the same list, in which each event is once', async (t) => {
  const seen = { cuts: 0, events: 0 }
  fc.assert(fc.property(moves, fc.nat(), node, fc.boolean(), (list, seed, last, keep) => {
    const story = new Story(seed)
    for (const { log } of story.twin.nodes.values()) {
      log.onChange(({ type }) => { if (type === 'cut') seen.cuts++ })
    }
    for (const move of list) story.play(move)
    story.heal(last, keep)
    seen.events += story.twin.submitted.length
    const wrong = faults(story.twin)
    if (wrong.length > 0) throw new Error(wrong.join('\n'))
  }), { numRuns: RUNS, seed: SEED })
  t.ok(seen.cuts > 100, `tails were replaced (${seen.cuts})`)
  t.ok(seen.events > 1000)
})
