import { ClusterService, SessionService, StateService } from '../../../kernel/index.js'
import type { EngineDecl, ModelCard, NodeReport, NodeView } from '../../../kernel/index.js'
import { fake, manualClock, startPlugin } from '../../../kernel/testing/index.js'
import type { ManualClock, Rig, TestContext } from '../../../kernel/testing/index.js'
import {
  bodyOf, BundleService, InstanceService, MachineService, runnerErrors
} from '../../runners/service.js'
import { ModelsService } from '../../staging/service.js'
import type { Models } from '../../staging/service.js'
import { errors, refuse } from '../errors.js'
import type { InstanceStates } from '../progress/progress.js'
import placement from '../index.js'
import type { commands } from '../waitlist.js'
import type { SeenTask } from '../cli/state.js'
import type {
  MissingReason, PendingInstance, Instance, EndingInstance, RouteQuery
} from '../../runners/service.js'

interface Edge { sinkMultiaddr: { ipAddress: string, port: number } | null, session: boolean }

/** The state that GET /state returns; tests modify it. */
export interface StateView extends InstanceStates {
  instances: Record<string, Instance>
  runners: Record<string, Record<string, unknown>>
  downloads: Record<string, Record<string, object>[]>
  topology: { nodes: string[], connections: Record<string, Record<string, Edge[]>> }
  nodeMemory: Record<string, { ramTotal: { inBytes: number }, ramAvailable: { inBytes: number } }>
  nodeSystem: Record<string, NonNullable<NodeReport['system']>>
  nodeResources: Record<string, NonNullable<NodeReport['resources']>>
  tasks?: Record<string, { Inference?: SeenTask }>
  /** How many times the GPUs have been read. */
  looks?: number
  instanceFailures: InstanceStates['instanceFailures'][number][]
}

export const GIB = 1024 ** 3
export const ID = '00000000-0000-4000-8000-000000000000'

/** A model card with 10 layers and 10 GiB of weights. */
export function card (modelId: string, over: Partial<ModelCard> = {}): ModelCard {
  return {
    modelId, revision: 'r1', title: modelId, description: '', tasks: ['chat'], family: 'llama', engine: 'lm',
    backends: ['cpu', 'cuda'], files: [{ path: 'model.onnx', role: 'weights', bytes: 10 * GIB }],
    totalBytes: 10 * GIB, nLayers: 10, hiddenSize: 64, heads: 8, kvHeads: 8, headSize: 0,
    contextLength: 4096, supportsTensor: false, companions: [], licence: 'MIT', languages: ['en'],
    quantization: null, voices: [], defaults: {}, support: {}, ...over
  }
}

type Engine = Partial<EngineDecl>

/**
 * Fake engines by name. `wide` runs on several nodes, `star` on several with a driver, the others on one;
 * only `gpu` uses a GPU.
 */
const ENGINES: Record<string, Engine> = {
  lm: {}, 'llama-server': {}, wide: { multiNode: true, tensor: true },
  star: { multiNode: true, meta: 'LlamaRpc' },
  gpu: { backends: ['cuda', 'cpu'], overhead: 1.1 }
}

export function nodeView (name: string, over: Partial<NodeView> = {}): NodeView {
  return {
    nodeId: `id-${name}`, installId: `install-${name}`, name, self: name === 'n1', live: true,
    master: name === 'n1', apiUrl: null, ...over
  }
}

/** State of fully connected nodes; `gibs` is the RAM of each in GiB, half of which is free. */
export function stateOf (gibs: Record<string, number>): StateView {
  const ids = Object.keys(gibs).map((name) => `id-${name}`)
  const edge = { sinkMultiaddr: { ipAddress: '10.0.0.1', port: 52415 }, session: true }
  const each = <T>(of: (gib: number) => T): Record<string, T> =>
    Object.fromEntries(Object.entries(gibs).map(([name, gib]) => [`id-${name}`, of(gib)]))
  return {
    instances: {}, runners: {}, downloads: {}, instanceFailures: [], nodeSystem: {},
    topology: {
      nodes: ids,
      connections: Object.fromEntries(ids.map((from) =>
        [from, Object.fromEntries(ids.filter((to) => to !== from).map((to) => [to, [edge]]))]))
    },
    nodeMemory: each((gib) => ({
      ramTotal: { inBytes: gib * GIB }, ramAvailable: { inBytes: gib * GIB / 2 }
    })),
    // Another engine can use the GPU here; the engine `gpu` has only the CPU.
    nodeResources: each(() =>
      ({ backends: ['cpu', 'cuda'], engineBackends: { gpu: ['cpu'] }, participation: 'full' as const }))
  }
}

export interface Options {
  /** RAM in GiB by node name; the node n1 receives the requests. */
  nodes?: Record<string, number>
  lost?: string[]
  cards?: ModelCard[]
  staged?: Record<string, Record<string, number>>
  allow?: string[]
  isMaster?: boolean
  /** Id of a node whose model store does not report its contents. */
  silentStore?: string
  /** True to make the card of a bundled model unreadable. */
  brokenCard?: boolean
  sourceless?: string[]
  full?: string[]
  config?: Record<string, unknown>
}

export interface PlacementRig extends Rig {
  /** Emits a state change before advancing, because tests modify the state directly. */
  clock: ManualClock
  decide (name: keyof typeof commands, args: object): Promise<void>
  /** Advances the clock without emitting a state change. */
  rest (ms: number): Promise<void>
  state: StateView
  placed: { instance: Instance, options: { commandId?: string, force?: boolean } | undefined }[]
  removed: string[]
  commands: [name: string, id: string | undefined][]
  drained: { instanceId: string, seconds: number }[]
  /** The instances that were to be unloaded, each with the model that needs the memory. */
  evicted: string[]
  /** The handler that the plugin registered for requests to missing models, or null. */
  missing: ((query: RouteQuery) => Promise<boolean>) | null
  absence: (modelId: string) => MissingReason | null
  /** Replies from the master to the next placements, in order. */
  answers: (Error | string)[]
  /** The check that the plugin registered for new instances on the master. */
  check: (entering: PendingInstance) => void
  reads: number
  /** Ids of nodes that are not live but that other nodes reach. */
  reached: Set<string>
  changed: () => void
  newSession: () => void
  session: { isMaster: boolean }
  views: NodeView[]
  failed: { instanceId: string, errorCode: string }[]
  releasing: EndingInstance[]
  /** True to report that memory has just been released. */
  settling: boolean
  ask (method: string, url: string, payload?: unknown): Promise<{ status: number, body: Body }>
}

export interface Body extends Record<string, unknown> {
  error?: {
    message: string, reason: string, retryable: boolean, param: string | null
    details: Record<string, unknown> & { issues?: { path: string, message: string }[] }
  }
}

export async function startPlacement (t: TestContext, options: Options = {}): Promise<PlacementRig> {
  const { nodes = { n1: 64 }, lost = [], cards = [card('acme/chat')], staged = {} } = options
  const state = stateOf(nodes)
  const made = {
    state, placed: [] as PlacementRig['placed'], removed: [] as string[], answers: [] as (Error | string)[],
    check: (() => {}) as PlacementRig['check'], reads: 0, reached: new Set<string>(), changed: () => {},
    newSession: () => {},
    session: { isMaster: options.isMaster ?? false },
    views: [
      ...Object.keys(nodes).map((name) => nodeView(name)),
      ...lost.map((name) => nodeView(name, { live: false }))
    ],
    commands: [] as PlacementRig['commands'],
    failed: [] as PlacementRig['failed'], releasing: [] as EndingInstance[], settling: false,
    drained: [] as PlacementRig['drained'], evicted: [] as string[], missing: null, absence: () => null
  }
  const clock = manualClock()
  // Declare the runners plugin's errors here, because that plugin is not started.
  let command: ((name: string, args: object) => Promise<unknown>) | undefined
  const alone: typeof placement = {
    manifest: { ...placement.manifest, errors: { ...errors, ...runnerErrors } },
    start (ctx) {
      command = ctx.command as never
      const recorded = async (name: string, args: object, id?: string): Promise<unknown> => {
        made.commands.push([name, id])
        return await (ctx.command as never as typeof recorded)(name, args, id)
      }
      return placement.start(Object.create(ctx, { command: { value: recorded } }) as typeof ctx)
    }
  }
  const rig = await startPlugin(t, alone, {
    clock, ...(options.config === undefined ? {} : { config: options.config }),
    ...(options.allow === undefined ? {} : { allow: options.allow }),
    fakes: [...clusterFakes(made), ...modelFakes(made, cards, staged, options), placing(made)]
  })
  // Extend `made` itself instead of a copy, because the fakes continue to modify it.
  return Object.assign(made, rig, {
    rest: clock.advance,
    async decide (name: string, args: object) {
      const done = command!(name, args)
      await clock.advance(10)
      await done
    },
    clock: {
      ...clock,
      async advance (ms: number) {
        made.changed()
        await clock.advance(ms)
      }
    },
    async ask (method: string, url: string, payload?: unknown) {
      const answer = await rig.inject({ method, url, ...(payload === undefined ? {} : { payload }) })
      return { status: answer.statusCode, body: answer.json<Body>() }
    }
  })
}

type Parts = 'reached' | 'state' | 'placed' | 'removed' | 'answers' | 'session' | 'views' | 'failed' |
  'releasing' | 'settling' | 'drained' | 'evicted' | 'missing' | 'absence'

interface Made extends Pick<PlacementRig, Parts> {
  check: PlacementRig['check']
  reads: number
  changed: () => void
  newSession: () => void
}

/** The nodes' reports, without links to lost nodes. */
function reports (made: Made): NodeReport[] {
  made.reads++
  const { topology, nodeMemory, nodeSystem, nodeResources } = structuredClone(made.state)
  const gone = new Set(made.views.filter(({ live, nodeId }) => !live && !made.reached.has(nodeId))
    .map(({ nodeId }) => nodeId))
  return made.views.map((view) => ({
    view,
    memory: nodeMemory[view.nodeId] ?? null,
    system: nodeSystem[view.nodeId] ?? null,
    resources: nodeResources[view.nodeId] ?? null,
    links: Object.entries(topology.connections[view.nodeId] ?? {})
      .filter(([to, [edge]]) => edge?.session === true && !gone.has(to))
      .map(([nodeId, [edge]]) => ({ nodeId, ...edge!.sinkMultiaddr!, rttMs: null, bytesPerSecond: null }))
  }))
}

function clusterFakes (made: Made): ReturnType<typeof fake>[] {
  const { views } = made
  return [
    fake(ClusterService, {
      self: { installId: 'install-n1', nodeId: 'id-n1' },
      nodes: () => views,
      onPeers: () => () => {},
      resolve: (ref) => views.find(({ nodeId, installId, name }) => [nodeId, installId, name].includes(ref))
    }),
    fake(SessionService, {
      sessionId: 'S1',
      get isMaster () { return made.session.isMaster },
      onChange: (fn) => {
        const before = made.newSession
        made.newSession = () => {
          before()
          fn()
        }
        return () => {}
      }
    }),
    fake(MachineService, {
      async freeVram () {
        made.state.looks = (made.state.looks ?? 0) + 1
        return []
      }
    }),
    fake(StateService, {
      nodes: () => reports(made),
      read: async () => ({ tasks: made.state.tasks ?? {} }),
      onChange (fn) {
        const before = made.changed
        made.changed = () => {
          before()
          fn()
        }
        return () => {}
      }
    })
  ]
}

function modelFakes (
  { state }: Made, cards: ModelCard[], staged: Record<string, Record<string, number>>,
  { brokenCard, silentStore, sourceless = [], full = [] }: Options
): ReturnType<typeof fake>[] {
  const engines = Object.entries(ENGINES).map(([name, decl]) =>
    ({ name, owner: 'x', decl: { summary: '', module: '', backends: ['cpu'], ...decl } }))
  const models: Partial<Models> = {
    opened: Promise.resolve(),
    transfers: () => structuredClone(state.downloads) as never,
    digest: () => null,
    isVirtual: (modelId) => modelId === 'acme/oracle',
    card: (modelId) => cards.find((one) => one.modelId === modelId),
    cards: () => cards.map((one) => ({ card: one, origin: 'store' as const })),
    silentStore: () => silentStore === undefined ? undefined : nodeView(silentStore, { live: false }),
    copies: (modelId) => sourceless.includes(modelId) ? []
      : [{ nodeId: 'id-n1', nodeName: 'n1', kind: 'store', live: true }],
    withoutRoom: async (_modelId, nodeIds) => full.map((name) => `id-${name}`)
      .flatMap((nodeId) => nodeIds.includes(nodeId) ? [{ nodeId, message: '9 GiB are missing.' }] : []),
    stagedBytes: (modelId) => new Map(Object.entries(staged[modelId] ?? {})),
    memory: () => () => {}
  }
  return [
    fake(BundleService, {
      engines: () => engines,
      models () {
        if (brokenCard === true) throw new Error('card.yaml cannot be read')
        return []
      },
      model: () => undefined
    }),
    fake(ModelsService, models)
  ]
}

function placing (made: Made): ReturnType<typeof fake> {
  return fake(InstanceService, {
    placed () {
      const { instances, runners, instanceFailures } = structuredClone(made.state)
      return { instances, runners, failures: instanceFailures } as never
    },
    async place (instance, options) {
      made.placed.push({ instance, options })
      const answer = made.answers.shift()
      if (answer instanceof Error) throw answer
      if (answer !== undefined) return answer
      const { instanceId } = bodyOf(instance)
      made.state.instances[instanceId] = instance
      made.changed()
      return instanceId
    },
    async remove (instanceId) {
      made.removed.push(instanceId)
      if (made.state.instances[instanceId] === undefined) {
        throw refuse('instance_not_found', `No instance ${instanceId}.`)
      }
      delete made.state.instances[instanceId]
    },
    onEnter (check) {
      made.check = check
      return () => {}
    },
    evict (instanceId, into) { made.evicted.push(`${instanceId} for ${into}`) },
    releasing: () => made.releasing,
    settling: () => made.settling,
    recordFailure (failure) {
      made.failed.push(failure)
      made.state.instanceFailures.push(failure)
    },
    async drain (instanceId, { seconds }) {
      made.drained.push({ instanceId, seconds })
      const instance = made.state.instances[instanceId]
      if (instance === undefined) throw refuse('instance_not_found', `No instance ${instanceId}.`)
      bodyOf(instance).drainUntil = new Date(seconds * 1000).toISOString()
    },
    onMissing (place) {
      made.missing = place
      return () => {}
    },
    onAbsent (tell) {
      made.absence = tell
      return () => {}
    }
  })
}

export function runnersAre (state: StateView, instanceId: string, status: Record<string, unknown>): void {
  const { runnerToShard } = bodyOf(state.instances[instanceId]!).shardAssignments
  for (const runnerId of Object.keys(runnerToShard)) state.runners[runnerId] = status
}

/** Yields to pending promises until the condition holds. */
export async function until (condition: () => boolean): Promise<void> {
  for (let i = 0; i < 2000 && !condition(); i++) await new Promise((resolve) => setImmediate(resolve))
  if (!condition()) throw new Error('it did not come about')
}
