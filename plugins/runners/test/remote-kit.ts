import http from 'node:http'
import { duplexPair, type Duplex } from 'node:stream'
import {
  ClusterService, type Caller, type EngineChunk, type MemberRequest, type MemberResponse, type ModelCard,
  type NodeView, type Section
} from '../../../kernel/index.js'
import { memberRequest } from '../../../kernel/test/member-request.js'
import { fake, type ManualClock, type TestContext } from '../../../kernel/testing/index.js'
import { setMember } from '../../../kernel/http/forwarded.js'
import { PlacedInstances } from '../instances/document.js'
import type { RunnerSet, Member } from '../instances/runner-set.js'
import { PrefixTable } from '../routing/prefixes.js'
import { Routing } from '../routing/routing.js'
import type { RunnerStatus } from '../service.js'
import type { Instance, InstanceFailure } from '../instances/sections.js'
import { TaskTable } from '../routing/tasks.js'
import { bundle, startRunners, until, type FakeRunner, type RunnersRig } from './rig.js'
import { card, soloInstance } from './samples.js'

export const VOICE = 'svc/voice-en'
export const caller: Caller = { id: 'somebody', mode: 'direct', authorities: new Set(['invoke']) }
export const task = { kind: 'tts', payload: { text: 'hello' } }
export const query = { modelId: VOICE, capability: 'tts', commandId: 'C', caller }
/** The requesting node. */
export const ASKER = { nodeId: 'asker-1', installId: '00000000-0000-4000-8000-00000000000a', name: 'alpha' }

/** Answers a request in place of the serving node. */
export type Stand = (request: http.IncomingMessage, response: http.ServerResponse) => void

/** A requesting node (its routing) and a serving one (the plugin on a kernel), joined in memory. */
export interface Pair {
  asker: Routing
  /** The tasks that the requesting node serves itself. */
  tasks: TaskTable
  /** TaskFailed events from the requesting node. */
  failed: object[]
  rig: RunnersRig
  runner: FakeRunner
  clock: ManualClock
  /** By install id, whether a node counts as live; initially both do. */
  live: Map<string, boolean>
  /** Install ids of nodes that have announced their stop. */
  leaving: Set<string>
  /** The requesting node's sockets for all connections so far. */
  sockets: Duplex[]
  stand: { is: Stand | null }
  /** Sends any message from the requesting to the serving node. */
  request (request: Partial<MemberRequest>): Promise<MemberResponse>
}

export interface PairOptions {
  /** If set, the requesting node has a ready runner with this many open tasks. */
  own?: { load: number }
  /** The status that the serving node reports for its runner. */
  status?: RunnerStatus
  cards?: ModelCard[]
  /** True if the requesting node has no card for the voice model. */
  storeAway?: boolean
  /** The load from other nodes' tasks that the serving node reported. */
  told?: number
}

/** A cluster whose channels have no receivers. */
const deaf = {
  channel: () => ({ send: () => false, broadcast: () => 0, close () {} }),
  onPeers: () => () => {}
}

/** Starts both nodes. The serving node has the model and a ready runner. */
export async function pair (t: TestContext, options: PairOptions = {}): Promise<Pair> {
  const live = new Map<string, boolean>([[ASKER.installId, true]])
  const views: NodeView[] = []
  const resolve = (ref: string): NodeView | undefined => {
    const view = views.find((one) => one.nodeId === ref || one.installId === ref)
    return view === undefined ? undefined : { ...view, live: live.get(view.installId) === true }
  }
  const leaving = new Set<string>()
  const nodes = (): NodeView[] => views.map((view) =>
    ({ ...view, live: live.get(view.installId) === true, leaving: leaving.has(view.installId) }))
  const rig = await startRunners(t, { fakes: [fake(ClusterService, { resolve, nodes, ...deaf })] })
  const runner = await rig.runner(VOICE)
  runner.ready()
  const { nodeId, installId } = await identity(rig)
  live.set(installId, true)
  views.push(viewOf(ASKER, true), viewOf({ nodeId, installId, name: 'beta' }, false))

  const sockets: Duplex[] = []
  const stand: Pair['stand'] = { is: null }
  const request = connector(rig, sockets, stand)
  const { instances, ...sections } = await sectionsOf(rig, options)
  const tasks = new TaskTable(() => 0)
  const failed: object[] = []
  let ids = 0
  const asker = new Routing({
    self: ASKER,
    bundle: bundle(options.cards ?? []),
    models: {
      card: (id) => id === VOICE && options.storeAway !== true ? card(VOICE) : undefined,
      copies: () => [{ nodeId, nodeName: 'beta', kind: 'staged', live: true }],
      allCopies: () => new Map(),
      silentStore: () => undefined
    },
    cluster: { resolve, nodes, request: async (_to, sent) => await request(sent) },
    gossip: { load: () => options.told ?? null, tasks: () => [] },
    prefixes: new PrefixTable(),
    state: undefined,
    placed: new PlacedInstances(instances, ASKER.nodeId),
    sections,
    clock: rig.clock,
    log: { debug () {}, info () {}, warn () {}, error () {}, fatal () {} },
    fleet: ownFleet(options.own, tasks),
    tasks,
    newId: () => `00000000-0000-4000-8000-${String(++ids).padStart(12, '0')}`,
    backend: () => null,
    absence: () => null,
    off: () => undefined,
    learning: () => false,
    watchers: { admit () {}, begin: () => undefined, beginVirtual: () => undefined },
    taskFailed: (failure) => { failed.push(failure) }
  })
  return {
    asker, tasks, failed, rig, runner, live, leaving, sockets, stand, clock: rig.clock,
    request: (sent) => request({ method: 'POST', path: '/runners/tasks', caller, ...sent })
  }
}

const viewOf = (node: { nodeId: string, installId: string, name: string }, self: boolean): NodeView =>
  ({ ...node, self, live: true, master: self, apiUrl: null })

async function identity (rig: RunnersRig): Promise<{ nodeId: string, installId: string }> {
  const said = (await rig.inject({ url: '/node/identity' })).json() as Record<string, string>
  return { nodeId: said['nodeId']!, installId: said['nodeInstallId']! }
}

/** The document sections about the serving node, as the requesting node has them. */
async function sectionsOf (rig: RunnersRig, { status, own }: PairOptions): Promise<{
  instances: Section<Instance>, runners: Section<RunnerStatus>, failures: Section<InstanceFailure>
}> {
  const { instances, runners } = await rig.state() as unknown as
    { instances: Record<string, Instance>, runners: Record<string, RunnerStatus> }
  const { nodeId } = await identity(rig)
  const section = <T>(all: Record<string, T>): Section<T> => ({
    get: (key: string) => all[key],
    entries: () => Object.entries(all).map(([key, value]) => ({ nodeId, key, value })),
    observe: () => () => {}
  }) as unknown as Section<T>
  const shown = status === undefined ? runners
    : Object.fromEntries(Object.keys(runners).map((id) => [id, status]))
  const mine = soloInstance({ ...OWN, nodeId: ASKER.nodeId }, card(VOICE))
  return {
    instances: section(own === undefined ? instances : { ...instances, [OWN.instanceId]: mine }),
    runners: section(shown), failures: section<InstanceFailure>({})
  }
}

const OWN = { instanceId: '0-own', runnerId: 'own-runner', modelId: VOICE }

/** The requesting node's own runners: none, or a ready one. */
function ownFleet (own: PairOptions['own'], tasks: TaskTable): RunnerSet {
  const member: Member =
    { assignment: OWN, supervisor: null, card: null, isDonor: false, gaveUp: false, rounds: 0, readyAt: null,
      loadedAt: null, startedAt: 0 }
  for (let n = 0; n < (own?.load ?? 0); n++) {
    const { instanceId, modelId, runnerId } = OWN
    const about = { commandId: 'x', instanceId, modelId, capability: 'tts', createdAt: 'T' }
    tasks.add({ taskId: `mine-${n}`, ...about }, runnerId)
  }
  return {
    members: () => own === undefined ? [] : [member],
    get: (runnerId: string) => own !== undefined && runnerId === OWN.runnerId ? member : undefined,
    ready: () => true,
    status: () => ({ RunnerReady: {} }),
    reports: () => []
  } as unknown as RunnerSet
}

/** Sends requests to the serving node over connections with almost no buffer. */
function connector (
  rig: RunnersRig, sockets: Duplex[], stand: Pair['stand']
): (request: MemberRequest) => Promise<MemberResponse> {
  const instead = http.createServer((request, response) => { stand.is?.(request, response) })
  return async (request) => {
    const [near, far] = duplexPair({ highWaterMark: 1024 })
    sockets.push(near)
    far.on('error', () => {})
    near.on('close', () => { far.destroy() })
    far.on('close', () => { near.destroy() })
    setMember(far, ASKER.installId)
    ;(stand.is === null ? rig.app.server : instead).emit('connection', far)
    return await memberRequest({ createConnection: () => near, headers: { host: 'members' } }, request)
  }
}

/** The data that a reader received: the chunks of a stream, and how it ended. */
export interface Heard { chunks: EngineChunk[], error: Record<string, unknown> | null }

/** Reads a stream to its end and calls `onChunk` for each chunk. */
export async function hear (
  stream: AsyncIterable<EngineChunk>, onChunk: (chunk: EngineChunk) => unknown = () => {}
): Promise<Heard> {
  const heard: Heard = { chunks: [], error: null }
  try {
    for await (const chunk of stream) {
      heard.chunks.push(chunk)
      await onChunk(chunk)
    }
  } catch (error) {
    heard.error = error as Record<string, unknown>
  }
  return heard
}

export async function taskAt (rig: RunnersRig, taskId: string): Promise<Record<string, string> | undefined> {
  const { tasks } = await rig.state() as unknown as { tasks: Record<string, { Inference: never }> }
  return tasks[taskId]?.Inference
}

export { until }
