import { randomUUID } from 'node:crypto'
import { definePlugin } from '../../kernel/index.js'
import type { Context } from '../../kernel/index.js'
import { createAbsence } from './absence.js'
import { Admission } from './admission.js'
import { commandHandlers } from './commands.js'
import type { Desk } from './desk.js'
import { awaitReady, get, remove } from './handlers/instances.js'
import { create, place } from './handlers/place.js'
import { placement, previews } from './handlers/previews.js'
import { startKeeper } from './keeper/index.js'
import { manifest } from './manifest.js'
import { createOnDemand } from './on-demand.js'
import { Planning } from './planning.js'
import { readiness } from './readiness.js'
import { RecentState } from './recent-state.js'
import { createStanding, sectionsOf, waitingView } from './standing.js'
import type { StandingSections } from './standing.js'
import { knownState, stateReader } from './state-view.js'

export default definePlugin(manifest, (ctx) => {
  const { bundle, cluster, models, instances, state } = ctx.deps
  const readState = stateReader(state)
  const recent = new RecentState(readState, ctx.clock)
  ctx.effect('changes of the state', state.onChange(() => { recent.changed() }))
  const planning = new Planning({ clock: ctx.clock, bundle, cluster, models, instances, readState })
  const sections = sectionsOf(ctx)
  const { autoplace = null, drain_seconds: drainSeconds } = ctx.config
  const placedAlways = (): string[] => autoplace ?? bundle.models().map(({ card }) => card.modelId)
  const standing = createStanding(ctx, sections)
  judge(ctx, planning, sections)
  startKeeper(ctx, { planning, readState, sections, autoplace: placedAlways })
  ctx.readiness('placement', readiness({
    readState, autoplace: placedAlways, isStopped: standing.isStopped,
    waiting: () => Object.values(waitingView(sections))
  }))
  ctx.effect('why a model is not placed', instances.onAbsent(createAbsence(sections)))
  const { on_demand: onDemand, on_demand_ttl_seconds: ttlSeconds } = ctx.config
  const desk: Desk = {
    clock: ctx.clock, cluster, planning, instances, readState, standing, drainSeconds,
    recentState: recent.read, newId: randomUUID,
    returns: (modelId) => onDemand || (autoplace?.includes(modelId) ?? bundle.model(modelId) !== undefined),
    forced (instanceId, modelId, nodeIds, { id: by }) {
      ctx.log.warn({ instanceId, modelId, nodeIds, by }, 'an instance was placed without the check of memory')
      ctx.emit('PlacementForced', { instanceId, modelId, nodeIds, by })
    }
  }
  if (onDemand) ctx.effect('placing on demand', instances.onMissing(createOnDemand({ desk, ttlSeconds })))
  return {
    routes: {
      place: async (request) => await place(desk, request),
      create: async (request) => await create(desk, request),
      placement: async (request) => await placement(desk, request),
      previews: async (request) => await previews(desk, request),
      get: async (request) => await get(desk, request),
      remove: async (request) => await remove(desk, request),
      await: async (request) => { await awaitReady(desk, request) }
    },
    commands: commandHandlers({
      ...sections,
      waits (instanceId, { modelId, reason, message }) {
        ctx.emit('InstanceWaiting', { instanceId, modelId, reason, message })
      }
    }) as never,
    state: { waitingInstances: () => waitingView(sections) }
  }
})

/** Has the master look itself before it enters an instance. */
function judge (
  ctx: Context<typeof manifest>, planning: Planning, { waiting }: StandingSections
): void {
  const { state, instances } = ctx.deps
  const admission = new Admission(planning, (id) => waiting.get(id) !== undefined, knownState(state))
  ctx.effect('check of what is placed', instances.onEnter((entering) => { admission.check(entering) }))
}
