import { randomUUID } from 'node:crypto'
import { systemClock } from '../../kernel/index.js'
import { createBundle } from './cards/bundle.js'
import { assemble, type Assembly, type MachineParts, type Parts, type RunnersContext } from './assembly.js'
import { donorHandler } from './donors/donor.js'
import { commandHandlers } from './instances/commands.js'
import { createAnnouncer, placedCard, type Announcer } from './instances/document.js'
import { runnersFolder } from './instances/launch.js'
import { nodeResources } from './machine/detection.js'
import { memoryView } from './machine/memory.js'
import { runtimeFiles } from './machine/runtimes.js'
import { createMachine } from './machine/vitals.js'
import { ofRunner } from './process/peers.js'
import { findSandboxProblem } from './process/sandbox.js'
import { createSupervisor, resolveLimits, sweepOrphans } from './process/supervisor.js'
import { cancelHandler } from './routing/cancel.js'
import { availabilityHandler, availabilityReader } from './routing/explain.js'
import type { TaskFailure } from './routing/lost-tasks.js'
import { taskHandler } from './routing/remote/receive.js'
import type { PendingInstance, Instances } from './service.js'

/** This machine; tests replace it. */
const own = (): MachineParts => ({
  createSupervisor, files: runtimeFiles(), uid: process.getuid?.() ?? 0, sandboxProblem: findSandboxProblem
})

/** Starts the plugin on a machine, by default on this one. */
export function start (ctx: RunnersContext, machine = own()) {
  resolveLimits({}, machine.files.env)
  const killed = sweepOrphans(runnersFolder(ctx.node.home))
  if (killed.length > 0) ctx.log.warn({ pids: killed }, 'killed runners that an earlier node left behind')
  const parts = complete(ctx, machine)
  const { bundle, reader } = parts
  const assembly = assemble(ctx, parts)
  const { sections, routing, fleet, detection, drivers, gangs, failures, instances, endings } = assembly
  const { commands, cluster, models, session } = ctx.deps
  const { clock, log, node: { nodeId } } = ctx
  void assembly.prune()
  ctx.effect('readings', ctx.deps.vitals.offer(reader))
  ctx.effect('runners', assembly.close)
  const announce = createAnnouncer({
    section: sections.instances, session, log, settled: assembly.settled,
    created: (event) => { ctx.emit('InstanceCreated', event) },
    deleted: (event) => { ctx.emit('InstanceDeleted', event) },
    report: async (instances) => await ctx.command('instancesGone', { instances })
  })
  sections.instances.observe(() => {
    void assembly.reconcile()
    void announce.look()
  })
  ctx.effect('announcing', session.onChange(() => { void announce.look() }))
  ctx.effect('callers', ctx.deps.callers.distrust(({ connection = {} }) => ofRunner(connection)))
  ctx.readiness('runners', assembly.readiness)
  if (models !== undefined) {
    ctx.effect('judgement of models', models.judge(availabilityReader(routing.chains)))
    ctx.effect('virtual models', models.virtual(() => routing.virtualCards()))
    ctx.effect('placed models', models.placed(() =>
      assembly.instances.of().flatMap((ring) => placedCard([ring]) ?? [])))
  }
  const checks = new Set<(entering: PendingInstance) => void>()
  const check = (entering: PendingInstance): void => { for (const one of checks) one(entering) }
  return {
    commands: decisions(ctx, assembly, announce, check) as never,
    routes: {
      cancel: cancelHandler({ commands, cluster, clock }),
      availability: availabilityHandler(routing.chains),
      feed: drivers.feed,
      gang: gangs.join.bind(gangs),
      donor: donorHandler({
        nodeId, cluster, instances: sections.instances, fleet, gangs, clock, log, newId: randomUUID
      }),
      task: taskHandler({ ...ctx.deps, clock, routing })
    },
    services: {
      bundle, drivers: detection, machine: reader, runners: routing,
      instances: instanceService(ctx, assembly, checks), work: assembly.work
    },
    state: {
      instances: () => instances.view(), runners: assembly.runners, tasks: () => routing.tasks(),
      instanceFailures: () => failures.view(), nodeSystem: memoryView(nodeId, fleet, reader.lastGpus,
        (runnerId) => endings.idleSeconds(runnerId)),
      nodeResources: nodeResources(
        nodeId, detection, ctx.config.rpc_for_every_user, ctx.config.memory_mib)
    }
  }
}

/** Adds this node's bundled models and its machine readings, unless a test supplies others. */
function complete ({ deps, log, node: { home } }: RunnersContext, given: MachineParts): Parts {
  const machine = { home, clock: systemClock, log, env: given.files.env }
  return { bundle: createBundle(deps.declarations), reader: createMachine(machine), ...given }
}

function decisions (
  { clock, deps: { cluster, models, session } }: RunnersContext, { sections, losses }: Assembly,
  announce: Announcer, check: (entering: PendingInstance) => void
): object {
  return {
    ...commandHandlers({
      section: sections.instances, now: () => clock.now(),
      live: (nodeId) => cluster.resolve(nodeId)?.live === true,
      digest: (modelId) => models?.digest(modelId) ?? undefined, check
    }),
    settle: () => ({ sessionId: session.sessionId }),
    tasksFailed ({ failures }: { failures: TaskFailure[] }) {
      losses.take(failures)
      return {}
    },
    instancesGone ({ instances }: { instances: { instanceId: string, modelId: string }[] }) {
      announce.gone(instances)
      return {}
    }
  }
}

function instanceService (
  ctx: RunnersContext, assembly: Assembly, checks: Set<(entering: PendingInstance) => void>
): Instances {
  const { instances, endings, routing, failures, recordFailure, onAbsent, reconcile, runners } = assembly
  const unknown = (instanceId: string): Error =>
    ctx.error('instance_not_found', `No instance ${instanceId}.`)
  return {
    placed: () => ({ instances: instances.view(), runners: runners(), failures: failures.view() }),
    place: async (instance, { commandId, force = false } = {}) =>
      (await ctx.command('create', { instance, force }, commandId)).instanceId,
    async remove (instanceId, { commandId, ended = true } = {}) {
      const { removed } = await ctx.command('remove', { instanceId }, commandId)
      if (!removed) throw unknown(instanceId)
      if (ended) await reconcile()
    },
    async drain (instanceId, { seconds, commandId }) {
      const { found } = await ctx.command('drain', { instanceId, seconds }, commandId)
      if (!found) throw unknown(instanceId)
    },
    evict: assembly.evict,
    releasing: () => endings.releasing(),
    settling: () => endings.settling(),
    recordFailure,
    onMissing: (place) => routing.onMissing(place),
    onAbsent,
    onEnter (check) {
      checks.add(check)
      return () => { checks.delete(check) }
    }
  }
}
