import type {
  Bundle, Clock, Cluster, Context, FreeMemory, Logger, ModelCard, NodeInfo, ReadyCheck, Section, StateReader
} from '../../kernel/index.js'
import { createAdvertiser, createLeases, modelOf } from './instances/copies.js'
import type { ModelLeases } from './instances/copies.js'
import { chooseBackend, declaredBackend, runtimesFor } from './machine/backends.js'
import type { BackendChoice } from './machine/backends.js'
import { createStatuses, createFleet } from './instances/fleet.js'
import type { RunnerStatuses, Fleet, RunnerFailure } from './instances/fleet.js'
import { createCanary, createReadiness } from './routing/readiness.js'
import type { AvailabilityParts } from './routing/availability.js'
import type { Detection } from './machine/detection.js'
import { createDrivers } from './donors/driver.js'
import type { Drivers } from './donors/driver.js'
import { opensPorts, roleOf } from './donors/role.js'
import type { Role } from './donors/role.js'
import { createFailures } from './instances/failures.js'
import type { Failures, InstanceFailure } from './instances/failures.js'
import { readInstances } from './instances/document.js'
import type { ReadInstancesParts, DocumentInstances } from './instances/document.js'
import { createFit } from './machine/memory.js'
import type { FitParts } from './machine/memory.js'
import { launchOptions, pruneScratch, runnersFolder } from './instances/launch.js'
import type { LaunchParts, RunnerConfig } from './instances/launch.js'
import { openLifecycle } from './instances/lifecycle.js'
import type { Lifecycle } from './instances/lifecycle.js'
import { createLosses } from './routing/losses.js'
import type { Losses, LossesParts } from './routing/losses.js'
import type { manifest } from './manifest.js'
import type { Models } from '../staging/service.js'
import type { RunnerOptions, Supervisor } from './process/supervisor.js'
import { openReconciler } from './instances/reconcile.js'
import { TaskGossip } from './routing/remote/gossip.js'
import { createRouting } from './routing/routing.js'
import type { Routing } from './routing/routing.js'
import type { RunnerStatus, RunnerWork } from './service.js'
import { bodyOf } from './instances/shapes.js'
import type { Assignment, Instance } from './instances/shapes.js'
import { createTaskWatchers, runnerWork, hasEnded, TaskTable } from './routing/tasks.js'

type Emit = Context<typeof manifest>['emit']

/** What the plugin's parts need of the kernel and of this machine. */
export interface AssemblyParts {
  node: NodeInfo
  clock: Clock
  log: Logger
  logs: LaunchParts['logs']
  cluster: Pick<Cluster, 'channel' | 'nodes' | 'onPeers' | 'request' | 'resolve'>
  /** Tells which backends other nodes offer. */
  state: StateReader | undefined
  session: LossesParts['session']
  /** Has the master emit the events of failed tasks. */
  sendFailures: LossesParts['send']
  /** Why a model is not placed, if somebody knows. */
  absence: AvailabilityParts['absence']
  /** This node cannot know yet what is placed. */
  learning (): boolean
  memory: FreeMemory
  /** What ships, and what is staged here. */
  bundle: Bundle
  /** Files of models; absent where the plugin `staging` is off. */
  models: Models | undefined
  config: RunnerConfig & { backends: Readonly<Record<string, unknown>> }
  sections: {
    instances: Section<Instance>
    runners: Section<RunnerStatus>
    failures: Section<InstanceFailure>
  }
  detection: Pick<Detection, 'probed' | 'runtimes' | 'binary'>
  env: LaunchParts['env']
  createSupervisor (options: RunnerOptions): Supervisor
  newId (): string
  /** Has the master remove one; false when it was gone. */
  unplace: ReadInstancesParts['unplace']
  drain: ReadInstancesParts['drain']
  /** Resolves when the instances as they are now are acknowledged by the cluster. */
  settled (): Promise<void>
  advertise (tag: string, on: boolean): void
  emit: Emit
  error: ReadInstancesParts['error']
}

/** The working plugin, apart from its manifest. */
export interface Assembly {
  fleet: Fleet
  instances: DocumentInstances
  routing: Routing
  drivers: Drivers
  tasks: TaskTable
  failures: Failures
  readiness: (model?: string) => Promise<ReadyCheck>
  losses: Losses
  /** Brings the runners in line with the instances. */
  reconcile (): Promise<void>
  releasing: Lifecycle['releasing']
  settling: Lifecycle['settling']
  /** Removes old folders of runners. */
  prune (): Promise<void>
  /** The /state view of the runners. */
  runners (): Record<string, RunnerStatus>
  work: RunnerWork
  /** Ends every runner and starts no other. */
  close (): Promise<void>
}

/** Puts the parts together; opens nothing until an instance asks for it. */
export function assemble (parts: AssemblyParts): Assembly {
  const { node, clock, log, sections, newId, emit } = parts
  let closed = false
  const closing = new AbortController()
  const backend = (card: ModelCard): BackendChoice | null => backendOf(parts, card)
  const statuses = createStatuses(sections.runners, clock)
  const tasks: TaskTable = new TaskTable(() => clock.mono(), ({ status }, runnerId) => {
    gossip.changed()
    if (hasEnded(status)) lifecycle.taskEnded(runnerId)
  })
  const losses = openLosses(parts)
  const missing = losses.missing.bind(losses)
  const gossip = new TaskGossip({ cluster: parts.cluster, clock, tasks, missing })
  const failures = createFailures(sections.failures, node.nodeId, newId)
  const leases = createLeases(parts.models)
  const shard: FitParts['shard'] = (assignment) => instances.shard(assignment)
  const drivers = createDrivers({
    ...parts, runners: sections.runners,
    lost: ({ runnerId }, message) => { void fleet.again(runnerId, message) }
  })
  const role = (assignment: Assignment): Role | null => roleIn(parts, assignment)
  const fleet = openFleet(parts, { statuses, failures, backend, leases, shard, drivers, role })
  const prune = async (): Promise<void> => {
    await pruneScratch(runnersFolder(node.home), (runnerId) => fleet.get(runnerId) !== undefined)
  }
  const reconcile = openReconciler({
    ...parts, fleet, leases, drivers, prune, closing: closing.signal, desired: () => closed
      ? []
      : instances.assignments().filter(({ runnerId }) => !lifecycle.done(runnerId))
  })
  const instances: DocumentInstances = readInstances({
    ...parts, section: sections.instances, nodeId: node.nodeId, reconcile
  })
  const lifecycle = openLifecycle({
    ...parts, instances, fleet, tasks, reconcile, unloaded: (event) => { emit('InstanceUnloaded', event) }
  })
  const watchers = createTaskWatchers(clock, node.nodeId)
  const routing = createRouting({
    ...parts, self: node, fleet, tasks, gossip,
    backend,
    watchers,
    taskFailed: (failure) => { losses.report(failure) }
  })
  const readiness = createReadiness({
    clock,
    missing: routing.missing,
    serving: routing.serving,
    idle: ({ assignment }) => tasks.outstanding(assignment.runnerId) === 0,
    canary: createCanary({ clock, log, newId })
  })
  return {
    fleet, instances, routing, drivers, tasks, failures, readiness, losses, reconcile, prune,
    releasing: lifecycle.releasing,
    settling: lifecycle.settling,
    runners: () => instances.runners(sections.runners, (runnerId) => statuses.get(runnerId)),
    work: runnerWork(watchers, fleet),
    async close () {
      closed = true
      closing.abort()
      gossip.close()
      losses.close()
      lifecycle.close()
      await reconcile()
    }
  }
}

function openLosses (parts: AssemblyParts): Losses {
  const { emit, sendFailures, sections } = parts
  return createLosses({
    ...parts,
    placed: (instanceId) => sections.instances.get(instanceId) !== undefined,
    send: sendFailures,
    tell: (failure) => { emit('TaskFailed', failure) }
  })
}

/** The role of an assignment in an instance with a driver and donors. */
function roleIn ({ sections, node }: AssemblyParts, { instanceId }: Assignment): Role | null {
  const instance = sections.instances.get(instanceId)
  return instance === undefined ? null : roleOf(instance, node.nodeId)
}

/** The digest that the instance of an assignment was placed with. */
function digestIn ({ sections }: AssemblyParts, { instanceId }: Assignment): string | undefined {
  const instance = sections.instances.get(instanceId)
  return instance === undefined ? undefined : bodyOf(instance).modelDigest
}

interface FleetNeeds {
  statuses: RunnerStatuses
  failures: Failures
  backend (card: ModelCard): BackendChoice | null
  leases: ModelLeases
  shard: FitParts['shard']
  drivers: Drivers
  role (assignment: Assignment): Role | null
}

function openFleet (parts: AssemblyParts, needs: FleetNeeds): Fleet {
  const { statuses, failures, backend, leases, shard, drivers, role } = needs
  const { clock, log, logs, bundle, config, node, detection: { binary } } = parts
  const advertise = createAdvertiser(() => fleet, (tag, on) => { parts.advertise(tag, on) })
  const fleet: Fleet = createFleet({
    clock,
    log,
    statuses,
    create: (options) => parts.createSupervisor(options),
    prepare: (assignment, waits) => prepare(parts, needs, assignment, waits),
    lends: (assignment) => role(assignment)?.kind === 'donor',
    launch: (assignment) => launchOptions({
      bundle, clock, log, config, backend, binary, logs, role, env: parts.env, home: node.home,
      plan: drivers.plan,
      model: (wanted) => modelOf(bundle, parts.models, wanted.modelId, digestIn(parts, wanted))
    }, assignment),
    admit: createFit({ memory: parts.memory, shard }),
    onMoved: (assignment, status) => { parts.emit('RunnerStatusUpdated', { ...assignment, status }) },
    onFailed: (assignment, failure) => { recordFailure(parts, failures, assignment, failure) },
    onChange () {
      advertise()
      leases.tell(fleet)
    }
  })
  return fleet
}

/**
 * Leases and fetches the files of a model, except for a donor; a driver then waits for its donors. Throws, or
 * rejects, while they cannot be had; the caller retries.
 */
function prepare (
  parts: AssemblyParts, { drivers, leases, role }: Pick<FleetNeeds, 'drivers' | 'leases' | 'role'>,
  assignment: Assignment, waits: (message: string) => void
): Promise<unknown> | undefined {
  const { bundle, models } = parts
  const { modelId } = assignment
  const part = role(assignment)
  if (part?.kind === 'donor') return undefined
  // The launch will refuse it, so nothing is fetched and no port is opened.
  if (opensPorts(part) && !parts.config.rpc_for_every_user) return undefined
  const digest = digestIn(parts, assignment)
  leases.take(assignment, digest)
  // A staged copy may have been removed by hand; bundled files are always there.
  const staged = (models?.locate(modelId, digest)?.kind ?? 'bundled') !== 'bundled'
  const here = modelOf(bundle, models, modelId, digest)
  const files = here === undefined || staged ? models?.ensure(modelId, digest) : undefined
  if (part === null) return files
  return Promise.resolve(files).then(async () => { await drivers.prepare(assignment, part, waits) })
}

function backendOf ({ bundle, config, detection }: AssemblyParts, card: ModelCard): BackendChoice | null {
  const engine = bundle.engine(card.engine)
  if (engine === undefined) return null
  const offers = engine.decl.backends.filter((name) => card.backends.includes(name))
  return chooseBackend({
    engine: engine.name,
    offers,
    declared: declaredBackend(config.backends, engine.name),
    runtimes: runtimesFor(engine.decl, detection.runtimes)
  })
}

function recordFailure (
  parts: AssemblyParts,
  failures: Failures,
  assignment: Assignment,
  failure: RunnerFailure
): void {
  const { instanceId, modelId } = assignment
  const record = {
    instanceId,
    modelId,
    errorCode: failure.errorCode,
    errorMessage: failure.errorMessage,
    affectedNodeIds: [parts.node.nodeId]
  }
  parts.log.error({ ...assignment, ...failure }, 'a runner failed')
  parts.emit('RunnerFailed', { ...assignment, ...failure })
  failures.record({ ...record, recordedAt: new Date(parts.clock.now()).toISOString() })
  parts.emit('InstanceFailureRecorded', record)
}
