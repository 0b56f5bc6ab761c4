import type { Section } from '../../../kernel/index.js'

/** Instance failures kept per node and shown in /state. */
const FAILURES_MAX = 64

/** The kind of a failure, by which the plugin `placement` decides what to do next. */
export type FailureCode =
  'insufficient_memory' | 'download_failed' | 'no_backend' | 'warmup_timeout' | 'runner_failed'

/** A runner cannot be started on this node. The message is one sentence without its full stop. */
export class LaunchError extends Error {
  readonly errorCode: FailureCode
  constructor (errorCode: FailureCode, message: string) {
    super(message)
    this.name = 'LaunchError'
    this.errorCode = errorCode
  }
}

/** Why an instance cannot serve, as /state shows it. */
export type InstanceFailure = {
  instanceId: string
  modelId: string
  errorCode: string
  errorMessage: string
  affectedNodeIds: string[]
  recordedAt: string
}

/** The failures of every known node. Each node writes its own, at most 64. */
export interface Failures {
  record (failure: InstanceFailure): void
  /** Newest first, at most 64. */
  view (): InstanceFailure[]
}

/** Keeps failures in the node's section. `newId` names the entries. */
export function createFailures (
  section: Section<InstanceFailure>,
  nodeId: string,
  newId: () => string
): Failures {
  const newestFirst = (only?: string): { key: string, value: InstanceFailure }[] =>
    [...section.entries()]
      .filter((entry) => only === undefined || entry.nodeId === only)
      .reverse()
      .sort((a, b) => b.value.recordedAt.localeCompare(a.value.recordedAt))
  return {
    record (failure) {
      for (const { key } of newestFirst(nodeId).slice(FAILURES_MAX - 1)) section.remove(key)
      section.put(newId(), failure)
    },
    view: () =>
      newestFirst()
        .slice(0, FAILURES_MAX)
        .map(({ value }) => value)
  }
}
