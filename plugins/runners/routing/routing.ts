import { delay, kernelError, SESSION_GRACE_MS, SvcError } from '../../../kernel/index.js'
import type { Clock, EngineChunk, EngineTask, MemberParts, ModelCard } from '../../../kernel/index.js'
import { Availability, contextOf } from './availability.js'
import type { AvailabilityParts } from './availability.js'
import { explainRefusal, noInstance } from './explain.js'
import type { BrokenLink, ModelChain, ReadChains } from './explain.js'
import type { RunnerSet, Member } from '../instances/runner-set.js'
import { NOT_STARTED, RunnerError } from '../process/errors.js'
import { compare, pick } from './pick.js'
import type { Refusal } from './pick.js'
import { mergeTasks } from './remote/gossip.js'
import type { TaskGossip } from './remote/gossip.js'
import type { Assigned } from './remote/receive.js'
import { openRemote } from './remote/send.js'
import { serve } from './serve.js'
import type { ServeParts } from './serve.js'
import type { Instances, Route, RouteQuery, RunnerReport, Runners, VirtualModel } from '../service.js'
import { TaskTable } from './tasks.js'
import type { TaskRequester, Task } from './tasks.js'
import { VirtualModels } from './virtual.js'

export interface RoutingParts extends
  ServeParts, Omit<AvailabilityParts, 'away' | 'cluster' | 'fleet' | 'tasks'> {
  clock: Clock
  fleet: RunnerSet
  /** Tasks that this node serves, whoever asked. */
  tasks: TaskTable
  cluster: AvailabilityParts['cluster'] & MemberParts['cluster']
  /** What other nodes tell of their load and their tasks. */
  gossip: Pick<TaskGossip, 'load' | 'tasks'>
  newId (): string
}

type PlaceMissing = Parameters<Instances['onMissing']>[0]

/** The service `runners`, and what the rest of this plugin asks about routing. */
export class Routing implements Runners {
  readonly #parts: RoutingParts
  /** Tasks that other nodes serve for this one. */
  readonly #away: TaskTable
  readonly #availability: Availability
  readonly #virtual = new VirtualModels()
  readonly #placers = new Set<PlaceMissing>()

  constructor (parts: RoutingParts) {
    this.#parts = parts
    this.#away = new TaskTable(() => parts.clock.mono())
    this.#availability = new Availability({ ...parts, away: this.#away })
  }

  async route (query: RouteQuery): Promise<Route> {
    const virtual = this.#virtual.route(query, this.#parts)
    if (virtual !== undefined) return virtual
    const { clock, learning } = this.#parts
    const until = clock.mono() + SESSION_GRACE_MS
    let route = this.#pick(query)
    // Right after the start of a session this node does not know yet what is placed.
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
    const virtual = this.#virtual.open(route, task, signal)
    if (virtual !== undefined) return virtual
    const { self, tasks } = this.#parts
    const work = route.nodeId === self.nodeId
      ? { own: true, tasks, chunks: () => this.#openHere(route, task, signal) }
      : { own: false, tasks: this.#away, chunks: () => this.#openThere(route, task, signal) }
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
  }

  virtual (modelId: string, model: VirtualModel): () => void { return this.#virtual.add(modelId, model) }

  /** The cards of the models that plugins answer for themselves. */
  virtualCards (): ModelCard[] { return this.#virtual.cards() }

  /** The chain of one of them; undefined for any other model. */
  virtualChain (modelId: string): ModelChain | undefined { return this.#virtual.chain(modelId, null) }

  reports (): RunnerReport[] { return this.#parts.fleet.reports() }

  /** What any model needs to answer. */
  get chains (): ReadChains {
    return async () => {
      const chain = await this.#availability.chains()
      return (modelId, capability) => this.#virtual.chain(modelId, capability) ?? chain(modelId, capability)
    }
  }

  /** The first broken link of the model's chain; null when a request for `capability` could be served. */
  missing (modelId: string, capability: string | null): BrokenLink | null {
    return this.#availability.broken(modelId, capability)
  }

  /** Runners of the model on this node that accept tasks, least loaded first. */
  serving (modelId: string): Member[] {
    return this.#availability.candidates(this.#availability.look(modelId)).filter(({ own }) => own)
      .toSorted(compare).flatMap(({ runnerId }) => this.#parts.fleet.get(runnerId) ?? [])
  }

  /** The tasks of the whole cluster by id, those of other nodes as they told them last. */
  tasks (): Record<string, { Inference: Task }> {
    const { tasks, gossip } = this.#parts
    return mergeTasks(tasks.all(), this.#away.all(), gossip.tasks())
  }

  /** `Instances.onMissing`. */
  onMissing (place: PlaceMissing): () => void {
    this.#placers.add(place)
    return () => { this.#placers.delete(place) }
  }

  /** Enters a task of another node. Throws `instance_lost`, and `invalid_request` for an id that is taken. */
  take ({ trace, ...assigned }: Assigned, asker: TaskRequester): Route {
    const { fleet, tasks, self: { nodeId, installId } } = this.#parts
    const { taskId, modelId, instanceId, runnerId } = assigned
    const assignment = fleet.get(runnerId)?.assignment
    if (assignment?.instanceId !== instanceId || assignment.modelId !== modelId) {
      throw kernelError('instance_lost',
        `Runner ${runnerId} of ${modelId} is not on this node any more.`, NOT_STARTED)
    }
    if (tasks.get(taskId) !== undefined) {
      throw kernelError('invalid_request', `Task ${taskId} is known here already.`, { param: 'taskId' })
    }
    this.#enter(tasks, assigned, asker)
    return { taskId, instanceId, runnerId, modelId, nodeId, installId, trace }
  }

  /** Names a task and the runner that is to serve it; else says by a code why there is none. */
  #pick (query: RouteQuery): Route | Refusal {
    const { modelId, capability, commandId, caller, tooShort, trace } = query
    const look = this.#availability.look(modelId)
    const longerThan = tooShort === undefined ? undefined : contextOf(look.instances, tooShort)
    const candidates = this.#availability.does(modelId, capability) ? this.#availability.candidates(look) : []
    const chosen = pick(candidates, { ...query, ...longerThan === undefined ? {} : { longerThan } })
    if ('code' in chosen) return chosen
    const { own, instanceId, runnerId, nodeId, installId } = chosen
    const taskId = this.#parts.newId()
    this.#enter(own ? this.#parts.tasks : this.#away,
      { taskId, commandId, instanceId, modelId, capability, runnerId }, { caller, member: null })
    return { taskId, instanceId, runnerId, modelId, nodeId, installId, trace }
  }

  /** The `no_instance` that says what is missing. */
  #explained ({ modelId, capability }: RouteQuery, refusal: Refusal): SvcError {
    const look = this.#availability.look(modelId)
    const broken = this.#availability.broken(modelId, capability, look) ??
      explainRefusal(modelId, refusal, look.runners.some(({ own }) => own))
    return noInstance(modelId, broken, this.#parts.clock.now())
  }

  #enter (table: TaskTable, assigned: Omit<Assigned, 'trace'>, asker: TaskRequester): void {
    const { taskId, commandId, instanceId, modelId, capability, runnerId } = assigned
    const createdAt = new Date(this.#parts.clock.now()).toISOString()
    table.add({ taskId, commandId, instanceId, modelId, capability, createdAt }, runnerId, asker)
  }

  /**
   * Has the model placed when nothing but its placement is missing. True when it may have a ready instance
   * now. Throws what placing throws.
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
      throw new RunnerError('instance_lost', `The runner of ${modelId} is gone.`, NOT_STARTED)
    }
    const { caller } = tasks.askerOf(taskId)
    return supervisor.open(taskId, task, signal, {
      ...caller === null ? {} : { callerId: caller.id }, ...trace === undefined ? {} : { trace },
      admitted: () => { tasks.start(taskId) }
    })
  }

  #openThere (route: Route, task: EngineTask, signal: AbortSignal): AsyncIterable<EngineChunk> {
    const about = this.#away.get(route.taskId)
    const { caller } = this.#away.askerOf(route.taskId)
    if (about === undefined || caller === null) throw new Error(`task ${route.taskId} was never routed`)
    return openRemote(this.#parts, route, { task, about, caller }, signal)
  }
}

/** Broken links that placing the model mends, or that another request is mending right now. */
const ON_ITS_WAY: readonly unknown[] = ['placement', 'runner']

/** How often routing is tried again while this node learns what is placed, ms. */
const LEARN_MS = 100
