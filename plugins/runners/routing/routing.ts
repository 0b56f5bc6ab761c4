import {
  delay, kernelError, requireModel, SESSION_GRACE_MS, SvcError, type Clock, type EngineChunk, type EngineTask,
  type MemberParts, type ModelCard
} from '../../../kernel/index.js'
import { Availability, contextOf, type AvailabilityParts } from './availability.js'
import {
  explainRefusal, noInstance, brokenLink, follow, intactLink, requestLink, type BrokenLink, type ModelChain,
  type ReadChains
} from './explain.js'
import type { RunnerSet, Member } from '../instances/runner-set.js'
import { NOT_STARTED, RunnerError } from '../process/errors.js'
import { compare, pick, type Refusal } from './pick.js'
import { splitHashes, type PrefixTable } from './prefixes.js'
import { mergeTasks, type TaskGossip } from './remote/gossip.js'
import type { Assigned } from './remote/receive.js'
import { openRemote } from './remote/send.js'
import { serve, watched, type ServeParts } from './serve.js'
import type { Instances, Route, RouteQuery, RunnerReport, Runners, VirtualModel } from '../service.js'
import { TaskTable, type TaskRequester, type Task } from './tasks.js'

export interface RoutingParts extends
  ServeParts, Omit<AvailabilityParts, 'remoteTasks' | 'cluster' | 'fleet' | 'tasks'> {
  clock: Clock
  fleet: RunnerSet
  tasks: TaskTable
  cluster: AvailabilityParts['cluster'] & MemberParts['cluster']
  gossip: Pick<TaskGossip, 'load' | 'tasks'>
  prefixes: PrefixTable
  newId (): string
}

type Listed = ReturnType<Runners['models']>[number]

const byPreference = (a: Listed, b: Listed): number =>
  Number(b.ready) - Number(a.ready) ||
  Number(a.card.modelId.startsWith('svc/')) - Number(b.card.modelId.startsWith('svc/')) ||
  (a.card.modelId < b.card.modelId ? -1 : 1)

type PlaceMissing = Parameters<Instances['onMissing']>[0]

export class Routing implements Runners {
  readonly #parts: RoutingParts
  /** Tasks that other nodes serve for this one. */
  readonly #remoteTasks: TaskTable
  readonly #availability: Availability
  readonly #virtual = new VirtualModels((modelId) => {
    try { return this.#availability.card(modelId) !== undefined } catch { return true }
  })

  readonly #placers = new Set<PlaceMissing>()

  constructor (parts: RoutingParts) {
    this.#parts = parts
    this.#remoteTasks = new TaskTable(() => parts.clock.mono())
    this.#availability = new Availability({ ...parts, remoteTasks: this.#remoteTasks })
  }

  async route (query: RouteQuery): Promise<Route> {
    requireModel(query.caller, query.modelId)
    this.#parts.watchers.admit(query)
    const virtual = this.#virtual.route(query, this.#parts)
    if (virtual !== undefined) return virtual
    const { clock, learning } = this.#parts
    const until = clock.mono() + SESSION_GRACE_MS
    let route = this.#pick(query)
    // Right after the start of a session this node does not have the placements yet.
    while ('code' in route && learning() && clock.mono() < until) {
      await delay(clock, LEARN_MS, query.signal)
      route = this.#pick(query)
    }
    if (!('code' in route)) return route
    const error = this.#explained(query, route)
    if (query.tooShort !== undefined || !await this.#place(query, error)) throw error
    route = this.#pick(query)
    if ('code' in route) throw this.#explained(query, route)
    return route
  }

  open (route: Route, task: EngineTask, signal: AbortSignal): AsyncIterable<EngineChunk> {
    const virtual = this.#virtual.open(route, task, signal, this.#parts)
    if (virtual !== undefined) return virtual
    const { self, tasks } = this.#parts
    const work = route.nodeId === self.nodeId
      ? { own: true, tasks, chunks: () => this.#openHere(route, task, signal) }
      : { own: false, tasks: this.#remoteTasks, chunks: () => this.#openThere(route, task, signal) }
    return serve(this.#parts, { route, ...work }, signal)
  }

  card (modelId: string): ModelCard | undefined {
    return this.#virtual.card(modelId) ?? this.#availability.card(modelId)
  }

  models (task: string): { card: ModelCard, ready: boolean }[] {
    const ready = this.#availability.ready()
    return [...this.#availability.cards().values(), ...this.#virtual.cards()]
      .filter((card) => card.tasks.includes(task))
      .map((card) => ({ card, ready: ready.has(card.modelId) || this.#virtual.ready(card.modelId) }))
      .sort(byPreference)
  }

  virtual (modelId: string, model: VirtualModel): () => void { return this.#virtual.add(modelId, model) }

  virtualCards (): ModelCard[] { return this.#virtual.cards() }

  virtualChain (modelId: string): ModelChain | undefined { return this.#virtual.chain(modelId, null) }

  reports (): RunnerReport[] { return this.#parts.fleet.reports() }

  get chains (): ReadChains {
    return async () => {
      const chain = await this.#availability.chains()
      return (modelId, capability) => this.#virtual.chain(modelId, capability) ?? chain(modelId, capability)
    }
  }

  /** The first broken link of a model's availability chain; null if it can serve `capability`. */
  missing (modelId: string, capability: string | null): BrokenLink | null {
    return this.#availability.broken(modelId, capability)
  }

  /** Runners of the model on this node that accept tasks, least loaded first. */
  serving (modelId: string): Member[] {
    return this.#availability.candidates(this.#availability.snapshot(modelId)).filter(({ own }) => own)
      .toSorted(compare).flatMap(({ runnerId }) => this.#parts.fleet.get(runnerId) ?? [])
  }

  /** The tasks of the whole cluster by id; tasks of other nodes as last reported. */
  tasks (): Record<string, { Inference: Task }> {
    const { tasks, gossip } = this.#parts
    return mergeTasks(tasks.all(), this.#remoteTasks.all(), gossip.tasks())
  }

  /** Implements `Instances.onMissing`. */
  onMissing (place: PlaceMissing): () => void {
    this.#placers.add(place)
    return () => { this.#placers.delete(place) }
  }

  /** Registers a task from another node. Throws `instance_lost`, or `invalid_request` if the id is in use. */
  take ({ trace, prefixes: led = '', ...assigned }: Assigned, requester: TaskRequester): Route {
    const { fleet, tasks, prefixes, self: { nodeId, installId } } = this.#parts
    const { taskId, modelId, instanceId, runnerId } = assigned
    const assignment = fleet.get(runnerId)?.assignment
    if (assignment?.instanceId !== instanceId || assignment.modelId !== modelId) {
      throw kernelError('instance_lost',
        `Runner ${runnerId} of ${modelId} is no longer on this node.`, NOT_STARTED)
    }
    if (tasks.get(taskId) !== undefined) {
      throw kernelError('invalid_request', `Task ${taskId} already exists on this node.`, { param: 'taskId' })
    }
    prefixes.remember(instanceId, splitHashes(led))
    this.#enter(tasks, assigned, requester)
    return { taskId, instanceId, runnerId, modelId, nodeId, installId, trace }
  }

  /** Assigns a task id and chooses a runner; if none can be chosen, returns the code of the refusal. */
  #pick (query: RouteQuery): Route | Refusal {
    const { modelId, capability, commandId, caller, tooShort, trace } = query
    const snapshot = this.#availability.snapshot(modelId)
    const longerThan = tooShort === undefined ? undefined : contextOf(snapshot.instances, tooShort)
    const candidates = this.#availability.does(modelId, capability)
      ? this.#availability.candidates(snapshot) : []
    const { prefixes } = this.#parts
    // With a single candidate there is no choice, so nothing is hashed.
    const lead = prefixes.lead(candidates.length > 1 ? query : {})
    const rated = candidates.map((one) => ({ ...one, held: prefixes.rate(one.instanceId, lead) }))
    const chosen = pick(rated, { ...query, ...longerThan === undefined ? {} : { longerThan } })
    if ('code' in chosen) return chosen
    const { own, instanceId, runnerId, nodeId, installId } = chosen
    prefixes.remember(instanceId, lead.kept)
    const taskId = this.#parts.newId()
    this.#enter(own ? this.#parts.tasks : this.#remoteTasks,
      { taskId, commandId, instanceId, modelId, capability, runnerId }, { caller, member: null })
    return { taskId, instanceId, runnerId, modelId, nodeId, installId, trace, prefixes: lead.kept.join('') }
  }

  #explained ({ modelId, capability }: RouteQuery, refusal: Refusal): SvcError {
    const snapshot = this.#availability.snapshot(modelId)
    const broken = this.#availability.broken(modelId, capability, snapshot) ??
      explainRefusal(modelId, refusal, snapshot.runners.some(({ own }) => own))
    return noInstance(modelId, broken, this.#parts.clock.now())
  }

  #enter (table: TaskTable, assigned: Omit<Assigned, 'trace' | 'prefixes'>, requester: TaskRequester): void {
    const { taskId, commandId, instanceId, modelId, capability, runnerId } = assigned
    const createdAt = new Date(this.#parts.clock.now()).toISOString()
    table.add({ taskId, commandId, instanceId, modelId, capability, createdAt }, runnerId, requester)
  }

  /**
   * Places the model if only its placement is missing. True if the model may now have a ready instance.
   * Throws the placement's errors.
   */
  async #place (query: RouteQuery, { details: { brokenLink } }: SvcError): Promise<boolean> {
    const fits = this.card(query.modelId)?.tasks.includes(query.capability) === true
    if (!fits || !ON_ITS_WAY.includes(brokenLink)) return false
    for (const place of this.#placers) if (await place(query)) return true
    return false
  }

  #openHere (
    { runnerId, modelId, taskId, trace }: Route, task: EngineTask, signal: AbortSignal
  ): AsyncIterable<EngineChunk> {
    const { fleet, tasks } = this.#parts
    const supervisor = fleet.get(runnerId)?.supervisor
    if (supervisor == null) {
      throw new RunnerError('instance_lost', `The runner of ${modelId} has ended.`, NOT_STARTED)
    }
    const { caller } = tasks.requesterOf(taskId)
    return supervisor.open(taskId, task, signal, {
      ...caller === null ? {} : { callerId: caller.id }, ...trace === undefined ? {} : { trace },
      admitted: () => { tasks.start(taskId) }
    })
  }

  #openThere (route: Route, task: EngineTask, signal: AbortSignal): AsyncIterable<EngineChunk> {
    const about = this.#remoteTasks.get(route.taskId)
    const { caller } = this.#remoteTasks.requesterOf(route.taskId)
    if (about === undefined || caller === null) throw new Error(`task ${route.taskId} was never routed`)
    return openRemote(this.#parts, route, { task, about, caller }, signal)
  }
}

/** Broken links that placing the model fixes, or that another request is fixing now. */
const ON_ITS_WAY: readonly unknown[] = ['placement', 'runner']

/** Milliseconds between routing attempts while this node receives the placements. */
const LEARN_MS = 100

class VirtualModels {
  readonly #models = new Map<string, VirtualModel>()
  readonly #hasFiles: (modelId: string) => boolean
  readonly #queries = new WeakMap<Route, RouteQuery>()

  constructor (hasFiles: (modelId: string) => boolean) { this.#hasFiles = hasFiles }

  #get (modelId: string): VirtualModel | undefined {
    const model = this.#models.get(modelId)
    return model?.yields === true && this.#hasFiles(modelId) ? undefined : model
  }

  /** Implements `Runners.virtual`. */
  add (modelId: string, model: VirtualModel): () => void {
    this.#models.set(modelId, model)
    return () => { this.#models.delete(modelId) }
  }

  cards (): ModelCard[] { return [...this.#models.keys()].flatMap((modelId) => this.card(modelId) ?? []) }

  card (modelId: string): ModelCard | undefined { return this.#get(modelId)?.card() }

  ready (modelId: string): boolean { return this.#get(modelId)?.refusal() === null }

  /**
   * The route to a virtual model, which has no runner; undefined for any other model. Throws the model's
   * refusal, or `no_instance` for a task that the model does not support.
   */
  route (
    query: RouteQuery,
    { clock, newId, self: { nodeId, installId } }:
    { clock: Clock, newId: () => string, self: Pick<Route, 'nodeId' | 'installId'> }
  ): Route | undefined {
    const { modelId, capability, trace } = query
    const model = this.#get(modelId)
    if (model === undefined) return undefined
    const refusal = model.refusal()
    if (refusal !== null) throw refusal
    const { broken } = chainOf(modelId, model, capability)
    if (broken !== null) throw noInstance(modelId, broken, clock.now())
    const route: Route = {
      taskId: newId(), nodeId, installId, instanceId: '', runnerId: '', modelId, trace
    }
    this.#queries.set(route, query)
    return route
  }

  /** Like `Runners.open`; undefined for a route to a runner. */
  open (
    route: Route, task: EngineTask, signal: AbortSignal, { watchers }: Pick<ServeParts, 'watchers'>
  ): AsyncIterable<EngineChunk> | undefined {
    const query = this.#queries.get(route)
    const chunks = query && this.#get(route.modelId)?.open(task, query, signal)
    return chunks && watched(chunks, watchers.beginVirtual(route, query!), signal)
  }

  /** The availability chain of a virtual model, which needs no instance; undefined for other models. */
  chain (modelId: string, capability: string | null): ModelChain | undefined {
    const model = this.#get(modelId)
    return model && chainOf(modelId, model, capability)
  }
}

function chainOf (modelId: string, model: VirtualModel, capability: string | null): ModelChain {
  const [refusal, card] = [model.refusal(), model.card()]
  const refuses = card === undefined ? 'card' : 'runner'
  return follow((link) => {
    if (refusal !== null && link === refuses) {
      return brokenLink(refusal.reason, refusal.message.replace(/\.$/, ''),
        String(refusal.details['remedy'] ?? ''))
    }
    if (link === 'request') return requestLink({ capability, card: card ?? null, modelId })
    return intactLink('answered by the node itself')
  }, (link) => link === 'runner')
}
