import type { Clock, EngineTask, ReadyCheck } from '../../../kernel/index.js'
import type { Scope } from './availability.js'
import { canaryTask, proofAge, proven } from './canary.js'
import type { BrokenLink } from './chain.js'
import type { Member } from '../instances/fleet.js'
import { FORWARD_FRESH_SECONDS } from '../limits.js'

export interface ReadinessParts {
  clock: Clock
  /** What keeps the model from being served by this node, or by any. */
  missing (modelId: string, capability: null, scope: Scope): BrokenLink | null
  /** Its ready runners on this node. */
  serving (modelId: string): Member[]
  idle (member: Member): boolean
  canary (member: Member, task: EngineTask): Promise<boolean>
}

/**
 * The check behind GET /readyz?model=: a ready runner of the model did real work within 30 s. An idle runner
 * is given a canary to show it where its task has one; else it is taken at its word. A model that only other
 * nodes serve is theirs to prove. Without a model it has nothing to say.
 */
export function createReadiness (parts: ReadinessParts): (model?: string) => Promise<ReadyCheck> {
  return async (model) => (model === undefined ? { ok: null, detail: '' } : await oneModel(parts, model))
}

async function oneModel (parts: ReadinessParts, model: string): Promise<ReadyCheck> {
  if (parts.missing(model, null, 'here') !== null) {
    const broken = parts.missing(model, null, 'anywhere')
    return broken === null
      ? { ok: true, detail: 'a runner on another node says that it is ready' }
      : { ok: false, detail: `${broken.problem}. ${broken.remedy}` }
  }
  const members = parts.serving(model)
  const fresh = members.find((member) => proven(member, parts.clock.mono()))
  if (fresh !== undefined) return { ok: true, detail: `last inference ${age(fresh, parts.clock)} ago` }
  const idle = members.find((member) => parts.idle(member))
  if (idle === undefined) {
    return { ok: false, detail: `busy, without a result for over ${FORWARD_FRESH_SECONDS} s` }
  }
  const task = idle.card === null ? undefined : canaryTask(idle.card)
  if (task === undefined) return { ok: true, detail: `idle; last inference ${age(idle, parts.clock)} ago` }
  return (await parts.canary(idle, task))
    ? { ok: true, detail: 'a canary inference was answered' }
    : { ok: false, detail: 'a canary inference was not answered in time' }
}

function age (member: Member, clock: Clock): string {
  const seconds = proofAge(member, clock.mono())
  return seconds === null ? 'never' : `${seconds.toFixed(1)} s`
}
