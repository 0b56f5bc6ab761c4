import type { Instance } from '../runners/service.js'
import type { Download, StateView } from './state-view.js'
import { ranksOf } from './view.js'

/** How far a node is with its part of an instance. */
export interface RankProgress { nodeId: string, state: string }

/** How an instance stands. */
export type Progress =
  | { kind: 'ready', instance: Instance }
  | { kind: 'starting', instance: Instance, ranks: RankProgress[] }
  | { kind: 'failed', instance: Instance, nodeIds: string[], code: string, message: string }
  | { kind: 'gone' }

const SERVING = new Set(['RunnerReady', 'RunnerRunning'])

/** How an instance stands, by the state. `attempts`: transfers that had failed before it was placed. */
export function progressOf (
  state: StateView, instanceId: string, attempts: ReadonlySet<string> = new Set()
): Progress {
  const instance = state.instances[instanceId]
  if (instance === undefined) return { kind: 'gone' }
  const ranks = ranksOf(instance).map(({ nodeId, runnerId }) =>
    ({ nodeId, kind: kindOf(state, runnerId) }))
  if (ranks.length > 0 && ranks.every(({ kind }) => SERVING.has(kind))) return { kind: 'ready', instance }
  const failed = failureOf(state, instance, attempts)
  if (failed !== undefined) return { kind: 'failed', instance, ...failed }
  const { modelId } = instance.RingInstance.shardAssignments
  return {
    kind: 'starting',
    instance,
    ranks: ranks.map(({ nodeId, kind }) => ({ nodeId, state: copying(state, nodeId, modelId) ?? kind }))
  }
}

const kindOf = ({ runners }: StateView, runnerId: string): string =>
  Object.keys(runners[runnerId] ?? {})[0] ?? 'RunnerIdle'

function failureOf (
  state: StateView, instance: Instance, attempts: ReadonlySet<string>
): { nodeIds: string[], code: string, message: string } | undefined {
  const { instanceId, shardAssignments: { modelId, nodeToRunner } } = instance.RingInstance
  const recorded = state.instanceFailures.find((failure) => failure.instanceId === instanceId)
  if (recorded !== undefined) {
    const { affectedNodeIds: nodeIds, errorCode: code, errorMessage: message } = recorded
    return { nodeIds, code, message }
  }
  for (const nodeId of Object.keys(nodeToRunner)) {
    if (copying(state, nodeId, modelId) !== undefined) continue
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
export function failedAttempts ({ downloads }: StateView): Set<string> {
  return new Set(Object.values(downloads).flatMap(failedDownloads).map(({ attemptId }) => attemptId ?? ''))
}

/** How it is told that the model is on its way to the node; undefined when it is not. */
function copying ({ downloads }: StateView, nodeId: string, modelId: string): string | undefined {
  const under = ['DownloadPending', 'DownloadOngoing']
  const one = (downloads[nodeId] ?? []).find((download) =>
    under.some((tag) => download[tag]?.modelId === modelId))
  return one === undefined ? undefined : Object.keys(one)[0]
}

/** The instances of a model. */
export function instancesOf ({ instances }: StateView, modelId: string): string[] {
  return Object.values(instances).map(({ RingInstance: ring }) => ring)
    .filter((ring) => ring.shardAssignments.modelId === modelId).map(({ instanceId }) => instanceId)
}
