import t from 'tap'
import { createAnnouncer } from '../../runners/instances/document.js'
import { commandHandlers } from '../../runners/instances/commands.js'
import { sections, type Instance } from '../../runners/instances/sections.js'
import { coreCluster, type CoreCluster, type CoreNode, type Owner } from '../../cluster/test/core-kit.js'
import { schemaChecker } from '../../../kernel/api/validate.js'
import { startReplication } from '../replication/start.js'
import { EventLog } from '../log/log.js'
import { Draft, partOf, type ClusterPart } from '../history/part.js'
import { memoryStore } from '../store/opening.js'
import { chance } from './history-kit.js'
import type { Clock, Logger, Section } from '../../../kernel/index.js'
import type { ClusterCore } from '../../cluster/cluster.js'

const nothing = (): void => {}
const quiet: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing, fatal: nothing }

/** A cluster of the real core with the real event log on each node. */
interface Recorded { c: CoreCluster, instances: string[], log (node: CoreNode): EventLog }

const section = (core: ClusterCore): Section<Instance> =>
  core.sections.section<Instance>('instances', sections.instances)

type Tell = (event: { kind: string, payload: Record<string, unknown> }) => void

async function recorded (t: Owner, seed: number): Promise<Recorded> {
  const logs = new Map<string, EventLog>()
  const tells = new Map<string, Tell>()
  const stops = new Map<string, () => void>()
  const clock: Clock = { now: () => c!.clock.now(), mono: () => c!.clock.mono(),
    after: (ms, fn) => c!.clock.after(ms, fn), every: (ms, fn) => c!.clock.every(ms, fn) }
  let c: CoreCluster | undefined
  const feed = (core: ClusterCore, name: string): void => {
    stops.get(name)?.()
    if (!logs.has(name)) logs.set(name, new EventLog())
    const { stop } = startReplication({
      checker: schemaChecker,
      log: logs.get(name)!, store: memoryStore(), clock, cluster: core.service,
      session: core.session, logger: quiet,
      nodeId: core.service.self.nodeId, dropped: () => { throw new Error('an event was dropped') },
      tap: { kinds: () => [], onDurable: (fn) => { tells.set(name, fn); return () => {} } }
    })
    stops.set(name, stop)
  }
  const tell = (name: string, kind: string, payload: Record<string, unknown>): void => {
    tells.get(name)?.({ kind, payload })
  }
  const prepare = (core: ClusterCore, name: string): void => {
    if (c !== undefined) feed(core, name)
    const handlers = commandHandlers({
      section: section(core), now: () => 0, live: () => true, check: () => {}, digest: () => undefined
    })
    const announce = createAnnouncer({
      section: section(core), session: core.session, log: quiet,
      settled: async () => { await core.commands.run('test.settle', {}) },
      created: (event) => { tell(name, 'InstanceCreated', { ...event }) },
      deleted: (event) => { tell(name, 'InstanceDeleted', event) },
      report: async () => {}
    })
    section(core).observe(() => { void announce.look() })
    core.session.onChange(() => { void announce.look() })
    core.commands.handle('test.settle', () => null)
    core.commands.handle('test.create', (args) => handlers.create(args as never))
    core.commands.handle('test.remove', (args) => handlers.remove(args as never))
  }
  c = await coreCluster(t, { nodes: 3, quorum: 'majority', seed, prepare })
  for (const { core, name } of c.nodes) feed(core, name)
  const kept = c.events
  kept.push = (...told) => {
    for (const { node, kind, payload } of told) tell(node, kind, payload)
    return Array.prototype.push.apply(kept, told)
  }
  t.teardown(() => { for (const stop of stops.values()) stop() })
  return { c, instances: [], log: ({ name }) => logs.get(name)! }
}

/** The keys of a node's GET /state from which its cluster part is computed. */
function stateOf ({ core }: CoreNode): Record<string, unknown> {
  const { sessionId, term, masterNodeId } = core.session
  return {
    sessionId, masterNodeId, cluster: { term },
    topology: { nodes: core.directory.nodes().filter((n) => n.live).map((n) => n.nodeId) },
    instances: Object.fromEntries([...section(core).entries()].map(({ key, value }) => [key, value]))
  }
}

function instance (id: string, nodeIds: readonly string[]): Instance {
  const runners = nodeIds.map((nodeId, rank) => [nodeId, `${id}-${rank}`])
  const ring = {
    instanceId: id, contextTokenLimit: 1, systemRole: null, engine: 'x', hostsByNode: {},
    shardAssignments: { modelId: 'acme/x', runnerToShard: {}, nodeToRunner: Object.fromEntries(runners) }
  }
  return { RingInstance: ring }
}

/** Makes one random change. At most one node is away, so that there is always a majority. */
async function shake ({ c, instances }: Recorded, random: () => number): Promise<string> {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!
  const gone = c.nodes.find((node) => !node.running)
  const master = await c.agreed()
  const what = pick(['kill', 'restart', 'cut', 'create', 'create', 'remove', 'quick', 'join'])
  if (what === 'kill' && gone === undefined) c.kill(random() < 0.5 ? master : pick(c.nodes))
  else if (what === 'restart' && gone !== undefined) c.restart(gone)
  else if (what === 'cut' && gone === undefined) {
    const one = pick(c.nodes)
    c.cut([one], c.others(one))
    await c.run(random() * 20_000)
    c.heal()
  } else if (what === 'create') {
    const id = `i${instances.length}`
    instances.push(id)
    const nodes = c.nodes.filter((n) => n.running && random() < 0.5).map((n) => n.node.nodeId)
    await c.settled(pick(c.nodes.filter((n) => n.running)).core.commands.run('test.create',
      { instance: instance(id, [...nodes, `only-${id}`]), force: true }))
  } else if (what === 'remove' && instances.length > 0) {
    await c.settled(master.core.commands.run('test.remove', { instanceId: pick(instances) }))
  } else if (what === 'quick' && gone === undefined) {
    const one = pick(c.nodes)
    c.kill(one)
    c.restart(one)
  } else if (what === 'join' && c.nodes.length < 5) await c.join(master)
  else return '-'
  return what
}

/** The cluster part of a node's state at one moment, and the index of its newest event at that moment. */
interface Point { part: ClusterPart, idx: number }

/** Number of random changes, and time in ms for each to settle. */
const STEPS = 14
const SETTLE_MS = 8_000
/** Number of events applied a second time, as a snapshot may contain events newer than its index. */
const AGAIN = 4

for (const seed of [1, 2, 4]) {
  t.test(`what the real cluster tells is what it is, seed ${seed}`, async (t) => {
    const random = chance(seed)
    const one = await recorded(t, seed)
    const { c } = one
    await c.run(SETTLE_MS)
    await c.agreed()
    const now = (node: CoreNode): Point => ({ part: partOf(stateOf(node)), idx: one.log(node).last.idx })
    const points = new Map(c.nodes.map((node) => [node.name, now(node)]))
    for (let n = 0; n < STEPS; n++) {
      const did = await shake(one, random)
      await c.run(SETTLE_MS)
      const first = points.get((await c.agreed()).name)!
      for (const node of c.nodes.filter(({ running }) => running)) {
        const { part, idx } = points.get(node.name) ?? first
        const { entries } = one.log(node)
        const next = now(node)
        const behind = (after: number): ClusterPart =>
          new Draft(part, entries.filter((e) => e.idx > after)).part()
        t.strictSame(behind(idx), next.part, `${n}: ${did}, as ${node.name} sees it`)
        t.strictSame(behind(idx - AGAIN), next.part, 'with some events twice')
        points.set(node.name, next)
      }
    }
    t.ok(one.log(await c.agreed()).last.idx > 5)
  })
}

t.test('a cluster that stops as a whole and starts again', async (t) => {
  const one = await recorded(t, 9)
  const { c } = one
  await c.run(10_000)
  const before = partOf(stateOf(await c.agreed()))
  const { idx } = one.log(c.at(0)).last
  for (const node of c.nodes) c.kill(node)
  for (const node of c.nodes) c.restart(node)
  const master = await c.agreed()
  await c.run(10_000)
  const told = one.log(master).entries.filter((entry) => entry.idx > idx)
  t.strictSame(new Draft(before, told).part(), partOf(stateOf(master)))
  t.strictNotSame(before.members, partOf(stateOf(master)).members)
})
