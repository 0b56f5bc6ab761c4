import fc from 'fast-check'
import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { ControlLog } from '../log/log.js'
import { keptLog, put, testDisk, type TestDisk } from './documents-kit.js'
import type { Write } from '../../../kernel/state/documents/kv-doc.js'
import type { Entry, CommandReceipt } from '../election/protocol.js'

/** The model: a list of entries, each with the whole contents after it. */
interface ModelEntry {
  readonly entry: Entry
  readonly live: ReadonlyMap<string, unknown>
  readonly voters: readonly string[]
  readonly past: string
}

class Model {
  log: readonly ModelEntry[] = []
  readonly founders = ['a', 'b', 'c']

  append (entry: Entry): void {
    const last = this.log.at(-1)
    const live = new Map(last?.live ?? [])
    if (entry.kind === 'command') {
      for (const { key, value } of (entry.payload as readonly Write[])) {
        if (value === undefined) live.delete(key)
        else live.set(key, value)
      }
    }
    const voters = entry.kind === 'voters' ? entry.payload as string[] : this.voters()
    const past = `${last?.past ?? ''} ${entry.kind}/${entry.id}/${entry.sid}/${entry.term}`
    this.log = [...this.log, { entry, live, voters, past }]
  }

  last (): object { return { term: this.log.at(-1)?.entry.term ?? 0, seq: this.log.length } }
  voters (): readonly string[] { return this.log.at(-1)?.voters ?? this.founders }
  live (): ReadonlyMap<string, unknown> { return this.log.at(-1)?.live ?? new Map() }

  find (id: string): CommandReceipt | undefined {
    const i = this.log.findLastIndex(({ entry }) => entry.id === id)
    const entry = this.log[i]?.entry
    return entry === undefined ? undefined : { sid: entry.sid, term: entry.term, seq: i + 1 }
  }
}

/** A node: the code under test, its disk, and its model. */
class Pair {
  readonly disk: TestDisk = testDisk()
  readonly model = new Model()
  control: ControlLog
  constructor () { this.control = this.#open() }

  restart (): void {
    this.control.close()
    this.control = this.#open()
  }

  #open (): ControlLog {
    return new ControlLog({
      store: this.disk,
      durable: true,
      execute: (payload) => ({ writes: payload as Write[], result: { done: (payload as Write[]).length } }),
      seed: (previous) => previous,
      clock: manualClock(),
      log: keptLog(),
      founders: this.model.founders
    })
  }

  append (entry: Entry): void {
    const appended = this.control.append(entry)
    if (appended === this.disk.refuses) throw new Error(`append: ${appended}`)
    if (appended) this.model.append(entry)
  }

  /**
   * Adopts another node's body, made for a node with `held` entries. There may be a gap that the model does
   * not have, because a node may have lost its document; then the whole body must fit.
   */
  adopt (from: Pair, held: number | null): boolean {
    const body = from.control.body(held)
    const adoption = this.control.adopt(body)
    if (adoption === 'failed' && !this.disk.refuses) throw new Error('failed on a good disk')
    if (adoption === 'gap' && held === null) throw new Error('a gap in the whole')
    const shared = held !== null && (body as { base: unknown }).base !== null
    const fits = !shared || this.model.log[held - 1]?.past === from.model.log[held - 1]?.past || held === 0
    if (adoption === 'adopted' && !fits) throw new Error(`adopted on another past at ${held}`)
    if (adoption !== 'adopted') return false
    this.model.log = from.model.log
    return true
  }

  check (): void {
    const { control, model } = this
    const same = (what: string, a: unknown, b: unknown): void => {
      if (JSON.stringify(a) !== JSON.stringify(b)) {
        throw new Error(`${what}: ${JSON.stringify(a)}, not ${JSON.stringify(b)}`)
      }
    }
    same('fresh', control.last(), model.last())
    same('voters', control.voters(), model.voters())
    same('entries', [...control.entries()].sort(), [...model.live()].sort())
    for (const id of IDS) {
      const { sid, term, seq } = control.find(id) ?? {}
      const expected = model.find(id)
      same(`find ${id}`, { sid, term, seq }, expected ?? {})
    }
  }
}

const IDS = ['c0', 'c1', 'c2', 'c3', 'c4']
const KEYS = ['k0', 'k1', 'k2', 'k3']

type Step =
  { do: 'command', on: number, id: string, writes: readonly Write[] } |
  { do: 'session' | 'anoint' | 'voters' | 'restart', on: number } |
  { do: 'send', on: number, to: number, back: number | null } |
  { do: 'disk', on: number, refuses: boolean } |
  { do: 'nonsense', on: number, at: number }

const NODES = 3
const node = fc.nat({ max: NODES - 1 })
const write = fc.tuple(fc.constantFrom(...KEYS), fc.option(fc.jsonValue({ maxDepth: 2 }), { nil: undefined }))
  .map(([key, value]) => put(key, value))
// Leave out lone surrogates and `__proto__`, which documents refuse.
const writes = fc.array(write, { maxLength: 3 })
  .filter((list) => !/\\ud[89a-f]|__proto__/i.test(JSON.stringify(list)))
const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('command' as const), on: node, id: fc.constantFrom(...IDS), writes
    })
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('session' as const, 'anoint', 'voters', 'restart'), on: node
    })
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('send' as const), on: node, to: node, back: fc.option(fc.nat({ max: 4 }), { nil: null })
    })
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('disk' as const), on: node, refuses: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('nonsense' as const), on: node, at: fc.nat() }) }
)

let term = 0

/** Returns whether a body was adopted. */
function play (pairs: readonly Pair[], step: Step): boolean | void {
  const on = pairs[step.on]!
  const sid = on.model.log.at(-1)?.entry.sid ?? 's0'
  const at = on.model.log.at(-1)?.entry.term ?? 0
  switch (step.do) {
    case 'command':
      return on.append({ kind: 'command', id: step.id, sid, term: at, payload: step.writes })
    case 'session':
      term++
      return on.append({ kind: 'session', id: `session:${term}`, sid: `s${term}`, term, payload: null })
    case 'anoint':
      return on.append({ kind: 'anoint', id: `anoint:${++term}`, sid, term, payload: null })
    case 'voters':
      return on.append({ kind: 'voters', id: `v${term}`, sid, term: at, payload: ['a', `n${++term}`] })
    case 'restart': return on.restart()
    case 'disk':
      on.disk.refuses = step.refuses
      return
    case 'nonsense':
      return damage(on, pairs[(step.on + 1) % NODES]!, step.at)
    case 'send':
      return send(on, pairs[step.to]!, step.back)
  }
}

/** As in the election: sends only if the sender's log is newer, and the whole document after a gap. */
function send (on: Pair, to: Pair, back: number | null): boolean {
  const [mine, theirs] = [on.model.log, to.model.log]
  const term = (log: Model['log']): number => log.at(-1)?.entry.term ?? 0
  if (term(mine) < term(theirs) || mine.length < theirs.length || on === to) return false
  return to.adopt(on, back === null ? null : Math.max(0, theirs.length - back))
}

/** A body with one changed byte must have its full effect or none, and never throw. */
function damage (on: Pair, from: Pair, at: number): void {
  const body = structuredClone(from.control.body(null)) as { state: Uint8Array }
  body.state[at % body.state.length]! ^= 1 << (at % 8)
  const state = (): string => JSON.stringify([on.control.last(), [...on.control.entries()]])
  const before = state()
  const adoption = on.control.adopt(body)
  if (adoption === 'adopted') return on.restart()
  if (state() !== before) throw new Error('half adopted')
}

t.test('any order of appends, bodies, restarts and failing disks leaves what the model says', (t) => {
  let adopted = 0
  const holds = fc.property(fc.array(steps, { minLength: 20, maxLength: 60 }), (plan) => {
    const pairs = Array.from({ length: NODES }, () => new Pair())
    for (const step of plan) {
      // The model does not contain the effects of a damaged body.
      if (step.do === 'nonsense') continue
      if (play(pairs, step) === true) adopted++
      for (const pair of pairs) pair.check()
    }
    for (const pair of pairs) pair.control.close()
  })
  fc.assert(holds, { numRuns: 300, seed: 5 })
  t.ok(adopted > 200, `${adopted} bodies were adopted`)
  t.end()
})

t.test('a damaged body is taken whole or not at all', (t) => {
  const bytes = fc.array(fc.nat(), { minLength: 5 })
  const holds = fc.property(fc.array(steps, { maxLength: 20 }), bytes, (plan, at) => {
    const pairs = Array.from({ length: NODES }, () => new Pair())
    for (const step of plan) if (step.do !== 'nonsense') play(pairs, step)
    for (const pair of pairs) pair.disk.refuses = false
    for (const place of at) damage(pairs[0]!, pairs[1]!, place)
    t.doesNotThrow(() => JSON.stringify([...pairs[0]!.control.entries()]))
  })
  fc.assert(holds, { numRuns: 100, seed: 5 })
  t.end()
})
