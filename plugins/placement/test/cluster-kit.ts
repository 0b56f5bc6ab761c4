/** Several nodes in one process, with one manual clock, the real kernel, runners and placement. */
import { Ajv2020 } from 'ajv/dist/2020.js'
import type { JsonSchema, ModelCard, Plugin, MachineStats } from '../../../kernel/index.js'
import { definePlugin, EventTapService, LogRingService } from '../../../kernel/index.js'
import { createLogRing } from '../../../kernel/observe/log-ring.js'
import type { Bundle, BundledModel, Instance, RingInstance } from '../../runners/service.js'
import { bodyOf } from '../../runners/service.js'
import { coreCluster } from '../../cluster/test/core-kit.js'
import { kernelsOn } from '../../cluster/test/core-rig.js'
import { createRunners } from '../../runners/index.js'
import { FakeRunner, noGpus } from '../../runners/test/rig.js'
import { machine } from '../../runners/test/samples.js'
import placement from '../index.js'
import { card, GIB } from './kit.js'
import type { CoreCluster, CoreNode, CoreOptions, Owner } from '../../cluster/test/core-kit.js'
import type { NodeRig } from '../../cluster/test/core-rig.js'
import type { KernelOptions } from '../../../kernel/plugins/assembly.js'

export interface ClusterOptions extends Pick<CoreOptions, 'nodes' | 'quorum'> {
  cards?: ModelCard[]
  config?: Record<string, unknown>
  runners?: Record<string, Record<string, unknown>>
  /** Called for each runner that starts; by default it makes the runner ready. */
  started?: (runner: FakeRunner, node: CoreNode) => void
}

export interface TestCluster extends CoreCluster {
  rigs: NodeRig[]
  /** Free memory in bytes by node name; 8 GB by default. */
  free: Map<string, number>
  runners: { node: string, runner: FakeRunner }[]
  events: { node: string, kind: string, payload: Record<string, unknown> }[]
  /** Sends a request and advances the clock until the node has answered. */
  ask (rig: NodeRig, method: string, url: string, payload?: object): Promise<{ status: number, body: Body }>
  /** Places a model and waits until it is ready; resolves to the instance id and the rig of its node. */
  place (at: NodeRig, model: string, more?: object): Promise<{ id: string, on: NodeRig }>
  instances (at: NodeRig): Promise<RingInstance[]>
  rigOf (ring: RingInstance): NodeRig
  lose (rig: NodeRig): void
  /** Advances the clock in steps of 100 ms until the callback returns a result. */
  eventually<T> (what: string, look: () => Promise<T | undefined | false>): Promise<T>
}

type Body = Record<string, unknown> & { error?: { reason: string, message: string } }

const engines = [
  { name: 'lm', owner: 'x', decl: { summary: '', module: 'file:///lm.js', backends: ['cpu'] } },
  { name: 'star', owner: 'x', decl: {
    summary: '', module: 'file:///star.js', backends: ['cpu'], multiNode: true, meta: 'LlamaRpc' as const
  } }
]

/** Starts a cluster whose nodes follow the same master and have exchanged their readings. */
export async function startCluster (t: Owner, options: ClusterOptions = {}): Promise<TestCluster> {
  const { nodes = 3, quorum = 1 } = options
  const core = await coreCluster(t, { nodes, quorum })
  const free = new Map<string, number>()
  const runners: TestCluster['runners'] = []
  const events: TestCluster['events'] = []
  const own = (node: CoreNode): Partial<KernelOptions> => {
    const { plugins = [], ...parts } = ownParts(options, core, node, free, runners)
    return { ...parts, plugins: [...plugins, listener(node.name, events)] }
  }
  const rigs = await kernelsOn(t, core, { own })
  const cluster = Object.assign(core, { rigs, free, runners, events }, doings(core, rigs)) as TestCluster
  await cluster.eventually('all to know of all memory', async () => {
    const states = await Promise.all(rigs.map(async (rig) => await rig.get('/state')))
    return states.every((state) =>
      Object.keys((state as { nodeMemory: object }).nodeMemory).length === nodes)
  })
  return cluster
}

function listener (node: string, events: TestCluster['events']): Plugin {
  return definePlugin({
    name: 'listener', version: '1.0.0', kernel: '^1.0.0', summary: 'Listens.',
    consumes: { tap: EventTapService }
  }, ({ deps: { tap } }) => {
    tap.onDurable(({ kind, payload }) => { events.push({ node, kind, payload }) })
    return {}
  })
}

function ownParts (
  { cards = [small()], config = {}, runners: settings = {}, started }: ClusterOptions, core: CoreCluster,
  node: CoreNode, free: ReadonlyMap<string, number>, made: TestCluster['runners']
): Partial<KernelOptions> {
  const models: BundledModel[] = cards.map((one) => ({ card: one, directory: `/models/${one.modelId}` }))
  const createSupervisor = (given: ConstructorParameters<typeof FakeRunner>[0]): FakeRunner => {
    const runner = new FakeRunner(given)
    const { start } = runner
    runner.start = () => {
      start.call(runner)
      if (started === undefined) runner.ready()
      else started(runner, node)
    }
    made.push({ node: node.name, runner })
    return runner
  }
  const bundle: Bundle = {
    engines: () => engines,
    engine: (name) => engines.find((one) => one.name === name),
    models: () => models,
    model: (id) => models.find(({ card: { modelId } }) => modelId === id),
    cardReaders: () => []
  }
  const vitals = async (): Promise<MachineStats> => ({
    memory: {
      ramTotal: { inBytes: 16e9 }, ramAvailable: { inBytes: free.get(node.name) ?? 8e9 },
      swapTotal: { inBytes: 0 }, swapAvailable: { inBytes: 0 }
    },
    system: { ...noGpus.load(), pcpuUsage: 0.5 }, disk: null, network: null
  })
  const reader = { ...noGpus, vitals }
  const runners = createRunners({ createSupervisor, files: machine(), uid: 1000, bundle, reader })
  return {
    plugins: [runners, placement],
    config: (plugin) => plugin === 'placement'
      ? withDefaults(placement.manifest.config!, { autoplace: [], ...config })
      : withDefaults(runners.manifest.config!, { ...settings[node.name] }),
    services: new Map<string, unknown>([
      [LogRingService.id, createLogRing({ clock: core.clock })]
    ])
  }
}

export const small = (): ModelCard => card('acme/chat', { totalBytes: GIB })

function withDefaults (schema: JsonSchema, settings: Record<string, unknown>): Record<string, unknown> {
  const all = structuredClone(settings)
  new Ajv2020({ useDefaults: true, strict: false }).compile(schema)(all)
  return all
}

function doings (core: CoreCluster, rigs: NodeRig[]): Omit<TestCluster, keyof CoreCluster | 'rigs' | 'free' |
  'runners' | 'events'> {
  const rigOf = (ring: RingInstance): NodeRig => {
    const [nodeId] = Object.keys(ring.shardAssignments.nodeToRunner)
    const found = rigs.find(({ node }) => node.running && node.node.nodeId === nodeId)
    if (found === undefined) throw new Error(`no node that runs is called ${nodeId}`)
    return found
  }
  const ask: TestCluster['ask'] = async (rig, method, url, payload) => {
    const answer = await core.settled(rig.ask(method, url, payload))
    return { status: answer.statusCode, body: answer.json<Body>() }
  }
  const instances = async (at: NodeRig): Promise<RingInstance[]> => {
    const state = await at.get('/state') as { instances: Record<string, Instance> }
    return Object.values(state.instances).map(bodyOf)
  }
  return {
    ask, instances, rigOf,
    async place (at, model, more = {}) {
      const wanted = { model_id: model, wait: true, ...more }
      const { status, body } = await ask(at, 'POST', '/place_instance', wanted)
      if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`)
      const id = body['instance_id'] as string
      return { id, on: rigOf((await instances(at)).find(({ instanceId }) => instanceId === id)!) }
    },
    lose ({ node }) { core.kill(node) },
    async eventually (what, look) {
      for (let ms = 0; ms < LIMIT_MS; ms += LOOK_MS) {
        const found = await look()
        if (found !== undefined && found !== false) return found
        await core.run(LOOK_MS)
      }
      throw new Error(`waited in vain: ${what}`)
    }
  }
}

/** Time limit of `eventually`, and its pause between two attempts, in ms of the manual clock. */
const LIMIT_MS = 120_000
const LOOK_MS = 100
