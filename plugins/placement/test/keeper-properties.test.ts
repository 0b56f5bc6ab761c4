import fc from 'fast-check'
import t from 'tap'
import { bodyOf, type Instance } from '../../runners/service.js'
import { decide, MOVES_MAX, type Step } from '../keeper/decide.js'
import type { InstanceFailure } from '../progress/progress.js'
import type { Situation } from '../keeper/roles.js'
import { LostNodes, MISSING_MS } from '../keeper/lost-nodes.js'
import { modelOf, nodesOf } from '../place/instance.js'
import type { WaitingEntry } from '../waitlist.js'
import { nodeView } from './kit.js'
import { instance, intent, ready, situation } from './keeper-kit.js'

const RUNS = 400
const NODES = 4
const SELF = 'auto/model'

/** One command from the master; losing or moving an instance takes two commands. */
type Op = { do: 'enter' | 'place', id: string, entry: WaitingEntry } |
  { do: 'remove' | 'forget' | 'drain' | 'retire', id: string }

const opsOf = (step: Step): Op[] => {
  if (step.do === 'lose') {
    return [{ do: 'enter', id: step.id, entry: step.entry }, { do: 'remove', id: step.id }]
  }
  if (step.do === 'move') {
    return [{ do: 'enter', id: step.id, entry: step.entry }, { do: 'drain', id: step.id }]
  }
  return [step.do === 'wait' ? { ...step, do: 'enter' } : step]
}

interface Node { name: string, starts: number, up: boolean, leaving?: boolean }

/** A simulated cluster: the replicated document, the nodes and the pending commands. */
class World {
  readonly instances = new Map<string, Instance>()
  readonly waiting = new Map<string, WaitingEntry>()
  readonly failures: InstanceFailure[] = []
  readonly nodes: Node[] = Array.from({ length: NODES }, (_, i) => ({ name: `n${i}`, starts: 0, up: true }))
  /** For each request, the id of its first instance. */
  readonly asked: string[] = []
  /** Id that each instance or entry replaced, by the id of the new one. */
  readonly before = new Map<string, string>()
  /** Ids of the commands applied so far that have a fixed id; such a command is applied only once. */
  readonly #given = new Set<string>()
  readonly #lost = new LostNodes()
  /** Commands from an earlier master that have not been applied yet. */
  late: Op[] = []
  #now = 0
  #made = 0

  idOf ({ name, starts }: Node): string { return `id-${name}-${starts}` }

  decide (): Step[] {
    this.#now += 200
    const nodes = this.nodes.map((node) => nodeView(node.name, {
      nodeId: this.idOf(node), live: node.up, leaving: node.leaving === true
    }))
    const instances = [...this.instances.values()]
    const failing = new Set(this.failures.map(({ instanceId }) => instanceId))
    return decide(situation({
      instances, nodes, now: this.#now, failures: this.failures, waiting: new Map(this.waiting),
      autoplace: [SELF],
      leaving: new Set(this.nodes.filter(({ leaving }) => leaving).map((node) => this.idOf(node))),
      gone: this.#lost.look(instances, nodes, this.#now, 1e9).gone,
      runners: Object.assign({}, ...instances.filter((one) =>
        !failing.has(bodyOf(one).instanceId)).map(ready)) as Situation['runners']
    }), {
      newId: () => `w${this.#made++}`,
      fits: (modelId, { failedOn }) => this.#placeFor(modelId, failedOn) !== undefined
    })
  }

  #placeFor (modelId: string, failedOn: readonly string[]): Node | undefined {
    const taken = new Set([...this.instances.values()]
      .filter((one) => modelOf(one) === modelId).flatMap(nodesOf))
    const free = this.nodes.filter((node) => node.up && node.leaving !== true && !taken.has(this.idOf(node)))
    return free.find(({ name }) => !failedOn.includes(`install-${name}`))
  }

  apply (op: Op): void {
    if (op.do === 'enter' && !this.#given.has(op.id)) {
      this.#given.add(op.id)
      this.waiting.set(op.id, op.entry)
    } else if (op.do === 'remove') this.instances.delete(op.id)
    else if (op.do === 'drain') this.#drain(op.id)
    else if (op.do === 'forget') this.waiting.delete(op.id)
    else if (op.do === 'place') this.#place(op.id, op.entry)
  }

  #drain (id: string): void {
    const one = this.instances.get(id)
    if (one !== undefined) this.instances.set(id, { RingInstance: { ...bodyOf(one), drainUntil: 'soon' } })
  }

  /** Removes draining instances, as their live nodes would. */
  ended (): void {
    for (const [id, one] of this.instances) {
      if (bodyOf(one).drainUntil !== undefined) this.instances.delete(id)
    }
  }

  #place (id: string, { modelId, intent: wanted }: WaitingEntry): void {
    const done = [...this.instances.values()].some((one) => bodyOf(one).placement?.replaces === id)
    const node = this.#placeFor(modelId, wanted.failedOn) ?? this.#placeFor(modelId, [])
    if (done || !this.waiting.has(id) || node === undefined) return
    const made = this.create(modelId, [this.idOf(node)], { ...wanted, replaces: id })
    this.before.set(made, id)
  }

  create (modelId: string, nodeIds: string[], placement = intent()): string {
    const id = `i${this.#made++}`
    this.instances.set(id, instance(id, nodeIds, { placement }, modelId))
    return id
  }

  ask (): void {
    const id = `m${this.#made}`
    const node = this.#placeFor(id, [])
    if (node !== undefined) this.asked.push(this.create(id, [this.idOf(node)]))
  }

  fail (which: number): void {
    const one = [...this.instances.values()][which % Math.max(1, this.instances.size)]
    if (one === undefined) return
    const [nodeId] = nodesOf(one)
    const { instanceId } = bodyOf(one)
    const why = { errorCode: 'runner_failed', errorMessage: 'It failed' }
    this.failures.push({ ...why, instanceId, affectedNodeIds: [nodeId!] })
  }

  pass (ms: number): void {
    for (let left = ms; left > 0; left -= 200) this.decide()
  }

  /** All instances of one request, and its entries that are not replaced yet. */
  standing (root: string): { instances: string[], waiting: string[] } {
    const rootOf = (id: string): string => {
      let at = id
      for (let next = this.before.get(at); next !== undefined; next = this.before.get(at)) at = next
      return at
    }
    const placed = new Set([...this.instances.values()].map((one) => bodyOf(one).placement?.replaces))
    return {
      instances: [...this.instances].filter(([id, one]) =>
        rootOf(id) === root && bodyOf(one).drainUntil === undefined).map(([id]) => id),
      waiting: [...this.waiting.keys()].filter((id) =>
        rootOf(id) === root && !placed.has(id) &&
        (this.instances.get(id) === undefined || bodyOf(this.instances.get(id)!).drainUntil !== undefined))
    }
  }
}

const event = fc.oneof(
  fc.record({ what: fc.constant('ask' as const), n: fc.nat() }),
  fc.record({ what: fc.constantFrom('kill', 'restart', 'back', 'fail', 'wait', 'leave') as
    fc.Arbitrary<'kill' | 'restart' | 'back' | 'fail' | 'wait' | 'leave'>, n: fc.nat({ max: 7 }) })
)
/** An event, after which the master runs some commands and is lost; its last command may arrive late. */
const moment = fc.record({ event, commands: fc.nat({ max: 6 }), late: fc.boolean() })
type Moment = typeof moment extends fc.Arbitrary<infer M> ? M : never

function live (world: World, { event: { what, n }, commands, late }: Moment): void {
  const node = world.nodes[n % NODES]!
  if (what === 'ask') world.ask()
  if (what === 'kill') node.up = false
  if (what === 'leave') node.leaving = node.up
  if (what === 'back' || what === 'restart') node.leaving = false
  if (what === 'back') node.up = true
  if (what === 'restart') Object.assign(node, { up: true, starts: node.starts + 1 })
  if (what === 'fail') world.fail(n)
  if (what === 'wait') world.pass(MISSING_MS)
  const ops = world.decide().flatMap(opsOf)
  for (const op of ops.slice(0, commands)) world.apply(op)
  // Apply late commands from the previous master only after the new master's commands.
  for (const op of world.late) world.apply(op)
  world.late = late ? ops.slice(commands, commands + 1) : []
}

function wrong (world: World): string | undefined {
  for (const root of world.asked) {
    const { instances } = world.standing(root)
    if (instances.length > 1) return `${root} is there as ${instances.join()}`
  }
  const far = [...world.instances.values()].find((one) =>
    (bodyOf(one).placement?.failedOn.length ?? 0) > MOVES_MAX)
  return far === undefined ? undefined : `${bodyOf(far).instanceId} moved too often`
}

t.test('nothing that was asked for is lost, and nothing comes twice', (t) => {
  fc.assert(fc.property(fc.array(moment, { maxLength: 25 }), (moments) => {
    const world = new World()
    for (const one of moments) {
      live(world, one)
      const problem = wrong(world)
      if (problem !== undefined) throw new Error(problem)
    }
    for (const op of world.late) world.apply(op)
    world.pass(2 * MISSING_MS)
    for (let rounds = 0; rounds < 20; rounds++) {
      for (const op of world.decide().flatMap(opsOf)) world.apply(op)
      world.ended()
    }
    const rest = world.decide().filter((step) => step.do !== 'place')
    if (rest.length > 0) throw new Error(`it does not come to rest: ${JSON.stringify(rest)}`)
    const up = new Set(world.nodes.filter((node) => node.up).map((node) => world.idOf(node)))
    const free = world.nodes.some((node) => node.up && node.leaving !== true)
    for (const root of world.asked) {
      const { instances, waiting } = world.standing(root)
      if (instances.length + waiting.length !== 1) {
        throw new Error(`${root} is ${instances.length} times there and waits ${waiting.length} times`)
      }
      if (waiting.length > 0 && free) throw new Error(`${root} waits although there is a place`)
    }
    for (const one of world.instances.values()) {
      if (!nodesOf(one).every((id) => up.has(id))) throw new Error('an instance of a lost node is left')
    }
    const own = [...world.instances.values()].filter((one) => modelOf(one) === SELF).length +
      [...world.waiting.values()].filter(({ modelId }) => modelId === SELF).length
    if (own !== 1) throw new Error(`what is placed by itself is there ${own} times`)
    const problem = wrong(world)
    if (problem !== undefined) throw new Error(problem)
  }), { numRuns: RUNS })
  t.end()
})

t.test('a master that dies after any command: the next one ends in the same place', (t) => {
  const outcome = (stopAfter: number): unknown => {
    const world = new World()
    const id = world.create('m', [world.idOf(world.nodes[0]!)])
    world.asked.push(id)
    world.nodes[0]!.starts++
    let done = 0
    for (let rounds = 0; rounds < 8; rounds++) {
      for (const op of world.decide().flatMap(opsOf)) {
        if (done++ === stopAfter) break
        world.apply(op)
      }
    }
    const { instances, waiting } = world.standing(id)
    return [instances.length, waiting.length, world.waiting.size, world.instances.size]
  }
  for (let stopAfter = 0; stopAfter < 8; stopAfter++) {
    t.strictSame(outcome(stopAfter), [1, 0, 0, 2], `after ${stopAfter}`)
  }
  t.end()
})
