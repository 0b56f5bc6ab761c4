import type { Context } from '../../../kernel/index.js'
import type { RoleStatus } from '../../placement/service.js'
import type { manifest } from '../manifest.js'
import { statusOf } from '../status.js'
import { ROLE, wantedModels } from './choice.js'
import { Liveness, LOOK_MS } from './liveness.js'

export type WordingModel = ReturnType<typeof keepModel>

/** Keeps the configured model placed, and probes it on the master; does nothing without such a model. */
export function keepModel (ctx: Context<typeof manifest>) {
  const { clock, log, sections: { signsOfLife }, settings } = ctx
  const { api, session, keeping, models, work } = ctx.deps
  const { enabled } = settings.steward
  const setting = settings.steward.model ?? null
  const kept = (): RoleStatus | null => enabled && setting !== null ? keeping?.kept(ROLE) ?? null : null
  const failed = (instanceId: string): number => {
    const { masterNodeId } = session
    return masterNodeId === null ? 0 : signsOfLife.get(instanceId, masterNodeId)?.failed ?? 0
  }
  const facts = () => {
    const now = kept()
    return { enabled, model: setting, kept: now, failed: now === null ? 0 : failed(now.instanceId) }
  }
  const unwatched = {
    status: () => statusOf(facts()),
    /** The model that words the answers, if it is ready; null means that the reader answers. */
    model (): string | null {
      const { kept, failed } = facts()
      return kept?.state === 'ready' && failed === 0 ? kept.modelId : null
    },
    heard: () => {}
  }
  if (!enabled || setting === null || keeping === undefined) return unwatched
  ctx.effect('the model of the steward', keeping.keep({
    systemRole: ROLE,
    wanted: () => wantedModels(setting, { models, isStopped: (modelId) => keeping.isStopped(modelId) }),
    refusal: (instanceId) => ctx.error('steward_instance',
      `Instance ${instanceId} is the steward's: it is kept while steward.model is ${setting}.`)
  }))
  const liveness = new Liveness({
    api, clock, log, keeping, kept, section: signsOfLife, isMaster: () => session.isMaster
  })
  if (work !== undefined) {
    ctx.effect('requests that its model answers', work.onTask(({ modelId, status }) => {
      if (status === 'Complete') liveness.answered(modelId)
    }))
  }
  ctx.every('sign of life of the steward\'s model', LOOK_MS, () => {
    const { modelId, problem } = kept() ?? {}
    if (problem === undefined || !session.isMaster) ctx.clear('steward_model_missing')
    else ctx.raise('steward_model_missing', `${modelId}: ${problem}`)
    void liveness.look()
  })
  return { ...unwatched, heard: () => { liveness.heard() } }
}
