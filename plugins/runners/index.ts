import { randomUUID } from 'node:crypto'
import { definePlugin, kernelError } from '../../kernel/index.js'
import type { Caller, Context, Plugin, Section } from '../../kernel/index.js'
import { assemble } from './assembly.js'
import type { AssemblyParts } from './assembly.js'
import { autostart } from './autostart.js'
import { checkOverrides } from './binaries.js'
import { commandHandlers } from './commands.js'
import { startDetection } from './detection.js'
import type { Detection } from './detection.js'
import type { InstanceFailure } from './failures.js'
import { systemProbe } from './gpu-probe.js'
import type { ProbeIo } from './gpu-probe.js'
import { withCopies } from './copies.js'
import { LostNodes } from './lost-nodes.js'
import { manifest } from './manifest.js'
import { reasonOf } from './process/errors.js'
import { createSupervisor, resolveLimits, sweepOrphans } from './process/supervisor.js'
import type { RunnerOptions, Supervisor } from './process/supervisor.js'
import { taskHandler } from './remote/receive.js'
import { runnersFolder } from './scratch.js'
import type { Entering, Instances, RunnerStatus } from './service.js'
import type { Instance } from './shapes.js'
import { nodeResources, nodeSystem } from './state-views.js'

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
    const { bundle, commands, session, models, cluster } = ctx.deps
    const detection = detect(ctx, parts)
    const sections = sectionsOf(ctx)
    const entering = enteringOf(ctx)
    const assembly = assemble({
      node: ctx.node,
      clock: ctx.clock,
      log: ctx.log,
      cluster,
      bundle: withCopies(bundle, models),
      shipped: bundle,
      models,
      config: ctx.config,
      detection,
      sections,
      createSupervisor: parts.createSupervisor,
      newId: randomUUID,
      place: entering.place,
      unplace: entering.unplace,
      advertise: ctx.advertise,
      emit: ctx.emit,
      error: ctx.error
    })
    const { instances, routing } = assembly
    void assembly.prune()
    ctx.effect('runners', assembly.close)
    ctx.sections.instances.observe(() => { void assembly.reconcile() })
    ctx.readiness('runners', assembly.readiness)
    startModels(ctx, instances.ensure)
    removeLost(ctx, sections.instances)
    return {
      commands: commandHandlers({
        section: sections.instances,
        check: entering.check,
        created: (instanceId, modelId, nodeIds) => {
          ctx.emit('InstanceCreated', { instanceId, modelId, nodeIds })
        },
        deleted: (instanceId, modelId) => { ctx.emit('InstanceDeleted', { instanceId, modelId }) }
      }) as never,
      routes: {
        cancel: (request) => cancelCommand(commands.cancel, request.params.command_id, request.caller),
        task: taskHandler({ cluster, commands, clock: ctx.clock, take: routing.take, open: routing.open })
      },
      services: {
        runners: routing,
        instances: { ...instances, place: entering.place, onEnter: entering.onEnter },
        accelerators: { accelerators: detection.accelerators }
      },
      state: {
        instances: instances.view,
        runners: assembly.runners,
        tasks: () => assembly.tasks.view(),
        instanceFailures: assembly.failures.view,
        nodeSystem: nodeSystem(ctx.node.nodeId, detection.accelerators),
        nodeResources: nodeResources(ctx.node.nodeId, detection.backends)
      }
    }
  })
}

/** How instances get into the document and out of it, and who looks at them before. */
function enteringOf (ctx: RunnersContext): Pick<Instances, 'place' | 'onEnter'> & {
  unplace (instanceId: string, commandId?: string): Promise<boolean>
  check (entering: Entering): void
} {
  const checks = new Set<(entering: Entering) => void>()
  return {
    place: async (instance, { commandId, force = false } = {}) =>
      (await ctx.command('create', { instance: instance as never, force }, commandId)).instanceId,
    unplace: async (instanceId, commandId) =>
      (await ctx.command('remove', { instanceId }, commandId)).removed,
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
    failures: ctx.sections.failures as Section<InstanceFailure>
  }
}

/** Looks for the hardware there is; ends with the plugin. */
function detect (ctx: RunnersContext, parts: RunnersParts): Detection {
  const detection = startDetection({
    io: parts.probe,
    overrides: async () => await checkOverrides(parts.probe.env, parts.uid),
    declared: ctx.config.backends,
    engines: ctx.deps.bundle.engines().map(({ name, decl }) => ({ name, backends: decl.backends })),
    log: ctx.log,
    clock: ctx.clock,
    raise: ctx.raise,
    clear: ctx.clear
  })
  ctx.effect('hardware detection', () => { detection.stop() })
  return detection
}

/** How long a model that nobody knows yet is waited for before it is asked for again, ms. */
const UNKNOWN_MS = 10_000

/** Starts what is set to start with the node: now, in each new session, and when a model becomes known. */
function startModels (ctx: RunnersContext, ensure: (modelId: string) => Promise<unknown>): void {
  const { bundle, session } = ctx.deps
  let cancel = (): void => {}
  const boot = (): void => {
    cancel()
    void autostart({
      bundle,
      log: ctx.log,
      configured: ctx.config.autostart,
      masterKnown: () => session.masterNodeId !== null,
      ensure
    }).then((allKnown) => {
      if (!allKnown) cancel = ctx.clock.after(UNKNOWN_MS, boot)
    })
  }
  ctx.effect('autostart', session.onChange(boot))
  ctx.effect('autostart again', () => { cancel() })
  boot()
}

/** How often the master looks for instances of nodes that are gone, ms. */
const LOST_MS = 2000

/** On the master: instances of nodes that are gone for good are removed. */
function removeLost (ctx: RunnersContext, section: Section<Instance>): void {
  const { clock, log, deps: { session, cluster } } = ctx
  const lost = new LostNodes()
  let since = clock.mono()
  let sessionId = session.sessionId
  ctx.effect('session age', session.onChange(() => {
    if (session.sessionId !== sessionId) since = clock.mono()
    sessionId = session.sessionId
  }))
  const look = (): void => {
    if (!session.isMaster) return
    const now = clock.mono()
    const all = [...section.entries()].map(({ value }) => value)
    for (const instanceId of lost.gone(all, cluster.nodes(), now, now - since)) {
      ctx.command('remove', { instanceId }).catch((error: unknown) => {
        log.warn({ instanceId, error: reasonOf(error) }, 'an instance of a lost node could not be removed')
      })
    }
  }
  ctx.every('lost nodes', LOST_MS, look)
}

/** Answers POST /v1/cancel/:command_id. Throws `command_unknown`. */
function cancelCommand (
  cancel: (id: string, caller: Caller) => boolean,
  commandId: string,
  caller: Caller
): unknown {
  if (!cancel(commandId, caller)) throw kernelError('command_unknown', `No command ${commandId} is running.`)
  return { message: 'The command was cancelled.', command_id: commandId }
}

export default createRunners({ createSupervisor, probe: systemProbe(), uid: process.getuid?.() ?? 0 })
