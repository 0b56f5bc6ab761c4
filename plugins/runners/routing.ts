import { EngineError, kernelError, SvcError } from '../../kernel/index.js'
import type { Bundle, Clock, EngineChunk, EngineTask, Logger, ModelCard } from '../../kernel/index.js'
import type { BackendChoice } from './backends.js'
import { brokenLink, noInstanceMessage } from './chain.js'
import type { BrokenLink } from './chain.js'
import type { Fleet, Member } from './fleet.js'
import { reasonOf, RunnerError } from './process/errors.js'
import { kindOf } from './process/states.js'
import type { Route, RouteQuery, Runners, RunnerStatus } from './service.js'
import type { TaskTable, TerminalStatus } from './tasks.js'

export interface RoutingParts {
  bundle: Bundle
  clock: Clock
  log: Logger
  fleet: Fleet
  tasks: TaskTable
  newId (): string
  backend (card: ModelCard): BackendChoice | null
  placed (modelId: string): boolean
  taskFailed (failure: { taskId: string, commandId: string, errorType: string, errorMessage: string }): void
}

/** The service, and the question "what is missing?" on its own. */
export interface Routing extends Runners {
  /** The first broken link of the model's chain; null when a request for `capability` could be served. */
  missing (modelId: string, capability: string | null): BrokenLink | null
  /** Runners of the model that accept tasks, least loaded first. */
  serving (modelId: string): Member[]
}

export function createRouting (parts: RoutingParts): Routing {
  const { fleet, tasks } = parts
  const ofModel = (modelId: string): Member[] =>
    fleet.members().filter(({ assignment }) => assignment.modelId === modelId)
  const serving = (modelId: string): Member[] =>
    ofModel(modelId)
      .filter((member) => fleet.ready(member))
      .map((member) => ({ member, load: tasks.outstanding(member.assignment.runnerId) }))
      .sort(
        (a, b) =>
          a.load - b.load || a.member.assignment.instanceId.localeCompare(b.member.assignment.instanceId)
      )
      .map(({ member }) => member)

  function missing (modelId: string, capability: string | null): BrokenLink | null {
    const { card, cardProblem } = readCard(parts.bundle, modelId)
    return brokenLink({
      modelId,
      capability,
      known:
        card === null && cardProblem === undefined
          ? parts.bundle.models().map((model) => model.card.modelId)
          : [],
      card,
      cardProblem,
      backend: card === null ? null : parts.backend(card),
      placed: parts.placed(modelId),
      runner: mostAdvanced(ofModel(modelId).map((member) => fleet.status(member)))
    })
  }

  async function route ({ modelId, capability, commandId }: RouteQuery): Promise<Route> {
    const broken = missing(modelId, capability)
    const member = broken === null ? serving(modelId)[0] : undefined
    if (member === undefined) throw noInstance(modelId, broken)
    const { instanceId, runnerId } = member.assignment
    const taskId = parts.newId()
    const createdAt = new Date(parts.clock.now()).toISOString()
    tasks.add({ taskId, commandId, instanceId, modelId, capability, createdAt }, runnerId)
    return { taskId, instanceId, runnerId, modelId }
  }

  return {
    route,
    open: (route, task, signal) => serve(parts, route, task, signal),
    card: (modelId) => parts.bundle.model(modelId)?.card,
    models: (task) =>
      parts.bundle
        .models()
        .filter(({ card }) => card.tasks.includes(task))
        .map(({ card }) => ({ card, ready: serving(card.modelId).length > 0 })),
    reports: () => fleet.reports(),
    missing,
    serving
  }
}

/** Runs one routed task to its one terminal status. */
async function * serve (
  parts: RoutingParts,
  route: Route,
  task: EngineTask,
  signal: AbortSignal
): AsyncGenerator<EngineChunk> {
  const { taskId, modelId } = route
  const member = parts.fleet.get(route.runnerId)
  if (!parts.tasks.start(taskId)) throw kernelError('instance_lost', `Task ${taskId} is not open any more.`)
  let status: TerminalStatus = 'Cancelled'
  let answered = false
  try {
    const supervisor = member?.supervisor
    if (member === undefined || supervisor == null) {
      throw new RunnerError('instance_lost', `The runner of ${modelId} is gone.`)
    }
    for await (const chunk of supervisor.open(taskId, task, signal)) {
      answered = true
      member.forwardMono = parts.clock.mono()
      yield chunk
    }
    status = signal.aborted ? whenAborted(signal) : 'Complete'
  } catch (error) {
    status = signal.aborted ? whenAborted(signal) : 'Failed'
    if (signal.aborted) throw signal.reason instanceof SvcError ? signal.reason : kernelError('cancelled')
    report(parts, route, error, answered)
    throw publicError(error, modelId)
  } finally {
    parts.tasks.finish(taskId, status)
  }
}

function whenAborted ({ reason }: AbortSignal): TerminalStatus {
  return reason instanceof SvcError && reason.reason === 'timeout' ? 'TimedOut' : 'Cancelled'
}

const KERNEL_REASONS = ['overloaded', 'instance_lost', 'provider_error', 'timeout', 'cancelled'] as const

/** What the caller is told. A `provider_error` keeps its cause to the log: it may hold anything. */
function publicError (error: unknown, modelId: string): Error {
  if (error instanceof SvcError) return error
  if (!(error instanceof RunnerError)) return kernelError('provider_error')
  const reason = KERNEL_REASONS.find((known) => known === error.reason)
  if (reason === undefined) return new EngineError(error.reason, error.message, error.details)
  const message = reason === 'provider_error' ? undefined : error.message
  return kernelError(reason, message, { model: modelId, ...error.details })
}

/** An ordinary refusal before the first chunk is the client's to read; all else is worth an event. */
function report (
  { log, tasks, taskFailed }: RoutingParts,
  { taskId, modelId }: Route,
  error: unknown,
  answered: boolean
): void {
  const reason = error instanceof RunnerError || error instanceof SvcError ? error.reason : 'provider_error'
  if (reason === 'overloaded') return
  if (!answered && reason !== 'instance_lost' && reason !== 'provider_error') return
  const commandId = tasks.get(taskId)?.commandId ?? ''
  log.error({ taskId, commandId, modelId, reason, error: reasonOf(error) }, 'a task failed')
  taskFailed({
    taskId,
    commandId,
    errorType: reason,
    errorMessage: `The task of ${modelId} failed with ${reason}.`
  })
}

function noInstance (modelId: string, broken: BrokenLink | null): SvcError {
  const link =
    broken ?? ({ link: 'runner', problem: 'its runner is not ready', remedy: 'Try again shortly.' } as const)
  return kernelError('no_instance', noInstanceMessage(modelId, link), {
    model: modelId,
    brokenLink: link.link,
    remedy: link.remedy
  })
}

function readCard (bundle: Bundle, modelId: string): { card: ModelCard | null, cardProblem?: string } {
  try {
    return { card: bundle.model(modelId)?.card ?? null }
  } catch (error) {
    return { card: null, cardProblem: `its card cannot be read: ${reasonOf(error)}` }
  }
}

const ADVANCE = [
  'RunnerFailed',
  'RunnerShutdown',
  'RunnerShuttingDown',
  'RunnerIdle',
  'RunnerConnecting',
  'RunnerConnected',
  'RunnerLoading',
  'RunnerLoaded',
  'RunnerWarmingUp',
  'RunnerRunning',
  'RunnerReady'
]

function mostAdvanced (statuses: RunnerStatus[]): RunnerStatus | null {
  return statuses.toSorted((a, b) => ADVANCE.indexOf(kindOf(b)) - ADVANCE.indexOf(kindOf(a)))[0] ?? null
}
