import { bodyOf, type Instance, type StartBlocker } from '../../runners/service.js'
import { nodesOf, ranksOf } from '../place/instance.js'
import type { WaitingInstance } from '../waitlist.js'

/** A model transfer to a node, as an object with one key; the key, such as `DownloadFailed`, is its state. */
export type Download = Readonly<Record<string, Transfer>>
interface Transfer { modelId?: string, attemptId?: string, errorMessage?: string }

export interface InstanceFailure {
  instanceId: string
  modelId?: string
  recordedAt?: string
  errorCode: string
  errorMessage: string
  affectedNodeIds: readonly string[]
}

/** This node's copy of the state, with the same keys as GET /state. */
export interface InstanceStates {
  instances: Readonly<Record<string, Instance>>
  /** Runner statuses by runner id; each status is an object with one key. */
  runners: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  downloads: Readonly<Record<string, readonly Download[]>>
  instanceFailures: readonly InstanceFailure[]
  /** Absent from the state of a node with an older release. */
  waitingInstances?: Readonly<Record<string, WaitingInstance>>
}

export interface RankProgress {
  nodeId: string
  /** State and detail of the rank's runner, or of the model transfer for which the runner is waiting. */
  state: string
  detail: Readonly<Record<string, unknown>>
  waitsFor: StartBlocker | null
}

export type Progress =
  | { kind: 'ready' }
  | { kind: 'starting', ranks: RankProgress[] }
  | { kind: 'failed', nodeIds: readonly string[], code: string, message: string }
  | { kind: 'draining' }
  /** The instance lost its node and waits to be placed on another one. */
  | { kind: 'waiting', entry: WaitingInstance }
  | { kind: 'gone' }

/** Runners in these states accept requests. */
export const SERVING: ReadonlySet<string> = new Set(['RunnerReady', 'RunnerRunning'])

/** The runner's state, or `RunnerIdle` if the runner has reported none. */
export const runnerKind = ({ runners }: Pick<InstanceStates, 'runners'>, runnerId: string): string =>
  Object.keys(runners[runnerId] ?? {})[0] ?? 'RunnerIdle'

export function serves (state: Pick<InstanceStates, 'runners'>, instance: Instance): boolean {
  return Object.values(bodyOf(instance).shardAssignments.nodeToRunner)
    .every((runnerId) => SERVING.has(runnerKind(state, runnerId)))
}

/** `attempts` are ids of transfers that failed before the placement, which are ignored. */
export function progressOf (
  state: InstanceStates, instanceId: string, attempts: ReadonlySet<string> = new Set()
): Progress {
  const instance = state.instances[instanceId]
  if (instance === undefined) {
    const entry = state.waitingInstances?.[instanceId]
    return entry === undefined ? { kind: 'gone' } : { kind: 'waiting', entry }
  }
  if (bodyOf(instance).drainUntil !== undefined) return { kind: 'draining' }
  if (nodesOf(instance).length > 0 && serves(state, instance)) return { kind: 'ready' }
  const failed = failureOf(state, instance, attempts)
  return failed === undefined
    ? { kind: 'starting', ranks: rankProgress(state, instance) }
    : { kind: 'failed', ...failed }
}

function rankProgress (state: InstanceStates, instance: Instance): RankProgress[] {
  const { modelId } = bodyOf(instance).shardAssignments
  return ranksOf(instance).map(({ nodeId, runnerId }) => {
    const status = copying(state, nodeId, modelId) ?? state.runners[runnerId] ?? {}
    const [kind = 'RunnerIdle', detail = {}] = Object.entries(status)[0] ?? []
    return {
      nodeId, state: kind, detail: detail as Record<string, unknown>,
      waitsFor: waitsFor(state.runners[runnerId])
    }
  })
}

function waitsFor (status: Readonly<Record<string, unknown>> | undefined): StartBlocker | null {
  return (status?.['RunnerIdle'] as { waitsFor?: StartBlocker } | undefined)?.waitsFor ?? null
}

function copying ({ downloads }: InstanceStates, nodeId: string, modelId: string): Download | undefined {
  return downloads[nodeId]?.find((download) => ['DownloadPending', 'DownloadOngoing']
    .some((tag) => download[tag]?.modelId === modelId))
}

function failureOf (
  state: InstanceStates, instance: Instance, attempts: ReadonlySet<string>
): { nodeIds: readonly string[], code: string, message: string } | undefined {
  const { instanceId, shardAssignments: { modelId, nodeToRunner } } = bodyOf(instance)
  const recorded = state.instanceFailures.find((failure) => failure.instanceId === instanceId)
  if (recorded !== undefined) {
    const { affectedNodeIds: nodeIds, errorCode: code, errorMessage: message } = recorded
    return { nodeIds, code, message }
  }
  for (const [nodeId, runnerId] of Object.entries(nodeToRunner)) {
    // Ignore a failed transfer while the runner waits for its files, because the runner repeats the transfer.
    if (copying(state, nodeId, modelId) !== undefined || waitsFor(state.runners[runnerId]) !== null) continue
    const failed = failedTransfers(state.downloads[nodeId]).find((one) =>
      one.modelId === modelId && !attempts.has(one.attemptId ?? ''))
    if (failed !== undefined) {
      return { nodeIds: [nodeId], code: 'download_failed', message: failed.errorMessage ?? 'unknown' }
    }
  }
  return undefined
}

const failedTransfers = (list: readonly Download[] = []): Transfer[] =>
  list.flatMap((one) => one['DownloadFailed'] ?? [])

export function failedAttempts ({ downloads }: InstanceStates): Set<string> {
  return new Set(Object.values(downloads).flatMap(failedTransfers).map(({ attemptId }) => attemptId ?? ''))
}

/** Ids of a model's instances that are not draining. */
export function instancesOf ({ instances }: InstanceStates, modelId: string): string[] {
  return Object.values(instances).map(bodyOf)
    .filter((ring) => ring.shardAssignments.modelId === modelId && ring.drainUntil === undefined)
    .map(({ instanceId }) => instanceId)
}

/** The id of the instance or entry that now replaces an instance; the instance's id if there is none. */
function successorOf ({ instances, waitingInstances = {} }: InstanceStates, instanceId: string): string {
  const next = new Map<string, string>()
  for (const [id, { replaces }] of Object.entries(waitingInstances)) {
    if (replaces !== null) next.set(replaces, id)
  }
  for (const [id, one] of Object.entries(instances)) {
    const { placement } = bodyOf(one)
    if (placement?.replaces != null) next.set(placement.replaces, id)
  }
  const seen = new Set<string>()
  let id = instanceId
  while (!Object.hasOwn(instances, id) && next.has(id) && !seen.has(id)) {
    seen.add(id)
    id = next.get(id)!
  }
  return id
}

/** Milliseconds that a new instance may take to appear in a node's state. */
const APPEAR_MS = 5000
/** Milliseconds after which a failure is final, because the instance has not been moved by then. */
const SETTLED_MS = 5000

/** Follows an instance and, if it is placed again, its replacement. Callers pass the time in monotonic ms. */
export class InstanceProgress {
  readonly #attempts: ReadonlySet<string>
  readonly #began: number
  #instanceId: string
  #seen = false
  #failedSince: number | null = null

  constructor (instanceId: string, attempts: ReadonlySet<string>, now: number) {
    this.#instanceId = instanceId
    this.#attempts = attempts
    this.#began = now
  }

  get instanceId (): string { return this.#instanceId }

  look (state: InstanceStates, now: number): { progress: Progress, over: boolean } {
    const id = successorOf(state, this.#instanceId)
    if (id !== this.#instanceId) this.#failedSince = null
    this.#instanceId = id
    const progress = progressOf(state, id, this.#attempts)
    const { kind } = progress
    this.#failedSince = kind === 'failed' ? this.#failedSince ?? now : null
    const late = this.#seen || now - this.#began >= APPEAR_MS
    this.#seen ||= kind !== 'gone'
    const over = kind === 'ready' || (kind === 'gone' && late) ||
      (this.#failedSince !== null && now - this.#failedSince >= SETTLED_MS)
    return { progress, over }
  }
}
