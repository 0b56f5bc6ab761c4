import { randomUUID } from 'node:crypto'
import { createLearning, definePlugin, kernelError } from '../../kernel/index.js'
import type { Context, Plugin, Section } from '../../kernel/index.js'
import { createAnnouncer } from './instances/document.js'
import { assemble } from './assembly.js'
import type { Assembly, AssemblyParts } from './assembly.js'
import { checkOverrides } from './machine/backends.js'
import { cancelHandler } from './routing/cancel.js'
import { absences, availabilityHandler, judgeBy } from './routing/chain.js'
import { commandHandlers } from './commands.js'
import { startDetection, nodeResources, nodeSystem } from './machine/detection.js'
import type { Detection, View } from './machine/detection.js'
import { systemProbe } from './gpu-probe.js'
import type { ProbeIo } from './gpu-probe.js'
import { withCopies } from './instances/copies.js'
import { donorHandler } from './donors/donor.js'
import type { Losses, TaskFailure } from './routing/losses.js'
import { manifest } from './manifest.js'
import { createSupervisor, resolveLimits, sweepOrphans } from './process/supervisor.js'
import type { RunnerOptions, Supervisor } from './process/supervisor.js'
import { taskHandler } from './routing/remote/receive.js'
import { runnersFolder } from './instances/launch.js'
import type { Entering, Instances, Placed, RunnerStatus } from './service.js'
import type { Instance } from './instances/shapes.js'

type RunnersContext = Context<typeof manifest>

/** What the plugin takes from the machine; tests give an in-memory runner and a made-up machine. */
export interface RunnersParts {
  createSupervisor (options: RunnerOptions): Supervisor
  probe: ProbeIo
  /** User the node runs as. */
  uid: number
}

/** The plugin on given parts of the machine. */
export function createRunners (parts: RunnersParts): Plugin {
  return definePlugin(manifest, (ctx) => {
    resolveLimits({}, parts.probe.env)
    const killed = sweepOrphans(runnersFolder(ctx.node.home))
    if (killed.length > 0) ctx.log.warn({ pids: killed }, 'ended runners that an earlier node left behind')
    const { bundle, commands, models, cluster, state, memory, logs } = ctx.deps
    const detection = detect(ctx, parts)
    const sections = sectionsOf(ctx)
    const entering = enteringOf(ctx)
    const settled = settling(ctx)
    const { absence, onAbsent } = absences()
    const assembly = assemble({
      node: ctx.node, clock: ctx.clock, log: ctx.log,
      logs, cluster, state, absence, memory,
      session: ctx.deps.session,
      sendFailures: async (failures) => await ctx.command('tasksFailed', { failures }),
      learning: createLearning(ctx),
      bundle: withCopies(bundle, models),
      models,
      config: ctx.config,
      detection, env: parts.probe.env,
      sections,
      createSupervisor: parts.createSupervisor,
      newId: randomUUID,
      settled,
      ...entering,
      advertise: ctx.advertise, emit: ctx.emit, error: ctx.error
    })
    const { instances, routing } = assembly
    void assembly.prune()
    ctx.effect('runners', assembly.close)
    const announce = createAnnouncer({
      section: sections.instances, session: ctx.deps.session, log: ctx.log, settled,
      created: (event) => { ctx.emit('InstanceCreated', event) },
      deleted: (event) => { ctx.emit('InstanceDeleted', event) }
    })
    ctx.sections.instances.observe(() => {
      void assembly.reconcile()
      void announce()
    })
    ctx.effect('announcing', ctx.deps.session.onChange(() => { void announce() }))
    ctx.readiness('runners', assembly.readiness)
    if (models !== undefined) ctx.effect('judgement of models', models.judge(judgeBy(routing.chains)))
    return {
      commands: { ...decisions(ctx, entering.check), ...aboutTasks(assembly.losses) } as never,
      routes: {
        cancel: cancelHandler({ commands, cluster, clock: ctx.clock }),
        availability: availabilityHandler(routing.chains),
        feed: assembly.drivers.feed,
        donor: donorHandler({
          nodeId: ctx.node.nodeId, cluster, instances: sections.instances, fleet: assembly.fleet,
          clock: ctx.clock, log: ctx.log, newId: randomUUID
        }),
        task: taskHandler({ ...ctx.deps, clock: ctx.clock, take: routing.take, open: routing.open })
      },
      services: {
        runners: routing,
        instances: {
          ...instances, place: entering.place, onEnter: entering.onEnter, onAbsent,
          onMissing: routing.onMissing, releasing: assembly.releasing, settling: assembly.settling,
          recordFailure: recorder(ctx, assembly), placed: () => placedBy(assembly)
        },
        accelerators: { accelerators: detection.accelerators },
        work: assembly.work
      },
      state: viewsOf(ctx, assembly, detection)
    }
  })
}

function placedBy ({ instances, runners, failures }: Assembly): Placed {
  return { instances: instances.view(), runners: runners(), failures: failures.view() }
}

/** What the plugin adds to /state. */
function viewsOf (
  { node: { nodeId }, config }: RunnersContext, { instances, runners, routing, failures }: Assembly,
  detection: Detection
): Record<keyof typeof manifest.state, View> {
  return {
    instances: instances.view,
    runners,
    tasks: routing.tasks,
    instanceFailures: failures.view,
    nodeSystem: nodeSystem(nodeId, detection.accelerators),
    nodeResources: nodeResources(nodeId, detection.backends, config.rpc_for_every_user)
  }
}

/** Writes down why an instance failed here, and tells everybody. */
function recorder (ctx: RunnersContext, { failures }: Assembly): Instances['recordFailure'] {
  return (failure) => {
    failures.record({ ...failure, recordedAt: new Date(ctx.clock.now()).toISOString() })
    ctx.emit('InstanceFailureRecorded', failure)
  }
}

/** What the master does when a node asks for it. */
function decisions (ctx: RunnersContext, check: (entering: Entering) => void): object {
  const aboutInstances = commandHandlers({
    section: sectionsOf(ctx).instances,
    now: () => ctx.clock.now(),
    live: (nodeId) => ctx.deps.cluster.resolve(nodeId)?.live === true,
    digest: (modelId) => ctx.deps.models?.digest(modelId) ?? undefined,
    check
  })
  return {
    ...aboutInstances,
    settle: () => ({ sessionId: ctx.deps.session.sessionId })
  }
}

/** What the master does with what other nodes report. */
function aboutTasks (losses: Losses): object {
  return {
    tasksFailed: ({ failures }: { failures: TaskFailure[] }) => {
      losses.take(failures)
      return {}
    }
  }
}

/** Waits until what this node's document holds is acknowledged. Calls of one moment are one command. */
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

/** How instances get into the document and out of it, and who looks at them before. */
function enteringOf (ctx: RunnersContext): Pick<Instances, 'place' | 'onEnter'> & {
  unplace (instanceId: string, commandId?: string): Promise<boolean>
  drain (instanceId: string, seconds: number, commandId?: string): Promise<boolean>
  check (entering: Entering): void
} {
  const checks = new Set<(entering: Entering) => void>()
  return {
    place: async (instance, { commandId, force = false } = {}) =>
      (await ctx.command('create', { instance: instance, force }, commandId)).instanceId,
    unplace: async (instanceId, commandId) =>
      (await ctx.command('remove', { instanceId }, commandId)).removed,
    drain: async (instanceId, seconds, commandId) =>
      (await ctx.command('drain', { instanceId, seconds }, commandId)).found,
    check (entering) { for (const check of checks) check(entering) },
    onEnter (check) {
      checks.add(check)
      return () => { checks.delete(check) }
    }
  }
}

/** The sections by the types of this plugin, which their schemas stand for. */
function sectionsOf (ctx: RunnersContext): AssemblyParts['sections'] {
  return {
    instances: ctx.sections.instances as unknown as Section<Instance>,
    runners: ctx.sections.runners as unknown as Section<RunnerStatus>,
    failures: ctx.sections.failures
  }
}

/** Looks for the hardware there is; ends with the plugin. */
function detect (ctx: RunnersContext, parts: RunnersParts): Detection {
  const detection = startDetection({
    io: parts.probe,
    overrides: async () => await checkOverrides(parts.probe.env, parts.uid),
    declared: ctx.config.backends,
    options: ctx.config.engine_options,
    engines: ctx.deps.bundle.engines().map(({ name, decl: { backends, external } }) =>
      ({ name, backends, external })),
    log: ctx.log,
    clock: ctx.clock,
    raise: ctx.raise,
    clear: ctx.clear
  })
  ctx.effect('hardware detection', () => { detection.stop() })
  return detection
}

export default createRunners({ createSupervisor, probe: systemProbe(), uid: process.getuid?.() ?? 0 })
