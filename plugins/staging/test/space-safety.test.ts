import fc from 'fast-check'
import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { Evictor } from '../space/evictor.js'
import { inUseClosure } from '../space/plans.js'
import { Leases } from '../space/leases.js'
import { StoreError, type Copy } from '../types.js'

/** Companions by model: a chain, a cycle, a shared companion and models without companions. */
const companions: Record<string, string[]> = {
  'o/0': ['o/1'], 'o/1': ['o/2'], 'o/3': ['o/4'], 'o/4': ['o/3'], 'o/5': ['o/2', 'o/6']
}
const companionsOf = (id: string): string[] => companions[id] ?? []
const MODELS = 10

const model = fc.integer({ min: 0, max: MODELS - 1 }).map((n) => `o/${n}`)
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('use' as const), id: model }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('release' as const) }) },
  fc.record({ do: fc.constant('lease' as const), id: model }),
  fc.record({ do: fc.constant('unlease' as const), id: model }),
  fc.record({ do: fc.constant('stage' as const), id: model }),
  fc.record({ do: fc.constant('deactivated' as const), id: model }),
  fc.record({ do: fc.constant('room' as const), id: model, bytes: fc.integer({ min: 0, max: 12 }) }),
  fc.record({ do: fc.constant('purge' as const), id: fc.option(model, { nil: undefined }) }),
  { weight: 3, arbitrary: fc.record({ do: fc.constant('wait' as const), turns: fc.nat({ max: 5 }) }) }
)
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never

const turn = async (): Promise<void> => { await new Promise((resolve) => setImmediate(resolve)) }

/** A node in memory with a slow disk; records each wrong removal. */
class Node {
  readonly wrong: string[] = []
  readonly leases = new Leases()
  removals = 0
  refused = 0
  readonly #clock = manualClock()
  readonly #copies = new Map<string, Copy>()
  readonly #leased = new Set<string>()
  readonly #releases: (() => void)[] = []
  readonly #evictor = new Evictor({
    roots: {
      staged: {
        role: 'staged',
        root: '/none',
        list: async () => { await turn(); return [...this.#copies.values()] },
        read: async (id) => { await turn(); return this.#copies.get(id) },
        touch: async () => { await turn() },
        pending: async () => [],
        discard: async () => {},
        remove: async (id) => await this.#remove(id)
      }
    },
    leases: this.leases,
    companionsOf,
    active: () => this.#leased,
    settings: { cleanupOnDeactivate: true, keepRecentBytes: 4, headroomBytes: 2 },
    clock: this.#clock,
    log: { debug () {}, info () {}, warn () {}, error () {}, fatal () {} },
    onEvicted: () => { this.removals += 1 },
    volume: async () => await Promise.resolve({ freeBytes: 3 })
  })

  constructor () {
    for (let n = 0; n < MODELS; n++) this.#stage(`o/${n}`)
  }

  #stage (modelId: string): void {
    const lastUsedMs = this.#clock.now() - Number(modelId.slice(2)) % 7
    this.#copies.set(modelId, {
      modelId, directory: '', sizeBytes: 2, freeableBytes: 2, lastUsedMs, record: null, ours: true
    })
  }

  async #remove (id: string): Promise<number> {
    const check = (when: string, safe: Iterable<string>): void => {
      if (inUseClosure(safe, companionsOf).has(id)) this.wrong.push(`${id} ${when}`)
    }
    check('at the beginning', [...this.leases.ids(), ...this.#leased])
    for (let n = Number(id.slice(2)) % 3 + 2; n >= 0; n--) await turn()
    // Check only uses: a transfer that has begun meanwhile stages the model again anyway.
    check('at the end', this.leases.ids())
    this.#copies.delete(id)
    return 2
  }

  #use (id: string): void {
    try {
      this.#releases.push(this.leases.use(id, 'runner'))
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      this.refused += 1
    }
  }

  /** Begins a step; if it takes time, returns a promise, so that later steps run in parallel. */
  begin (s: Step): Promise<unknown> | undefined {
    if (s.do === 'use') this.#use(s.id)
    if (s.do === 'release') this.#releases.shift()?.()
    if (s.do === 'lease') this.#leased.add(s.id)
    if (s.do === 'unlease') this.#leased.delete(s.id)
    if (s.do === 'stage') this.#stage(s.id)
    if (s.do === 'deactivated') return this.#evictor.deactivated(s.id)
    if (s.do === 'purge') return this.#evictor.purge(s.id)
    if (s.do !== 'room') return undefined
    return this.#evictor.makeRoom(s.bytes, s.id).catch((error: unknown) => {
      if (!(error instanceof StoreError)) throw error
    })
  }
}

t.test('nothing used, leased or a companion of it is ever removed, whatever comes when', async (t) => {
  const seen = { removals: 0, refused: 0 }
  await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 30, maxLength: 60 }), async (steps) => {
    const node = new Node()
    const passes: (Promise<unknown> | undefined)[] = []
    for (const s of steps) {
      passes.push(node.begin(s))
      for (let n = s.do === 'wait' ? s.turns : 0; n > 0; n--) await turn()
    }
    await Promise.all(passes)
    seen.removals += node.removals
    seen.refused += node.refused
    if (node.wrong.length > 0) throw new Error(node.wrong.join(', '))
  }), { seed: 20_260_102, numRuns: 400 })
  t.ok(seen.removals > 1000, `${seen.removals} copies were removed in all`)
  t.ok(seen.refused > 50, `${seen.refused} uses came in the middle of a removal`)
})
