import { delay } from '../../../kernel/index.js'
import type { Clock, EngineTask, ReadyCheck, EngineChunk, Logger, ModelCard } from '../../../kernel/index.js'
import type { Member } from '../instances/runner-set.js'
import { reasonOf } from '../process/errors.js'
import type { Routing } from './routing.js'

/** Age in seconds up to which the last real inference proves that a runner works. */
const FORWARD_FRESH_SECONDS = 30
export const CANARY_DEADLINE_MS = 5_000

export interface ReadinessParts {
  routing: Pick<Routing, 'missing' | 'serving' | 'virtualChain'>
  idle (member: Member): boolean
  canary (member: Member, task: EngineTask): Promise<boolean>
}

/**
 * The check behind GET /readyz?model=: a ready runner of the model gave a real result within 30 s. An idle
 * runner gets a canary if its task has one; otherwise it counts as ready. A model that only other nodes serve
 * is ready if they report it. Without a model the check does not apply.
 */
export function createReadiness (parts: ReadinessParts): (model?: string) => Promise<ReadyCheck> {
  return async (model) => (model === undefined ? { ok: null, detail: '' } : await oneModel(parts, model))
}

async function oneModel (parts: ReadinessParts, model: string): Promise<ReadyCheck> {
  const { routing } = parts
  const virtual = routing.virtualChain(model)
  const broken = virtual === undefined ? routing.missing(model, null) : virtual.broken
  if (broken !== null) return { ok: false, detail: `${broken.message}. ${broken.remedy}` }
  if (virtual !== undefined) return { ok: true, detail: 'this node answers it itself' }
  const members = routing.serving(model)
  if (members.length === 0) return { ok: true, detail: 'a runner on another node is ready' }
  const fresh = members.find(proven)
  if (fresh !== undefined) return { ok: true, detail: `last inference ${age(fresh)} ago` }
  const idle = members.find((member) => parts.idle(member))
  if (idle === undefined) {
    return { ok: false, detail: `busy, without a result for over ${FORWARD_FRESH_SECONDS} s` }
  }
  const task = idle.card === null ? undefined : canaryTask(idle.card)
  if (task === undefined) return { ok: true, detail: `idle; last inference ${age(idle)} ago` }
  return (await parts.canary(idle, task))
    ? { ok: true, detail: 'a canary inference was answered' }
    : { ok: false, detail: 'a canary inference was not answered in time' }
}

function age (member: Member): string {
  const seconds = proofAge(member)
  return seconds === null ? 'never' : `${seconds.toFixed(1)} s`
}

const CANARIES: Readonly<Record<string, (card: ModelCard) => EngineTask>> = {
  tts: (card) => ({ kind: 'tts', payload: { model: card.modelId, text: 'a' } })
}

function canaryTask (card: ModelCard): EngineTask | undefined {
  const task = card.tasks.find((name) => Object.hasOwn(CANARIES, name))
  return task === undefined ? undefined : CANARIES[task]?.(card)
}

/** Seconds since the runner's last real result; null if there was none. */
const proofAge = ({ supervisor }: Member): number | null => supervisor?.report().secondsSinceForward ?? null

const proven = (member: Member): boolean => (proofAge(member) ?? Infinity) <= FORWARD_FRESH_SECONDS

interface CanaryParts { clock: Clock, log: Logger, newId (): string }

/**
 * Runs one small real inference on an idle runner for at most 5 s, and resolves to whether the runner
 * answered. Concurrent callers share one run.
 */
export function createCanary (parts: CanaryParts): (member: Member, task: EngineTask) => Promise<boolean> {
  const running = new Map<string, Promise<boolean>>()
  return async (member, task) => {
    const { runnerId } = member.assignment
    const run = running.get(runnerId) ??
      tryOnce(parts, member, task).finally(() => { running.delete(runnerId) })
    running.set(runnerId, run)
    return await run
  }
}

async function tryOnce (
  { clock, log, newId }: CanaryParts, member: Member, task: EngineTask
): Promise<boolean> {
  const end = new AbortController()
  const answer = answers(member, newId(), task, end.signal).catch((error: unknown) => {
    log.warn({ ...member.assignment, error: reasonOf(error) }, 'the canary failed')
    return false
  })
  // An engine may ignore the signal, so the deadline does not wait for it.
  const overdue = delay(clock, CANARY_DEADLINE_MS, end.signal).then(() => false, () => false)
  const ok = await Promise.race([answer, overdue])
  end.abort()
  return ok
}

/** True if the engine gave at least one chunk and ended without an abort. */
async function answers (
  { supervisor }: Member, taskId: string, task: EngineTask, signal: AbortSignal
): Promise<boolean> {
  let last: EngineChunk | undefined
  if (supervisor === null) return false
  for await (const chunk of supervisor.open(taskId, task, signal)) last = chunk
  return last !== undefined && !signal.aborted
}
