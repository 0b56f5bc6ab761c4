import { bodyOf } from '../../runners/service.js'
import type { Instance, WaitsFor } from '../../runners/service.js'
import type { Download, InstanceStates } from '../facts.js'
import { ranksOf } from '../place/view.js'
import type { WaitingInstance } from '../waitlist.js'

/** How far a node is with its part of an instance. */
export interface RankProgress {
  nodeId: string
  state: string
  /** What its runner waits for before it can start; null when it does not. */
  waitsFor: WaitsFor | null
}

/** How an instance stands. */
export type Progress =
  | { kind: 'ready', instance: Instance }
  | { kind: 'starting', instance: Instance, ranks: RankProgress[] }
  | { kind: 'failed', instance: Instance, nodeIds: readonly string[], code: string, message: string }
  /** It is being stopped; `until` is ISO-8601. */
  | { kind: 'draining', instance: Instance, until: string }
  /** It has lost its place and waits for another. */
  | { kind: 'waiting', entry: WaitingInstance }
  | { kind: 'gone' }

/** A runner in one of these takes requests. */
export const SERVING: ReadonlySet<string> = new Set(['RunnerReady', 'RunnerRunning'])

/** How an instance stands, by the state. `attempts`: transfers that had failed before it was placed. */
export function progressOf (
  state: InstanceStates, instanceId: string, attempts: ReadonlySet<string> = new Set()
): Progress {
  const instance = own(state.instances, instanceId)
  if (instance === undefined) {
    const entry = own(state.waitingInstances ?? {}, instanceId)
    return entry === undefined ? { kind: 'gone' } : { kind: 'waiting', entry }
  }
  const { drainUntil } = bodyOf(instance)
  if (drainUntil !== undefined) return { kind: 'draining', instance, until: drainUntil }
  const ranks = ranksOf(instance).map(({ nodeId, runnerId }) =>
    ({ nodeId, kind: kindOf(state, runnerId), waitsFor: waitsFor(state.runners[runnerId]) }))
  if (ranks.length > 0 && ranks.every(({ kind }) => SERVING.has(kind))) return { kind: 'ready', instance }
  const failed = failureOf(state, instance, attempts)
  if (failed !== undefined) return { kind: 'failed', instance, ...failed }
  const { modelId } = bodyOf(instance).shardAssignments
  return {
    kind: 'starting',
    instance,
    ranks: ranks.map(({ nodeId, kind, waitsFor }) =>
      ({ nodeId, state: copying(state, nodeId, modelId) ?? kind, waitsFor }))
  }
}

const own = <T>(map: Readonly<Record<string, T>>, key: string): T | undefined =>
  Object.hasOwn(map, key) ? map[key] : undefined

/**
 * The id under which an instance goes on after it was placed anew, or waits for that; its own while nothing
 * has taken its place.
 */
export function successorOf (
  { instances, waitingInstances = {} }: Pick<InstanceStates, 'instances' | 'waitingInstances'>,
  instanceId: string
): string {
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

/** What a runner waits for before it can start; null when it does not. */
export function waitsFor (status: Readonly<Record<string, unknown>> | undefined): WaitsFor | null {
  return (status?.['RunnerIdle'] as { waitsFor?: WaitsFor } | undefined)?.waitsFor ?? null
}

const kindOf = ({ runners }: InstanceStates, runnerId: string): string =>
  Object.keys(runners[runnerId] ?? {})[0] ?? 'RunnerIdle'

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
    // A runner that waits for its files asks again by itself.
    if (copying(state, nodeId, modelId) !== undefined || waitsFor(state.runners[runnerId]) !== null) continue
    const failed = failedDownloads(state.downloads[nodeId]).find((one) =>
      one.modelId === modelId && !attempts.has(one.attemptId ?? ''))
    if (failed !== undefined) {
      return { nodeIds: [nodeId], code: 'download_failed', message: failed.errorMessage ?? 'unknown' }
    }
  }
  return undefined
}

type Failed = { modelId?: string, attemptId?: string, errorMessage?: string }

const failedDownloads = (list: readonly Download[] = []): Failed[] =>
  list.flatMap((one): Failed[] => one['DownloadFailed'] === undefined ? [] : [one['DownloadFailed']])

/** Ids of the transfers that have failed so far. */
export function failedAttempts ({ downloads }: InstanceStates): Set<string> {
  return new Set(Object.values(downloads).flatMap(failedDownloads).map(({ attemptId }) => attemptId ?? ''))
}

/** How it is told that the model is on its way to the node; undefined when it is not. */
function copying ({ downloads }: InstanceStates, nodeId: string, modelId: string): string | undefined {
  const under = ['DownloadPending', 'DownloadOngoing']
  const one = (downloads[nodeId] ?? []).find((download) =>
    under.some((tag) => download[tag]?.modelId === modelId))
  return one === undefined ? undefined : Object.keys(one)[0]
}

/** The instances of a model that take requests or will. */
export function instancesOf ({ instances }: InstanceStates, modelId: string): string[] {
  return Object.values(instances).map(bodyOf)
    .filter((ring) => ring.shardAssignments.modelId === modelId && ring.drainUntil === undefined)
    .map(({ instanceId }) => instanceId)
}
