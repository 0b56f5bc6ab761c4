import { delay, kernelError, SESSION_GRACE_MS, SvcError } from '../../../kernel/index.js'
import type { Clock, EngineChunk, EngineTask, Trace } from '../../../kernel/index.js'
import { choose, compare, createAvailability } from './availability.js'
import type { Availability, AvailabilityParts, Scope } from './availability.js'
import { noInstanceMessage } from './chain.js'
import type { BrokenLink, ReadChains } from './chain.js'
import type { Fleet, Member } from '../instances/fleet.js'
import { NOT_BEGUN, RunnerError } from '../process/errors.js'
import { mergeTasks } from './remote/gossip.js'
import type { TaskGossip } from './remote/gossip.js'
import type { Assigned } from './remote/receive.js'
import { createSender } from './remote/send.js'
import type { SendParts } from './remote/send.js'
import { serve } from './serve.js'
import type { ServeParts } from './serve.js'
import type { Instances, Route, RouteQuery, Runners } from '../service.js'
import { TaskTable } from './tasks.js'
import type { Asker, Task } from './tasks.js'

export interface RoutingParts extends
  ServeParts, Omit<AvailabilityParts, 'away' | 'cluster' | 'fleet' | 'tasks'> {
  clock: Clock
  fleet: Fleet
  /** Tasks that this node serves, whoever asked. */
  tasks: TaskTable
  cluster: AvailabilityParts['cluster'] & SendParts['cluster']
  /** What other nodes tell of their load and their tasks. */
  gossip: Pick<TaskGossip, 'load' | 'tasks'>
  /** Makes the id of a task. */
  newId (): string
}

/** The service `runners`, and what the rest of this plugin asks about routing. */
export interface Routing extends Runners, Pick<Instances, 'onMissing'> {
  /** The first broken link of the model's chain; null when a request for `capability` could be served. */
  missing (modelId: string, capability: string | null, scope: Scope): BrokenLink | null
  /** Runners of the model on this node that accept tasks, least loaded first. */
  serving (modelId: string): Member[]
  /** Enters a task of another node. Throws `instance_lost`, and `invalid_request` for an id that is taken. */
  take (assigned: Assigned, asker: Asker): Route
  /** What any model needs to answer. */
  chains: ReadChains
  /** The tasks of the whole cluster by id, those of other nodes as they told them last. */
  tasks (): Record<string, { Inference: Task }>
}

export function createRouting (parts: RoutingParts): Routing {
  const { fleet, self } = parts
  const away = new TaskTable(() => parts.clock.mono())
  const availability = createAvailability({ ...parts, away })
  const openThere = thereOpener(parts, away)
  const place = placer(availability.card)
  return {
    async route (query) {
      const routed = await pickOnceKnown(parts, availability, away, query)
      if (!(routed instanceof SvcError)) return routed
      if (!await place.missing(query, routed)) throw routed
      const again = pick(parts, availability, away, query)
      if (again instanceof SvcError) throw again
      return again
    },
    onMissing: place.onMissing,
    take: (assigned, asker) => take(parts, assigned, asker),
    open (route, task, signal) {
      const work = route.nodeId === self.nodeId
        ? { own: true, tasks: parts.tasks, chunks: () => chunksHere(parts, route, task, signal) }
        : { own: false, tasks: away, chunks: () => openThere(route, task, signal) }
      return serve(parts, { route, ...work }, signal)
    },
    card: availability.card,
    models (task) {
      const ready = availability.ready()
      return [...availability.cards().values()]
        .filter((card) => card.tasks.includes(task))
        .map((card) => ({ card, ready: ready.has(card.modelId) }))
    },
    reports: () => fleet.reports(),
    missing: (modelId, capability, scope) =>
      availability.broken(modelId, capability, availability.look(modelId, scope)),
    serving: (modelId) => availability.candidates(availability.look(modelId, 'here'))
      .toSorted(compare).flatMap(({ runnerId }) => fleet.get(runnerId) ?? []),
    chains: availability.chains,
    tasks: () => mergeTasks(parts.tasks.all(), away.all(), parts.gossip.tasks())
  }
}

/** Names a task and the runner that is to serve it; else the `no_instance` that says what is missing. */
function pick (
  parts: RoutingParts, availability: Availability, away: TaskTable, query: RouteQuery
): Route | SvcError {
  const { modelId, capability, commandId, caller, except, trace } = query
  const look = availability.look(modelId, 'anywhere')
  const broken = availability.broken(modelId, capability, look)
  if (broken !== null) return noInstance(modelId, broken)
  const chosen = choose(availability.candidates(look).filter(({ instanceId }) => instanceId !== except))
  if (chosen === undefined) return noInstance(modelId, NOT_READY)
  const { instanceId, runnerId, nodeId, installId } = chosen
  const taskId = parts.newId()
  const task = { taskId, commandId, instanceId, modelId, capability, createdAt: timeOf(parts.clock) }
  ;(chosen.own ? parts.tasks : away).add(task, runnerId, { caller, member: null })
  return { taskId, instanceId, runnerId, modelId, nodeId, installId, ...traced(trace) }
}

/** Right after the start of a session, before this node knows what is placed, it waits before it refuses. */
async function pickOnceKnown (
  parts: RoutingParts, availability: Availability, away: TaskTable, query: RouteQuery
): Promise<Route | SvcError> {
  const { clock } = parts
  const until = clock.mono() + SESSION_GRACE_MS
  for (;;) {
    const routed = pick(parts, availability, away, query)
    if (!(routed instanceof SvcError) || !parts.learning() || clock.mono() >= until) return routed
    await delay(clock, LEARN_MS, query.signal ?? new AbortController().signal)
  }
}

const traced = (trace: Trace | undefined): { trace?: Trace } => trace === undefined ? {} : { trace }

function take (
  { fleet, tasks, clock, self }: RoutingParts, assigned: Assigned, asker: Asker
): Route {
  const { taskId, commandId, modelId, instanceId, runnerId, capability, trace } = assigned
  const assignment = fleet.get(runnerId)?.assignment
  if (assignment?.instanceId !== instanceId || assignment.modelId !== modelId) {
    throw kernelError('instance_lost',
      `Runner ${runnerId} of ${modelId} is not on this node any more.`, NOT_BEGUN)
  }
  if (tasks.get(taskId) !== undefined) {
    throw kernelError('invalid_request', `Task ${taskId} is known here already.`, { param: 'taskId' })
  }
  tasks.add({ taskId, commandId, instanceId, modelId, capability, createdAt: timeOf(clock) }, runnerId, asker)
  const { nodeId, installId } = self
  return { taskId, instanceId, runnerId, modelId, nodeId, installId, ...traced(trace) }
}

type PlaceMissing = Parameters<Instances['onMissing']>[0]

/** Broken links that placing the model mends, or that another request is mending right now. */
const ON_ITS_WAY: readonly unknown[] = ['placement', 'runner']

/** Has a model placed on demand when nothing but its placement is missing. */
function placer (card: Runners['card']): Pick<Instances, 'onMissing'> & {
  /** True when there may be a ready instance now. Throws what placing throws. */
  missing (query: RouteQuery, refusal: SvcError): Promise<boolean>
} {
  const asked = new Set<PlaceMissing>()
  return {
    onMissing (place) {
      asked.add(place)
      return () => { asked.delete(place) }
    },
    async missing (query, { details: { brokenLink } }) {
      const fits = card(query.modelId)?.tasks.includes(query.capability) === true
      if (!fits || !ON_ITS_WAY.includes(brokenLink)) return false
      for (const place of asked) if (await place(query)) return true
      return false
    }
  }
}

/** Opens the task on a runner of this node. */
async function * chunksHere (
  { fleet, clock, tasks }: RoutingParts, { runnerId, modelId, taskId, trace }: Route, task: EngineTask,
  signal: AbortSignal
): AsyncGenerator<EngineChunk> {
  const member = fleet.get(runnerId)
  if (member?.supervisor == null) {
    throw new RunnerError('instance_lost', `The runner of ${modelId} is gone.`, NOT_BEGUN)
  }
  const callerId = tasks.callerOf(taskId)?.id
  const opened = trace === undefined
    ? member.supervisor.open(taskId, task, signal, callerId)
    : member.supervisor.open(taskId, task, signal, callerId, trace)
  for await (const chunk of opened) {
    member.forwardMono = clock.mono()
    yield chunk
  }
}

/** Opens tasks on runners of other nodes, on behalf of their callers. */
function thereOpener (
  parts: SendParts, away: TaskTable
): (route: Route, task: EngineTask, signal: AbortSignal) => AsyncIterable<EngineChunk> {
  const sender = createSender(parts)
  return (route, task, signal) => {
    const about = away.get(route.taskId)
    const caller = away.callerOf(route.taskId)
    if (about === undefined || caller === null) throw new Error(`task ${route.taskId} was never routed`)
    return sender.open(route, { task, about, caller }, signal)
  }
}

const timeOf = (clock: Clock): string => new Date(clock.now()).toISOString()

/** The runner was ready a moment ago. */
const NOT_READY: BrokenLink = {
  link: 'runner', problem: 'its runner is not ready', remedy: 'Try again shortly.', comes: true
}

/** 404 for a model that nobody placed, 503 for one that is placed or waits for a place. */
function noInstance (modelId: string, broken: BrokenLink): SvcError {
  const { link: brokenLink, remedy, comes } = broken
  const message = noInstanceMessage(modelId, broken)
  const details = { model: modelId, brokenLink, remedy }
  return comes
    ? new SvcError('no_instance', { ...COMES, message, remedy }, message, details)
    : kernelError('no_instance', message, details)
}

/** How often routing is tried again while this node learns what is placed, ms. */
const LEARN_MS = 100

const COMES = { status: 503, retryable: true, retryAfterSeconds: 1 }
