import { kernelError } from '../../kernel/index.js'
import type { Clock, EngineChunk, EngineTask, SvcError } from '../../kernel/index.js'
import { createAvailability } from './availability.js'
import type { Availability, AvailabilityParts } from './availability.js'
import { noInstanceMessage } from './chain.js'
import type { BrokenLink } from './chain.js'
import type { Member } from './fleet.js'
import { RunnerError } from './process/errors.js'
import { choose, compare } from './remote/choose.js'
import type { Assigned } from './remote/receive.js'
import { createSender } from './remote/send.js'
import type { SendParts } from './remote/send.js'
import { serve } from './serve.js'
import type { ServeParts } from './serve.js'
import type { Route, RouteQuery, Runners } from './service.js'
import { TaskTable } from './tasks.js'

export type RoutingParts = Omit<AvailabilityParts, 'away'> & ServeParts & SendParts & { newId (): string }

/** The service, and the questions behind it on their own. */
export interface Routing extends Runners, Pick<Availability, 'missing'> {
  /** Runners of the model on this node that accept tasks, least loaded first. */
  serving (modelId: string): Member[]
  /** Enters a task of another node. Throws `instance_lost`, and `invalid_request` for an id that is taken. */
  take (assigned: Assigned): Route
}

export function createRouting (parts: RoutingParts): Routing {
  const { bundle, fleet, self } = parts
  // Not shown: each node shows what it serves itself.
  const away = new TaskTable(() => parts.clock.mono())
  const availability = createAvailability({ ...parts, away })
  const openThere = thereOpener(parts, away)
  return {
    route: async (query) => pick(parts, availability, away, query),
    take: (assigned) => take(parts, assigned),
    open (route, task, signal) {
      const work = route.nodeId === self.nodeId
        ? { tasks: parts.tasks, chunks: () => chunksHere(parts, route, task, signal) }
        : { tasks: away, chunks: () => openThere(route, task, signal) }
      return serve(parts, { route, ...work }, signal)
    },
    card: (modelId) => bundle.model(modelId)?.card ?? parts.models?.card(modelId),
    models (task) {
      const ready = availability.ready()
      return [...availability.cards().values()]
        .filter((card) => card.tasks.includes(task))
        .map((card) => ({ card, ready: ready.has(card.modelId) }))
    },
    reports: () => fleet.reports(),
    missing: availability.missing,
    serving: (modelId) => availability.own(modelId).toSorted(compare).map(({ member }) => member)
  }
}

/** Names a task and the runner that is to serve it. Throws `no_instance`. */
function pick (
  parts: RoutingParts, availability: Availability, away: TaskTable, query: RouteQuery
): Route {
  const { modelId, capability, commandId, caller } = query
  const broken = availability.missing(modelId, capability, 'anywhere')
  if (broken !== null) throw noInstance(modelId, broken)
  const chosen = choose([...availability.own(modelId), ...availability.others(modelId)])
  if (chosen === undefined) throw noInstance(modelId, NOT_READY)
  const { instanceId, runnerId, nodeId, installId } = chosen
  const taskId = parts.newId()
  const task = { taskId, commandId, instanceId, modelId, capability, createdAt: timeOf(parts.clock) }
  if (chosen.own) parts.tasks.add(task, runnerId)
  else away.add(task, runnerId, caller)
  return { taskId, instanceId, runnerId, modelId, nodeId, installId }
}

function take ({ fleet, tasks, clock, self }: RoutingParts, assigned: Assigned): Route {
  const { taskId, commandId, modelId, instanceId, runnerId, capability } = assigned
  const assignment = fleet.get(runnerId)?.assignment
  if (assignment?.instanceId !== instanceId || assignment.modelId !== modelId) {
    throw kernelError('instance_lost', `Runner ${runnerId} of ${modelId} is not on this node any more.`)
  }
  if (tasks.get(taskId) !== undefined) {
    throw kernelError('invalid_request', `Task ${taskId} is known here already.`, { param: 'taskId' })
  }
  tasks.add({ taskId, commandId, instanceId, modelId, capability, createdAt: timeOf(clock) }, runnerId)
  return { taskId, instanceId, runnerId, modelId, nodeId: self.nodeId, installId: self.installId }
}

/** The task on a runner of this node. */
async function * chunksHere (
  { fleet, clock }: RoutingParts, { runnerId, modelId, taskId }: Route, task: EngineTask, signal: AbortSignal
): AsyncGenerator<EngineChunk> {
  const member = fleet.get(runnerId)
  if (member?.supervisor == null) {
    throw new RunnerError('instance_lost', `The runner of ${modelId} is gone.`)
  }
  for await (const chunk of member.supervisor.open(taskId, task, signal)) {
    member.forwardMono = clock.mono()
    yield chunk
  }
}

/** Opens tasks on runners of other nodes, in the name of who asked. */
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
  link: 'runner', problem: 'its runner is not ready', remedy: 'Try again shortly.'
}

function noInstance (modelId: string, link: BrokenLink): SvcError {
  return kernelError('no_instance', noInstanceMessage(modelId, link), {
    model: modelId,
    brokenLink: link.link,
    remedy: link.remedy
  })
}
