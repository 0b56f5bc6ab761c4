import { randomUUID } from 'node:crypto'
import {
  createSettlingCheck, kernelError, offPlugin, type Context, type Section
} from '../../kernel/index.js'
import type { Bundle } from './cards/bundle.js'
import { createDrivers } from './donors/driver.js'
import { Gangs } from './donors/gang.js'
import { createSetDiff, createLeases, withCopies } from './instances/copies.js'
import { PlacedInstances } from './instances/document.js'
import { InstanceShutdown } from './instances/shutdown.js'
import { RunnerSet } from './instances/runner-set.js'
import {
  backendOf, gangOffer, instanceOf, launchOptions, memoryTraits, prepareLaunch, pruneScratch, runnersFolder,
  type LaunchParts
} from './instances/launch.js'
import { createReconciler } from './instances/reconcile.js'
import type { Instance } from './instances/sections.js'
import { isHelper, leads } from './instances/shapes.js'
import { createFailures, createStatuses, type Failures, type RunnerStatuses } from './instances/statuses.js'
import { checkOverrides } from './machine/backends.js'
import { startDetection, type Detection } from './machine/detection.js'
import { createFit } from './machine/memory.js'
import type { MachineReader } from './machine/vitals.js'
import type { RuntimeFiles } from './machine/runtimes.js'
import type { manifest } from './manifest.js'
import { kindOf, type StatusKind } from './process/states.js'
import type { RunnerOptions, Supervisor } from './process/supervisor.js'
import { LostTasks } from './routing/lost-tasks.js'
import { createCanary, createReadiness } from './routing/readiness.js'
import { PrefixTable } from './routing/prefixes.js'
import { TaskGossip } from './routing/remote/gossip.js'
import { Routing, type RoutingParts } from './routing/routing.js'
import { hasEnded, TaskTable, TaskWatchers } from './routing/tasks.js'
import type { MissingReason, Instances, RunnerStatus } from './service.js'

export type RunnersContext = Context<typeof manifest>

/** Access to the machine. Tests pass an in-memory runner and fake hardware. */
export interface MachineParts {
  createSupervisor (options: RunnerOptions): Supervisor
  files: RuntimeFiles
  uid: number
  /** Why the runners' sandbox is incomplete on this machine; null if it is complete. */
  sandboxProblem? (folder: string, now: number): string | null
  bundle?: Bundle
  reader?: MachineReader
}
export type Parts = MachineParts & Required<Pick<MachineParts, 'bundle' | 'reader'>>

export type Assembly = ReturnType<typeof assemble>

/** Wires the parts of the plugin. Work starts only with the first instance. */
export function assemble (ctx: RunnersContext, machine: Parts) {
  const { node, clock, log, emit, deps: { cluster, models } } = ctx
  const closing = new AbortController()
  const sections = sectionsOf(ctx)
  const detection = detect(ctx, machine)
  const settled = settling(ctx)
  const instances = new PlacedInstances(sections.instances, node.nodeId)
  const failures = createFailures(sections.failures, node.nodeId, randomUUID)
  const recordFailure = recorder(ctx, failures)
  const tasks: TaskTable = new TaskTable(() => clock.mono(), ({ status }, runnerId) => {
    gossip.changed()
    if (hasEnded(status)) endings.taskEnded(runnerId)
  })
  const losses = openLosses(ctx, instances)
  const prefixes = new PrefixTable()
  const gossip = new TaskGossip({ cluster, clock, tasks, prefixes, missing: losses.missing.bind(losses) })
  const statuses = createStatuses(sections.runners, clock)
  const leases = createLeases(models)
  const drivers = createDrivers({
    cluster, clock, log, newId: randomUUID, runners: sections.runners,
    lost: ({ runnerId }, message) => { void fleet.again(runnerId, message) }
  })
  const gangs = new Gangs({
    nodeId: node.nodeId, cluster, clock, newId: randomUUID, drivers, ...sections, fleet: () => fleet,
    offer: (assignment) => gangOffer({ detection, instances, node }, assignment)
  })
  const launch: LaunchParts = {
    node, clock, log, env: machine.files.env, config: ctx.config, bundle: withCopies(machine.bundle, models),
    models, detection, instances, drivers, gangs, leases, logs: ctx.deps.logs
  }
  const fleet: RunnerSet = openFleet(ctx, machine, { launch, gangs, statuses, recordFailure })
  const prune = async (): Promise<void> =>
    await pruneScratch(runnersFolder(node.home), (runnerId) => fleet.get(runnerId) !== undefined)
  const reconcile = createReconciler({
    clock, log, fleet, settled, closing: closing.signal,
    // Models and backends are unknown until the detection and the list of models are ready.
    opened: Promise.all([detection.probed, models?.opened]),
    desired: () => closing.signal.aborted
      ? [] : instances.assignments().filter(({ runnerId }) => !endings.done(runnerId)),
    async ended (runnerId) {
      for (const one of [drivers, gangs, leases]) one.release(runnerId)
      await prune()
    }
  })
  const endings: InstanceShutdown = new InstanceShutdown({
    nodeId: node.nodeId, clock, log, cluster, sections, fleet, reconcile, led: () => instances.led(),
    outstanding: (runnerId) => tasks.outstanding(runnerId),
    remove: async (instanceId) => await ctx.command('remove', { instanceId }),
    drain: async (instanceId, seconds) => await ctx.command('drain', { instanceId, seconds }),
    unloaded: (event) => { emit('InstanceUnloaded', event) }
  })
  const evictions = openEvictions(ctx, instances, endings)
  return {
    sections, detection, instances, endings, fleet, drivers, gangs, losses, failures, recordFailure,
    reconcile, settled, evict: evictions.evict, prune,
    ...openRouting(ctx, { launch, sections, placed: instances, fleet, tasks, gossip, prefixes, losses }),
    /** The `runners` field of /state. */
    runners: () => instances.runners(sections.runners, (runnerId) => statuses.get(runnerId)),
    /** Stops every runner; afterwards no runner starts. */
    async close () {
      closing.abort()
      gossip.close()
      evictions.close()
      losses.close()
      endings.close()
      await reconcile()
    }
  }
}

/** Unloads instances for other models; the leading node of each decides, because it knows all tasks. */
function openEvictions (ctx: RunnersContext, placed: PlacedInstances, own: InstanceShutdown) {
  const { cluster } = ctx.deps
  const channel = cluster.channel('runners.evict', (_from, message: Record<string, unknown> | null) => {
    const { instanceId, into } = message ?? {}
    const isModel = typeof into === 'string' && into.length <= 256
    if (typeof instanceId === 'string' && isModel) own.evict(instanceId, into)
  })
  return {
    close () { channel.close() },
    evict (instanceId: string, into: string) {
      const instance = placed.get(instanceId)
      const leader = cluster.nodes().find(({ nodeId }) => instance !== undefined && leads(instance, nodeId))
      if (leader?.self === true) own.evict(instanceId, into)
      else if (leader !== undefined) channel.send(leader.installId, { instanceId, into })
    }
  }
}

function openLosses (ctx: RunnersContext, instances: PlacedInstances): LostTasks {
  const { clock, log, deps: { session, cluster, calls } } = ctx
  const losses = new LostTasks({
    clock, log, session, cluster, placed: (instanceId) => instances.get(instanceId) !== undefined,
    send: async (failures) => await ctx.command('tasksFailed', { failures }),
    emit: (failure) => { ctx.emit('TaskFailed', failure) }
  })
  // A node may die before it gossips the task of a forwarded call, so the forwarding node reports the loss.
  const stop = calls?.onEnd(({ kind, reason, taskId, passedOn, commandId, capability }) => {
    if (kind !== 'failed' || (taskId === null && !passedOn) || !LOSSES.includes(reason)) return
    const errorMessage = `The task of ${capability} was lost.`
    losses.report({ taskId: taskId ?? commandId, commandId, errorType: 'instance_lost', errorMessage })
  })
  if (stop !== undefined) ctx.effect('lost calls', stop)
  return losses
}

const LOSSES: readonly unknown[] = ['instance_lost', 'unreachable']

function recorder ({ clock, emit }: RunnersContext, failures: Failures): Instances['recordFailure'] {
  return (failure) => {
    failures.record({ ...failure, recordedAt: new Date(clock.now()).toISOString() })
    emit('InstanceFailureRecorded', failure)
  }
}

/** In these statuses a model has just entered or left memory, so the GPUs are read again. */
const MOVES_MEMORY: ReadonlySet<StatusKind> =
  new Set(['RunnerLoaded', 'RunnerReady', 'RunnerIdle', 'RunnerFailed', 'RunnerShutdown'])

function openFleet (
  ctx: RunnersContext, machine: Parts,
  { launch, gangs, statuses, recordFailure }:
  { launch: LaunchParts, gangs: Gangs, statuses: RunnerStatuses } & Pick<Instances, 'recordFailure'>
): RunnerSet {
  const { clock, log, emit, node: { nodeId }, deps } = ctx
  const { models } = deps
  const advertise = createSetDiff((task, there) => { ctx.advertise(task, there) })
  const serving = createSetDiff((modelId, there) => { models?.serving(modelId, there) })
  const fleet: RunnerSet = new RunnerSet({
    clock, log, statuses,
    create: (options) => machine.createSupervisor(options),
    prepare: (assignment, waits) => prepareLaunch(launch, assignment, waits),
    isDonor (assignment) {
      const { ring } = instanceOf(launch, assignment) ?? {}
      return ring !== undefined && isHelper(ring, nodeId)
    },
    launch: (assignment) => launchOptions(launch, assignment),
    admit: createFit({
      machine: machine.reader,
      traits (name) {
        const engine = launch.bundle.engine(name)
        return engine === undefined ? {} : memoryTraits(launch, engine)
      },
      shard: (assignment) => instanceOf(launch, assignment)?.shard ?? null
    }),
    onMoved: (assignment, status) => {
      if ('RunnerConnecting' in status) launch.drivers.begins(assignment.runnerId)
      gangs.moved(assignment.runnerId, status)
      if (MOVES_MEMORY.has(kindOf(status))) void machine.reader.freeVram()
      emit('RunnerStatusUpdated', { ...assignment, status })
    },
    onFailed (assignment, failure) {
      const { instanceId, modelId } = assignment
      const { errorCode, errorMessage } = failure
      log.error({ ...assignment, ...failure }, 'a runner failed')
      emit('RunnerFailed', { ...assignment, ...failure })
      recordFailure({ instanceId, modelId, errorCode, errorMessage, affectedNodeIds: [nodeId] })
    },
    onChange () {
      const ready = fleet.members().filter((member) => fleet.ready(member))
      advertise(ready.flatMap(({ card }) => card?.tasks ?? []))
      serving(ready.map(({ assignment: { modelId } }) => modelId))
    }
  })
  return fleet
}

interface RoutingNeeds extends
  Pick<RoutingParts, 'sections' | 'placed' | 'fleet' | 'tasks' | 'gossip' | 'prefixes'> {
  launch: LaunchParts
  losses: LostTasks
}

function openRouting (ctx: RunnersContext, { launch, losses, ...needs }: RoutingNeeds) {
  const { tasks } = needs
  const { clock, log, node, deps: { cluster, models, state } } = ctx
  const absent = new Set<(modelId: string) => MissingReason | null>()
  const watchers = new TaskWatchers(clock, node.nodeId)
  const routing = new Routing({
    ...needs, self: node, clock, log, cluster, bundle: launch.bundle, models, state, watchers,
    newId: randomUUID, backend: (card) => backendOf(launch, card),
    off: (kind, name) => offPlugin(ctx.deps.declarations, kind, name),
    absence: (modelId) => [...absent].map((tell) => tell(modelId)).find((found) => found !== null) ?? null,
    learning: createSettlingCheck(ctx), taskFailed: (failure) => { losses.report(failure) }
  })
  return {
    routing,
    work: watchers,
    onAbsent (tell: (modelId: string) => MissingReason | null): () => void {
      absent.add(tell)
      return () => { absent.delete(tell) }
    },
    readiness: createReadiness({
      routing, idle: ({ assignment }) => tasks.outstanding(assignment.runnerId) === 0,
      canary: createCanary({ clock, log, newId: randomUUID })
    })
  }
}

function sectionsOf (ctx: RunnersContext) {
  return {
    instances: ctx.sections.instances as unknown as Section<Instance>,
    runners: ctx.sections.runners as unknown as Section<RunnerStatus>, failures: ctx.sections.failures
  }
}

function detect (ctx: RunnersContext, { files, uid, sandboxProblem, bundle, reader }: Parts): Detection {
  const { clock, node: { home } } = ctx
  const detection = startDetection({
    files,
    gpus: reader.gpus,
    overrides: async () => await checkOverrides(files.env, uid),
    declared: ctx.config.backends,
    options: ctx.config.engine_options,
    home,
    uid,
    sandboxProblem: () => !ctx.config.confine ? 'plugins.runners.confine is off'
      : sandboxProblem?.(runnersFolder(home), clock.mono()) ?? null,
    engines: bundle.engines().map(({ name, decl: { backends, external, program } }) =>
      ({ name, backends, external, program })),
    log: ctx.log,
    clock,
    raise: ctx.raise,
    clear: ctx.clear
  })
  ctx.effect('hardware detection', () => { detection.stop() })
  return detection
}

/** Waits until the cluster has acknowledged this node's document. Simultaneous calls share a command. */
function settling (ctx: RunnersContext): () => Promise<void> {
  let waiting: Promise<void> | undefined
  const settle = async (): Promise<void> => {
    await Promise.resolve()
    waiting = undefined
    const { sessionId } = await ctx.command('settle', {})
    if (sessionId !== ctx.deps.session.sessionId) throw kernelError('session_changed')
  }
  return async () => await (waiting ??= settle())
}
