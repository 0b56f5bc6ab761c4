import { delay, kernelError } from '../../kernel/index.js'
import type { Clock } from '../../kernel/index.js'
import { progressOf } from './progress.js'
import type { Progress } from './progress.js'
import { refuse } from './refusals.js'
import type { ReadState } from './state-view.js'

/** How often it is looked how far an instance is, ms. */
export const WATCH_MS = 250
/** So long an instance that was just placed may be missing in what this node knows, ms. */
const APPEAR_MS = 5000

export interface Waiting {
  clock: Clock
  readState: ReadState
  instanceId: string
  /** Transfers that had failed before it was placed. */
  attempts: ReadonlySet<string>
  seconds: number
  signal: AbortSignal
}

/**
 * Resolves when every runner of the instance is ready. Throws `instance_failed`, `instance_lost` when it was
 * removed meanwhile, or `not_ready_yet` when the time is up.
 */
export async function untilReady (waiting: Waiting): Promise<void> {
  const { clock, instanceId, seconds } = waiting
  const began = clock.mono()
  let seen = false
  for (;;) {
    const progress = progressOf(await waiting.readState(), instanceId, waiting.attempts)
    const elapsed = clock.mono() - began
    if (progress.kind === 'ready') return
    if (progress.kind === 'failed') throw failedError(instanceId, progress)
    if (progress.kind === 'gone' && (seen || elapsed >= APPEAR_MS)) {
      throw kernelError('instance_lost', `Instance ${instanceId} was removed before it was ready.`)
    }
    seen ||= progress.kind !== 'gone'
    if (elapsed >= seconds * 1000) throw lateError(instanceId, seconds, progress)
    await delay(clock, WATCH_MS, waiting.signal)
  }
}

function failedError (instanceId: string, failed: Progress & { kind: 'failed' }): Error {
  const { nodeIds, code, message } = failed
  return refuse('instance_failed', `Instance ${instanceId} cannot start: ${message}`,
    { instance_id: instanceId, node_ids: nodeIds, error_code: code })
}

function lateError (instanceId: string, seconds: number, progress: Progress): Error {
  const ranks = progress.kind === 'starting' ? progress.ranks : []
  const states = [...new Set(ranks.map(({ state }) => state))].join(', ') || 'unknown'
  return refuse('not_ready_yet', `Instance ${instanceId} is not ready after ${seconds} s: ${states}.`,
    { instance_id: instanceId, nodes: ranks.map(({ nodeId, state }) => ({ node_id: nodeId, state })) })
}
