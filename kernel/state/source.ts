import os from 'node:os'
import { kernelError } from '../api/errors.js'
import { kernelManifest } from '../plugins/kernel-manifest.js'
import {
  StateHistoryService, type StateHistory, type StateReader, type LinkFact, type NodeResources, type NodeView
} from '../api/services.js'
import { baseState, redact, withViews, type HiddenFields, type NodeFacts } from './state.js'
import { MAX_READING_BYTES, type ClusterHost } from '../api/cluster.js'
import { openObject, type JsonSchema } from '../api/schema.js'
import { schemaChecker } from '../api/validate.js'
import type { Assembly } from '../plugins/assembly.js'
import type { Caller, Manifest, NodeInfo, Section } from '../api/plugin.js'
import type { NodeHealth } from '../plugins/health.js'
import type { MachineStats } from '../api/vitals.js'

/** Milliseconds between checks for changes to publish. */
const PUBLISH_MS = 2000
/** Milliseconds from the first change in a burst until it is published; busy runners cause such bursts. */
const PUBLISH_SOON_MS = 20

/** Plugins see the state including addresses. */
const PLUGINS: Caller = { id: 'node', mode: 'direct', authorities: new Set(['read', 'operator']) }

export interface StateSource {
  /** The state as this caller may see it. */
  now (caller: Caller): Promise<Record<string, unknown>>
  /** Like `now`, but synchronous, with this machine's latest readings. */
  known (caller: Caller): Record<string, unknown>
  /**
   * An earlier state as this caller may see it; only operators see its events, as in GET /events. Throws
   * `plugin_disabled` if no plugin keeps a history, and the history's errors.
   */
  at (moment: string, caller: Caller): Promise<unknown>
  /** The state as plugins see it. */
  readonly reader: StateReader
  /** Publishes this node's state after each change and periodically; returns a function that stops it. */
  publish (): () => void
}

/** Builds the state from the kernel's parts; plugins can add views later. */
export function createStateSource (kernel: Assembly): StateSource {
  const { options, changes, bus, log, views } = kernel
  const { cluster } = options
  const facts = createFacts(kernel)
  const hidden = hiddenOf(kernel)
  const redacted = new WeakMap<object, unknown>()
  const seenBy = (caller: Caller, nodes: readonly NodeFacts[]): Record<string, unknown> => {
    const { quorum, stale } = cluster.status()
    const { session } = cluster
    const base = baseState({ session, quorum, stale, nodes, durableEvents: bus.durableCount })
    const state = withViews(base, views, caller, (key, err) => {
      log.error({ err, view: key }, 'a state view failed')
    })
    if (caller.authorities.has('operator')) return state
    return redact(state, hidden, redacted) as Record<string, unknown>
  }
  let reading: Promise<Record<string, unknown>> | undefined
  return {
    now: async (caller) => seenBy(caller, await facts.all()),
    known: (caller) => seenBy(caller, facts.known()),
    at: async (moment, caller) => await earlier(kernel, moment, caller),
    reader: {
      // Concurrent reads share one measurement.
      read: () => reading ??= facts.all().finally(() => { reading = undefined })
        .then((nodes) => seenBy(PLUGINS, nodes)),
      nodes: facts.known,
      onChange: changes.listen
    },
    publish: () => keepPublishing(kernel, async () => { await facts.publish() })
  }
}

/** Names from `list` of every manifest, even if its plugin is off: earlier states may still contain them. */
export function namedBy (
  { present }: Pick<Assembly, 'present'>, list: 'stateWhereabouts' | 'stateReadings'
): ReadonlySet<string> {
  return new Set(manifestsOf(present).flatMap((manifest) => manifest[list] ?? []))
}

function manifestsOf ({ on, off }: Assembly['present']): Manifest[] {
  const plugged = [...on, ...off.map(({ plugin }) => plugin)].map(({ manifest }) => manifest)
  return [kernelManifest, ...plugged]
}

function hiddenOf (kernel: Pick<Assembly, 'present'>): HiddenFields {
  const conflicts = manifestsOf(kernel.present).map((manifest) => Object.entries(manifest.conflicts ?? {}))
  return {
    names: namedBy(kernel, 'stateWhereabouts'),
    meanings: new Map(conflicts.flat().map(([code, { meaning }]) => [code, meaning]))
  }
}

async function earlier (kernel: Assembly, moment: string, caller: Caller): Promise<unknown> {
  const { present, services } = kernel
  const history = services.get(StateHistoryService.id) as StateHistory | undefined
  if (history === undefined) {
    const keeper = present.off.find(({ plugin }) =>
      Object.values(plugin.manifest.provides ?? {}).some(({ id }) => id === StateHistoryService.id))
    const why = keeper?.message ?? 'No installed plugin records it.'
    throw kernelError('plugin_disabled', `This node does not record earlier states. ${why}`,
      keeper === undefined ? {} : { plugin: keeper.plugin.manifest.name })
  }
  const then = await history.at(moment)
  if (caller.authorities.has('operator')) return then
  return redact({ ...then, events: null }, hiddenOf(kernel))
}

function keepPublishing (kernel: Assembly, send: () => Promise<void>): () => void {
  const { options: { clock, cluster }, changes, log } = kernel
  const publish = (): void => {
    showProblems(kernel)
    send().catch((err: unknown) => { log.error({ err }, 'this node could not publish its state') })
  }
  let waiting: (() => void) | undefined
  const soon = (): void => {
    waiting ??= clock.after(PUBLISH_SOON_MS, () => {
      waiting = undefined
      publish()
    })
  }
  const stops = [
    clock.every(PUBLISH_MS, publish), changes.listen(soon), () => { waiting?.() },
    cluster.onChange(changes.notify)
  ]
  publish()
  return () => { for (const stop of stops) stop() }
}

function showProblems ({ options, health }: Assembly): void {
  for (const [code, observed] of Object.entries(options.cluster.problems())) {
    if (observed === null) health.clear(code)
    else health.raise(code, observed)
  }
}

/** Milliseconds of silence after which a node is shown as unreachable. */
const UNREACHABLE_MS = 15_000
/** Milliseconds after which a reading is no longer considered current. */
const READING_MS = 15_000

/** Maximum size in bytes of a node's tasks in a reading, since a larger reading could not be sent. */
const TASKS_BYTES = MAX_READING_BYTES - 4096

const text = { type: 'string' } as const

/** Schema for byte counts with these names; null if the machine does not report a count. */
function objectOf (names: readonly string[]): JsonSchema {
  const inBytes = { type: 'number' } as const
  const bytes = openObject({ inBytes })
  return {
    type: ['object', 'null'], required: names,
    properties: Object.fromEntries(names.map((name) => [name, bytes]))
  }
}

/** Schemas of a node's report about itself, one document entry per part. */
const portrait = {
  identity: { type: 'object' },
  health: openObject({
    level: { enum: ['ok', 'warn', 'error'] },
    reasons: { type: 'array', items: openObject({ code: text }) }
  }),
  resources: {
    type: ['object', 'null'],
    required: ['backends', 'participation'],
    properties: { backends: { type: 'array', items: text }, participation: { enum: ['full', 'management'] } }
  },
  capabilities: { type: 'array', items: text }
} as const satisfies Record<string, JsonSchema>

const readings = {
  memory: objectOf(['ramTotal', 'ramAvailable', 'swapTotal', 'swapAvailable']),
  system: { type: ['object', 'null'] },
  disk: objectOf(['total', 'available']),
  network: { type: ['object', 'null'] },
  links: {
    type: 'array',
    items: openObject({
      nodeId: text, ipAddress: text, port: { type: 'integer' },
      rttMs: { type: ['number', 'null'] }, bytesPerSecond: { type: ['number', 'null'] }
    })
  },
  tasks: { type: 'object', additionalProperties: { type: 'object' } }
} as const satisfies Record<string, JsonSchema>

/** Facts about every node: this node measures its own, and the other nodes report theirs. */
interface NodeFactsReader {
  all (): Promise<NodeFacts[]>
  /** Like `all`, but synchronous, with this machine's latest readings. */
  known (): NodeFacts[]
  /** Publishes what has changed on this node. */
  publish (): Promise<void>
}

type SelfPortrait = Record<keyof typeof portrait, Section<unknown>>

const problemOf = Object.fromEntries(Object.entries(readings).map(([key, schema]) =>
  [key, schemaChecker(schema)])) as Record<keyof typeof readings, ReturnType<typeof schemaChecker>>

const NOBODY: Caller = { id: 'node', mode: 'direct', authorities: new Set() }

function createFacts (kernel: Assembly): NodeFactsReader {
  const { cluster } = kernel.options
  const sections = Object.fromEntries(Object.entries(portrait).map(([key, value]) =>
    [key, cluster.sections.section<unknown>('node', { writer: 'node', summary: key, value })]
  )) as SelfPortrait
  let vitals: MachineStats | undefined
  const own = async (view: NodeView): Promise<NodeFacts> =>
    ownFacts(kernel, view, vitals = await kernel.options.vitals.vitals())
  const others = (views: readonly NodeView[]): NodeFacts[] =>
    views.map((view) => factsOf(kernel, sections, view))
  return {
    async all () {
      const [self, ...rest] = cluster.service.nodes()
      return [await own(self!), ...others(rest)]
    },
    known () {
      const [self, ...rest] = cluster.service.nodes()
      return [ownFacts(kernel, self!, vitals), ...others(rest)]
    },
    async publish () {
      const facts = await own(cluster.service.nodes()[0]!)
      const { identity, health, resources, capabilities } = facts
      for (const [key, value] of Object.entries({ identity, health, resources, capabilities })) {
        const section = sections[key as keyof SelfPortrait]
        if (JSON.stringify(section.get(key)) !== JSON.stringify(value)) section.put(key, value)
      }
      cluster.readings.offer('system', facts.system)
      cluster.readings.offer('links', facts.links)
      cluster.readings.offer('tasks', fittingTasks(facts.tasks, TASKS_BYTES))
    }
  }
}

/** Keeps as many tasks as fit: running ones first, then the most recently finished. Pure. */
export function fittingTasks (tasks: unknown, bytes: number): unknown {
  if (Buffer.byteLength(JSON.stringify(tasks)) <= bytes) return tasks
  const sorted = Object.entries(tasks as Record<string, Record<string, TaskFacts>>)
    .map(([id, task]) => ({ id, task, ...Object.values(task)[0] }))
    .sort((a, b) => Number(isOver(a)) - Number(isOver(b)) || (startOf(a) < startOf(b) ? 1 : -1))
  let left = bytes
  return Object.fromEntries(sorted.flatMap(({ id, task }) => {
    left -= Buffer.byteLength(JSON.stringify({ [id]: task }))
    return left < 0 ? [] : [[id, task]]
  }))
}

interface TaskFacts { status?: string, createdAt?: string }

const startOf = ({ createdAt }: TaskFacts): string => createdAt ?? ''

const isOver = ({ status }: TaskFacts): boolean => status !== 'Pending' && status !== 'Running'

/** This node's facts including its plugins' additions; `vitals` is undefined before the first reading. */
function ownFacts (kernel: Assembly, view: NodeView, vitals: MachineStats | undefined): NodeFacts {
  const { nodeId } = view
  const { options } = kernel
  const health = kernel.health.snapshot()
  const resources: NodeResources = {
    // Default values; the plugin that runs models adds to them.
    backends: [], participation: 'management', capabilityConflicts: health.reasons,
    ...options.cluster.readings.counters().enabled ? {} : { readings: false }
  }
  const base = {
    tasks: {},
    // GPU readings may be newer than the rest of `vitals`.
    nodeSystem: { [nodeId]: vitals?.system == null ? null : { ...vitals.system, ...options.vitals.load() } },
    nodeResources: { [nodeId]: resources }
  }
  const views = new Map([...kernel.views].filter(([key]) => key in base))
  const seen = withViews(base, views, NOBODY, () => {}) as typeof base
  return {
    view, seenAt: options.clock.now(), identity: identityOf(options.node, options.url()),
    memory: vitals?.memory ?? null, system: seen.nodeSystem[nodeId] ?? null, disk: vitals?.disk ?? null,
    network: vitals?.network ?? null, health, resources: seen.nodeResources[nodeId] ?? null,
    capabilities: [...kernel.tags].sort(), links: linksOf(options.cluster.network), tasks: seen.tasks
  }
}

/** CPU model; cached, since reading it is slow and every listing of models needs it. */
let chipId: string | undefined

function identityOf (node: NodeInfo, url: string | null): object {
  return {
    modelId: os.machine(),
    chipId: chipId ??= os.cpus()[0]?.model ?? 'unknown',
    friendlyName: node.name,
    osVersion: `${os.type()} ${os.release()}`,
    svcVersion: node.version,
    svcCommit: null,
    nodeInstallId: node.installId,
    apiUrl: url
  }
}

function linksOf (network: ClusterHost['network']): LinkFact[] {
  return network.peers().map(({ installId, nodeId, apiUrl, address, rttMs }) => {
    const cut = address.lastIndexOf(':')
    const ipAddress = address.slice(0, cut).replace(/^\[|\]$/g, '').replace(/^::ffff:/, '')
    const port = apiUrl === null ? Number(address.slice(cut + 1)) : portOf(new URL(apiUrl))
    const measured = rttMs === null ? null : Math.round(rttMs * 100) / 100
    return { nodeId, ipAddress, port, rttMs: measured, bytesPerSecond: network.bytesPerSecond(installId) }
  })
}

const portOf = ({ port, protocol }: URL): number =>
  Number(port === '' ? protocol === 'https:' ? 443 : 80 : port)

function factsOf ({ options }: Assembly, sections: SelfPortrait, view: NodeView): NodeFacts {
  const { nodeId, installId } = view
  const said = <T>(key: keyof SelfPortrait): T | null =>
    (sections[key].get(key, nodeId) as T | undefined) ?? null
  const read = <T>(key: keyof typeof readings): T | null => {
    const reading = options.cluster.readings.latest(installId, key)
    if (reading === undefined || options.clock.mono() - reading.atMs > READING_MS) return null
    return problemOf[key](reading.value) === null ? reading.value as T : null
  }
  const { directory } = options.cluster
  const seenAt = directory.seenAt(installId) ?? null
  return {
    view, seenAt,
    identity: said('identity') ?? { friendlyName: view.name, nodeInstallId: installId, apiUrl: view.apiUrl },
    memory: read('memory'), system: read('system'), disk: read('disk'), network: read('network'),
    health: healthOf(view, said('health'), seenAt === null ? null : directory.silentMs(installId)),
    resources: said('resources'), capabilities: said<string[]>('capabilities') ?? [],
    links: read<LinkFact[]>('links') ?? [], tasks: read<Record<string, unknown>>('tasks') ?? {}
  }
}

/** `silentMs`: milliseconds since the node's last message; null if this node has never received one. */
function healthOf (view: NodeView, said: NodeHealth | null, silentMs: number | null): NodeHealth {
  const health = said ?? { level: 'ok', reasons: [] }
  if (view.live || (silentMs !== null && silentMs <= UNREACHABLE_MS)) return health
  const { severity, meaning, remediation } = kernelManifest.conflicts.unreachable
  const since = silentMs === null ? 'No sign of life since this node started.'
    : `Last sign of life: ${Math.round(silentMs / 1000)} s ago.`
  const reason = { code: 'unreachable', severity, message: `${meaning} ${since}`, remediation }
  return {
    level: health.level === 'error' ? 'error' : severity,
    reasons: [...health.reasons.filter(({ code }) => code !== 'unreachable'), reason]
  }
}
