import { randomUUID } from 'node:crypto'
import { definePlugin } from '../../kernel/index.js'
import { bodyOf } from '../runners/service.js'
import { FactsReader } from './facts.js'
import { awaitReady, get, remove } from './handlers/instances.js'
import { create, place } from './handlers/place.js'
import { placement, previews } from './handlers/previews.js'
import { startKeeper } from './keeper/index.js'
import { manifest } from './manifest.js'
import { createAdmission } from './place/check.js'
import type { PlacementDeps } from './place/enter.js'
import { createOnDemand } from './place/on-demand.js'
import { Planning } from './place/planning.js'
import { createAbsence, readiness } from './progress/why-not.js'
import { commandHandlers, createWaitList, sectionsOf, waitingView } from './waitlist.js'

export default definePlugin(manifest, (ctx) => {
  const { bundle, cluster, models, instances, state } = ctx.deps
  const { autoplace = null, drain_seconds: drainSeconds, on_demand: onDemand } = ctx.config
  const sections = sectionsOf(ctx)
  const waiting = (): ReturnType<typeof waitingView> => waitingView(sections)
  const waitList = createWaitList(ctx, sections)
  const facts = new FactsReader({ clock: ctx.clock, state, instances, models, waiting })
  ctx.effect('changes of the state', state.onChange(() => { facts.changed() }))
  const planning = new Planning({ clock: ctx.clock, bundle, cluster, models, instances, facts })
  const placedAlways = (): string[] => autoplace ?? bundle.models().map(({ card }) => card.modelId)
  const admit = createAdmission({ planning, facts, waits: (id) => waitList.get(id) !== undefined })
  ctx.effect('check of what is placed', instances.onEnter(admit))
  startKeeper(ctx, { planning, facts, sections, autoplace: placedAlways })
  ctx.readiness('placement', readiness({ facts, autoplace: placedAlways, isStopped: waitList.isStopped }))
  ctx.effect('why a model is not placed', instances.onAbsent(createAbsence(sections)))
  const deps: PlacementDeps = {
    clock: ctx.clock, cluster, planning, instances, waitList, facts, drainSeconds, newId: randomUUID,
    returns: (modelId) => onDemand || (autoplace?.includes(modelId) ?? bundle.model(modelId) !== undefined),
    forced (instanceId, modelId, nodeIds, { id: by }) {
      ctx.log.warn({ instanceId, modelId, nodeIds, by }, 'an instance was placed without the check of memory')
      ctx.emit('PlacementForced', { instanceId, modelId, nodeIds, by })
    }
  }
  if (onDemand) {
    const ttlSeconds = ctx.config.on_demand_ttl_seconds
    ctx.effect('placing on demand', instances.onMissing(createOnDemand({ deps, ttlSeconds })))
  }
  return {
    routes: {
      place: async (request) => await place(deps, request),
      create: async (request) => await create(deps, request),
      placement: async (request) => await placement(deps, request),
      previews: async (request) => await previews(deps, request),
      get: async (request) => await get(deps, request),
      remove: async (request) => await remove(deps, request),
      await: async (request) => { await awaitReady(deps, request) }
    },
    commands: commandHandlers({
      ...sections,
      replaced: (id) => Object.values(instances.placed().instances).some((one) =>
        bodyOf(one).placement?.replaces === id),
      waits (instanceId, { modelId, reason, message }) {
        ctx.emit('InstanceWaiting', { instanceId, modelId, reason, message })
      }
    }),
    state: { waitingInstances: waiting }
  }
})
