import { delay, kernelError, type ReadyCheck } from '../../../kernel/index.js'
import type { MissingReason } from '../../runners/service.js'
import { refuse } from '../errors.js'
import type { Facts } from '../facts.js'
import type { Planning } from '../place/planning.js'
import { InstanceProgress, instancesOf, progressOf, type Progress, type RankProgress } from './progress.js'

/** Milliseconds between two checks of an instance's progress. */
export const WATCH_MS = 250

export interface Waiting {
  instanceId: string
  /** Attempt ids of transfers that had already failed before the placement. */
  attempts: ReadonlySet<string>
  seconds: number
  signal: AbortSignal
  onLook? (progress: Progress): void
}

/**
 * Resolves to the id of the instance, or of its replacement, once all its runners are ready. Throws
 * `instance_failed` if the instance failed and was not placed elsewhere, `instance_lost` if it was removed,
 * and `not_ready_yet` on timeout.
 */
export async function untilReady (
  { ctx: { clock }, facts }: Planning, { instanceId, attempts, seconds, signal, onLook }: Waiting
): Promise<string> {
  const began = clock.mono()
  const follower = new InstanceProgress(instanceId, attempts, began)
  for (;;) {
    const now = clock.mono()
    const { progress, over } = follower.look(facts.recent(), now)
    const { instanceId: id } = follower
    onLook?.(progress)
    if (over && progress.kind === 'ready') return id
    const late = now - began >= seconds * 1000
    if ((over || late) && progress.kind === 'failed') {
      const { nodeIds, code, message } = progress
      const details = { instance_id: id, node_ids: nodeIds, error_code: code }
      const told = `Instance ${id} cannot start: ${message}`
      throw code === 'insufficient_storage' ? kernelError(code, told, details)
        : refuse('instance_failed', told, details)
    }
    if (over) throw kernelError('instance_lost', `Instance ${id} was removed before it was ready.`)
    if (late) throw lateError(id, seconds, progress)
    await delay(clock, WATCH_MS, signal)
  }
}

const ranksText = (ranks: readonly RankProgress[]): string[] => ranks.map(({ state, waitsFor }) =>
  waitsFor === null ? state : `${state}, which waits: ${waitsFor.message.replace(/\.$/, '')}`)

function lateError (instanceId: string, seconds: number, progress: Progress): Error {
  const ranks = progress.kind === 'starting' ? progress.ranks : []
  const states = progress.kind === 'waiting'
    ? `it waits for a node: ${progress.entry.message}`
    : `${[...new Set(ranksText(ranks))].join(', ') || progress.kind}.`
  return refuse('not_ready_yet', `Instance ${instanceId} is not ready after ${seconds} s: ${states}`,
    { instance_id: instanceId, nodes: ranks.map(({ nodeId, state }) => ({ node_id: nodeId, state })) })
}

/**
 * Readiness check for GET /readyz without a model: each automatically placed model has a ready instance on
 * some node.
 */
export function checkReady (planning: Planning, model?: string): ReadyCheck {
  if (model !== undefined) return { ok: null, detail: '' }
  const models = planning.placedAlways().filter((modelId) => !planning.isStopped(modelId))
  if (models.length === 0) return { ok: true, detail: 'no model is placed automatically' }
  const facts = planning.facts.now()
  const missing = models.flatMap((modelId) => {
    const problem = problemOf(facts, modelId)
    return problem === null ? [] : [`${modelId}: ${problem}`]
  })
  return missing.length === 0
    ? { ok: true, detail: `ready: ${models.join(', ')}` }
    : { ok: false, detail: missing.join('; ') }
}

function problemOf (facts: Facts, modelId: string): string | null {
  const all = instancesOf(facts, modelId).map((id) => progressOf(facts, id))
  if (all.some(({ kind }) => kind === 'ready')) return null
  const starting = all.find((one) => one.kind === 'starting')
  if (starting !== undefined) return `its runner is starting (${ranksText(starting.ranks).join(', ')})`
  const failed = all.find((one) => one.kind === 'failed')
  if (failed !== undefined) return `its runner failed: ${failed.message}`
  const entry = Object.values(facts.waitingInstances).find((one) => one.modelId === modelId)
  return entry === undefined ? 'it is not placed yet' : `${entry.message} (${entry.reason})`
}

/** Why a model is not placed: it waits for a node, or an operator stopped it. Null in all other cases. */
export function absenceOf ({ ctx: { sections } }: Planning, modelId: string): MissingReason | null {
  const waiting = [...sections.waiting.entries()].find(({ value }) => value.modelId === modelId)
  if (waiting !== undefined) {
    // True if the only node that the request allows was removed or is not live.
    const bound = waiting.value.reason === 'exclusions_removed_all'
    return {
      code: waiting.value.reason === 'node_lost' ? 'node_lost' : 'waiting_for_node',
      problem: `it waits for a node: ${waiting.value.message.replace(/\.$/, '')}`,
      remedy: bound
        ? `Place it where it may run: \`svc stop ${waiting.key}\`, then \`svc place ${modelId}\`.`
        : `It is placed as soon as it fits; \`svc place ${modelId} --dry-run --explain\` shows ` +
          'the calculation.',
      waits: true
    }
  }
  const stopped = sections.stopped.get(modelId)
  return stopped === undefined
    ? null
    : {
        code: 'model_stopped',
        problem: `it was stopped at ${stopped.since}`,
        remedy: `Place it: \`svc place ${modelId}\`.`,
        waits: false
      }
}
