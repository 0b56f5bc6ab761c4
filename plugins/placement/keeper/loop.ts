import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { SvcError } from '../../../kernel/index.js'
import { bodyOf } from '../../runners/service.js'
import type { Facts } from '../facts.js'
import type { PlacementContext } from '../manifest.js'
import type { SeenState } from '../cli/state.js'
import { idOf } from '../place/instance.js'
import type { Planning } from '../place/planning.js'
import { serves, type InstanceFailure } from '../progress/progress.js'
import { MESSAGE_CHARS_MAX, type WaitingEntry } from '../waitlist.js'
import { CutLinks, LostNodes, type CutLinkChanges, type LostNodesResult } from './lost-nodes.js'
import { decide, type Step } from './decide.js'
import { onceFor } from './once.js'
import type { FitChecks, Situation } from './roles.js'
import { isLater, PlacementQueue } from './placing.js'
import { Replicas, type ReplicaLoad } from './replicas.js'
import { Stalls } from './stalls.js'

/** Interval in ms of passes while work is in progress, and their longest delay after a state change. */
const LOOK_EVERY_MS = 1000
/** Milliseconds for which events are collected before a pass. */
const GATHER_MS = 50
/** Limit in seconds on the drain of an instance whose node is stopping; usually the node stops earlier. */
const LEAVE_SECONDS = 30
/** Limit in seconds on requests that reach a replica just before it is drained. */
const RETIRE_SECONDS = 3600
const NO_PROGRESS = 'no_progress'

const TRIGGERS = ['InstanceCreated', 'InstanceDeleted', 'InstanceFailureRecorded', 'RunnerStatusUpdated']

/**
 * Reconciles placements with the desired state until the plugin stops. On the master each pass reads the
 * facts, decides and runs the steps. Other nodes only track missing nodes, so that a new master knows when
 * each node went missing.
 */
export class Keeper {
  readonly #planning: Planning
  readonly #ctx: PlacementContext
  readonly #placing: PlacementQueue
  readonly #lost = new LostNodes()
  readonly #cuts = new CutLinks()
  readonly #stalls = new Stalls()
  #replicas = new Replicas()
  #session = ''
  #sessionSince: number
  #lookedAt = -Infinity
  /** Start of the next pass in monotonic ms, and a function that cancels its timer. */
  #dueAt = Infinity
  #cancel: () => void = () => {}
  #looking = false
  #closed = false
  /** True if the `autoplace` list could not be read in the last pass. */
  #unread = false
  /** True if the last pass found no work and the state has not changed since. */
  #atRest = false
  #nodesSeen = ''

  constructor (planning: Planning) {
    const { ctx } = planning
    const { session, cluster, state } = ctx.deps
    this.#planning = planning
    this.#ctx = ctx
    this.#placing = new PlacementQueue(planning)
    this.#sessionSince = ctx.clock.mono()
    const poke = (): void => { this.#poke() }
    ctx.effect('keeper', () => {
      // Do not cancel a running command, which may be waiting for a master.
      this.#closed = true
      this.#cancel()
    })
    ctx.effect('new session', session.onChange(() => { this.#sessionChanged() }))
    ctx.effect('membership changes', cluster.onPeers(poke))
    ctx.sections.waiting.observe(poke)
    ctx.sections.drainedNodes.observe(poke)
    for (const kind of TRIGGERS) ctx.on(kind, poke)
    // Other state changes are not urgent, so leave the pass to the next tick.
    ctx.effect('state changes', state.onChange(() => { this.#atRest = false }))
    ctx.every('placement pass', LOOK_EVERY_MS, () => { this.#tick() })
    this.#sessionChanged()
  }

  readonly poke = (): void => { this.#poke() }

  /** Schedules a pass now, or GATHER_MS after the last one if that is later. */
  #poke (): void { this.#lookBy(this.#lookedAt + GATHER_MS) }

  /**
   * Runs a pass unless the keeper is at rest. Compares the nodes because a node that announces its stop emits
   * no event. On a node that is not the master a pass is cheap.
   */
  #tick (): void {
    const { isMaster } = this.#ctx.deps.session
    if (!isMaster || !this.#atRest || this.#nodesSeen !== this.#nodes()) this.#poke()
  }

  #sessionChanged (): void {
    const { clock, deps: { session } } = this.#ctx
    if (session.sessionId !== this.#session) this.#sessionSince = clock.mono()
    this.#session = session.sessionId
    this.#poke()
  }

  #lookBy (at: number): void {
    if (this.#closed || at >= this.#dueAt) return
    const { clock } = this.#ctx
    this.#cancel()
    this.#dueAt = at
    if (this.#looking) return
    this.#cancel = clock.after(Math.max(0, at - clock.mono()), () => { void this.#lookNow() })
  }

  async #lookNow (): Promise<void> {
    this.#dueAt = Infinity
    this.#looking = true
    this.#lookedAt = this.#ctx.clock.mono()
    this.#atRest = true
    await this.#look().catch((error: unknown) => { this.#failed(error) })
    this.#looking = false
    // Schedule a pass that was requested while this pass was running.
    const next = this.#dueAt
    this.#dueAt = Infinity
    this.#lookBy(next)
  }

  #failed (error: unknown): void {
    this.#atRest = false
    const { log } = this.#ctx
    if (isLater(error)) log.debug({ err: error }, 'the keeper will retry the placements')
    else log.warn({ err: error }, 'the keeper could not reconcile the placements')
  }

  async #look (): Promise<void> {
    const { clock, deps: { session, cluster } } = this.#ctx
    const sessionAge = clock.mono() - this.#sessionSince
    if (!session.isMaster) {
      this.#replicas = new Replicas()
      this.#lost.look([], cluster.nodes(), clock.mono(), sessionAge)
      return
    }
    const sessionId = session.sessionId
    const still = (): boolean => session.isMaster && session.sessionId === sessionId && !this.#closed
    this.#nodesSeen = this.#nodes()
    const load = await this.#load()
    const facts = this.#planning.facts.now()
    const nodes = facts.nodes.map(({ view }) => view)
    const reached = reachedByOthers(facts, cluster.self.nodeId)
    const instances = Object.values(facts.instances)
    const losses = this.#lost.look(instances, nodes, clock.mono(), sessionAge, reached)
    const cuts = this.#cuts.look(instances, facts.nodes, clock.mono())
    const steps = this.#decide(facts, load, losses, cuts)
    const more = steps.length > 0 || load.policies.size > 0 || cuts.nextMs !== null
    if (more || this.#goesOn(facts, losses)) this.#atRest = false
    for (const step of steps) {
      if (!still()) return
      try {
        await this.#do(step, still)
      } catch (error) {
        // A failed step must not block the steps for other instances.
        if (isLater(error)) throw error
        this.#failed(error)
      }
    }
    this.#wake(losses)
  }

  /** True if more passes are needed: an instance is not ready, or a node is missing or stopping. */
  #goesOn ({ instances, nodes, runners }: Facts, { nextMs }: LostNodesResult): boolean {
    return nextMs !== null || this.#unread ||
      nodes.some(({ view: { live, leaving } }) => live && leaving === true) ||
      Object.values(instances).some((one) => !serves({ runners }, one))
  }

  #nodes (): string {
    return this.#ctx.deps.cluster.nodes().map(({ nodeId, live, leaving }) =>
      `${nodeId} ${live} ${leaving === true}`).join()
  }

  #decide (facts: Facts, load: ReplicaLoad, losses: LostNodesResult, { cut }: CutLinkChanges): Step[] {
    const { clock, sections } = this.#ctx
    const nodes = facts.nodes.map(({ view }) => view)
    const waiting = new Map([...sections.waiting.entries()].map(({ key, value }) => [key, value]))
    const drained = this.#planning.drained()
    this.#placing.notice(facts, waiting)
    const situation: Situation = {
      now: clock.now(), instances: Object.values(facts.instances), runners: facts.runners,
      failures: this.#failures(facts, losses), nodes, gone: losses.gone, cut,
      leaving: new Set(nodes.filter((node) => node.leaving === true).map(({ nodeId }) => nodeId)),
      drained: new Set(nodes.filter(({ installId }) => drained.has(installId)).map(({ nodeId }) => nodeId)),
      autoplace: this.#autoplace(), policies: new Set(load.policies.keys()),
      roles: new Map([...this.#planning.roles].map(([role, keeping]) => [role, keeping.wanted()])),
      waiting, stopped: new Set([...sections.stopped.entries()].map(({ key }) => key))
    }
    const judge: FitChecks =
      { newId: randomUUID, fits: (modelId, intent) => this.#placing.fits(modelId, intent, facts) }
    const steps = decide(situation, judge)
    const waits = new Map(steps.flatMap((step) => 'entry' in step ? [[step.id, step.entry]] : []))
    return [...steps, ...this.#replicas.look({ ...situation, waiting: waits }, load, judge, clock.mono())]
  }

  /** Stores the policies of this node's svc.yaml; then reads all policies and the open requests. */
  async #load (): Promise<ReplicaLoad> {
    const { command, config, log, deps: { state }, sections: { policies: stored } } = this.#ctx
    for (const modelId of [...Object.keys(config.policies), ...[...stored.entries()].map(({ key }) => key)]) {
      const { from = 'svc.yaml', ...policy } = stored.get(modelId) ?? {}
      // Settings have no prototype; the copy has one, so that it can equal the stored policy.
      const patch = structuredClone(config.policies[modelId] ?? {})
      if (from === 'request' || isDeepStrictEqual(policy, patch)) continue
      // The keeper goes on without a policy that could not be stored.
      await command('policy', { modelId, patch, from }).catch((error: unknown) => {
        log.warn({ modelId, err: error }, 'a policy of svc.yaml could not be stored')
      })
    }
    const policies = new Map([...stored.entries()].flatMap(({ key, value: { replicas } }) =>
      replicas === undefined ? [] : [[key, replicas]]))
    const open = new Map<string, number>()
    const { tasks = {} } = (policies.size === 0 ? {} : await state.read()) as Pick<SeenState, 'tasks'>
    for (const { Inference: task } of Object.values(tasks)) {
      if (task?.status !== 'Pending' && task?.status !== 'Running') continue
      open.set(task.instanceId, (open.get(task.instanceId) ?? 0) + 1)
    }
    return { policies, open }
  }

  /** The `autoplace` models; none if a card cannot be read, so that the rest of the pass goes on. */
  #autoplace (): readonly string[] {
    try {
      const models = this.#planning.placedAlways()
      this.#unread = false
      return models
    } catch (error) {
      if (!this.#unread) this.#ctx.log.error({ err: error }, 'models cannot be placed automatically')
      this.#unread = true
      return []
    }
  }

  /** Runs one step. `still` returns false once the session has changed. */
  async #do (step: Step, still: () => boolean): Promise<void> {
    const { log, command, deps: { instances } } = this.#ctx
    const { id } = step
    // Do not wait for a slow runner to exit, because other entries are waiting to be placed.
    const remove = async (): Promise<boolean> => await wasThere(instances.remove(id, { ended: false }))
    // A stopping master may send `wait` to the next master when that one has already placed the entry. The
    // fixed command id makes it a duplicate, which cannot add the entry again.
    const wait = async (entry: WaitingEntry): Promise<void> => {
      await command('wait', { id, entry }, onceFor('wait', id))
    }
    switch (step.do) {
      case 'forget':
        log.info({ instanceId: id, why: step.why }, 'an instance no longer waits')
        await command('unwait', { id })
        return
      case 'wait':
        await wait(step.entry)
        return
      case 'lose': {
        const { modelId, reason, message } = step.entry
        log.warn({ instanceId: id, modelId, reason, message }, 'an instance is to be placed again')
        await wait(step.entry)
        // If the instance was already removed, a client removed it on purpose, so drop the entry. After a
        // session change the next master may have removed the instance, so keep the entry.
        if (!await remove() && still()) await command('unwait', { id })
        return
      }
      case 'move': {
        log.info({ instanceId: id }, 'an instance moves to another node')
        await wait(step.entry)
        const drained = await wasThere(instances.drain(id, { seconds: LEAVE_SECONDS }))
        if (!drained && still()) await command('unwait', { id })
        return
      }
      case 'drain':
        log.info({ instanceId: id }, 'an instance is drained: its replacement is ready')
        await wasThere(instances.drain(id, { seconds: LEAVE_SECONDS }))
        return
      case 'retire':
        if (!await wasThere(instances.drain(id, { seconds: RETIRE_SECONDS }))) return
        this.#announce('ReplicaRemoved', id, step.modelId)
        return
      case 'remove':
        await remove()
        return
      case 'place':
        await this.#place(id, step.entry)
    }
  }

  async #place (id: string, entry: WaitingEntry): Promise<void> {
    const { clock, log, command, sections } = this.#ctx
    const facts = this.#planning.facts.now()
    // Wait until the instance that the entry replaces is gone or draining.
    const before = facts.instances[id]
    if (before !== undefined && bodyOf(before).drainUntil === undefined) return
    if (sections.waiting.get(id) === undefined || this.#placing.pause(id, clock.mono()) > 0) return
    const tried = await this.#placing.place(id, entry, facts, clock.mono())
    if (tried.ok) {
      const instanceId = idOf(tried.instance)
      const { modelId } = entry
      log.info({ instanceId, modelId, waitedAs: id }, 'an instance was placed')
      if (entry.intent.replica !== undefined) this.#announce('ReplicaAdded', instanceId, modelId)
      // Use a random command id, so that an entry added by a late repeated `wait` can be removed again.
      await command('unwait', { id })
      return
    }
    const { reason, message } = tried
    // Write only when the reason changes: numbers in messages change often, and each write grows the
    // replicated document.
    if (reason === entry.reason) return
    await command('note', { id, reason, message: message.slice(0, MESSAGE_CHARS_MAX) })
  }

  #announce (kind: 'ReplicaAdded' | 'ReplicaRemoved', instanceId: string, modelId: string): void {
    const numbers = this.#replicas.numbers.get(modelId)
    if (numbers !== undefined) this.#ctx.emit(kind, { instanceId, modelId, ...numbers })
  }

  /** All recorded failures, plus new stalls, which this method records as failures. */
  #failures (facts: Facts, { gone }: LostNodesResult): readonly InstanceFailure[] {
    const { clock, deps: { instances } } = this.#ctx
    const stalls = this.#stalls.look(facts, clock.mono())
    const stalled = new Set(stalls.map(({ instanceId }) => instanceId))
    const known = new Set(facts.instanceFailures.map(({ instanceId }) => instanceId))
    const failures = stalls
      .filter(({ instanceId, nodeIds }) => !known.has(instanceId) && !nodeIds.some((id) => gone.has(id)))
      .map(({ instanceId, modelId, nodeIds, seconds }) => ({
        instanceId, modelId, errorCode: NO_PROGRESS, affectedNodeIds: nodeIds,
        errorMessage: `No progress for ${Math.round(seconds)} s.`
      }))
    for (const failure of failures) instances.recordFailure(failure)
    // Ignore a recorded stall once the instance makes progress again.
    const told = facts.instanceFailures.filter(({ instanceId, errorCode }) =>
      errorCode !== NO_PROGRESS || stalled.has(instanceId))
    return [...failures, ...told]
  }

  /** Schedules a pass before the next tick if a node will count as lost or a retry pause will end by then. */
  #wake ({ nextMs }: LostNodesResult): void {
    const { clock, sections } = this.#ctx
    const now = clock.mono()
    const pauses = [...sections.waiting.entries()].map(({ key }) => this.#placing.pause(key, now))
    const next = Math.min(...pauses.filter((ms) => ms > 0), nextMs ?? Infinity)
    if (next < LOOK_EVERY_MS) this.#lookBy(now + Math.max(next, GATHER_MS))
  }
}

function reachedByOthers ({ nodes }: Facts, self: string): Set<string> {
  const others = nodes.filter(({ view }) => view.live && view.nodeId !== self)
  return new Set(others.flatMap(({ links }) => links.map(({ nodeId }) => nodeId)))
}

async function wasThere (work: Promise<void>): Promise<boolean> {
  try {
    await work
    return true
  } catch (error) {
    if (error instanceof SvcError && error.reason === 'instance_not_found') return false
    throw error
  }
}
