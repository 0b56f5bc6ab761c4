import { definePlugin } from '../../kernel/index.js'
import { bodyOf } from '../runners/service.js'
import { FactsReader } from './facts.js'
import { drain, awaitReady, get, remove } from './handlers/instances.js'
import { create, place, placement, previews, setPolicy } from './handlers/place.js'
import { keepingService } from './keeper/keeping.js'
import { Keeper } from './keeper/loop.js'
import { manifest } from './manifest.js'
import { checkEntering, memoryFit } from './place/check.js'
import { createOnDemand } from './place/on-demand.js'
import { Planning } from './place/planning.js'
import { policyText } from './place/policies.js'
import { absenceOf, checkReady } from './progress/follow.js'
import { commandHandlers, drainedView, waitingView } from './waitlist.js'

export default definePlugin(manifest, (ctx) => {
  const { instances } = ctx.deps
  const planning = new Planning(ctx, new FactsReader(ctx))
  ctx.effect('placement check',
    instances.onEnter((entering) => { checkEntering(planning, entering) }))
  const { models } = ctx.deps
  if (models !== undefined) {
    ctx.effect('memory planner', models.memory((...asked) => memoryFit(planning, ...asked)))
  }
  const keeper = new Keeper(planning)
  ctx.readiness('placement', (model) => checkReady(planning, model))
  ctx.effect('reasons of missing models', instances.onAbsent((modelId) => absenceOf(planning, modelId)))
  ctx.effect('on-demand placement', instances.onMissing(createOnDemand(planning)))
  return {
    routes: {
      place: async (request) => await place(planning, request),
      create: async (request) => await create(planning, request),
      placement: async (request) => await placement(planning, request),
      previews: async (request) => await previews(planning, request),
      get: async (request) => await get(planning, request),
      remove: async (request) => await remove(planning, request),
      drain: async (request) => await drain(planning, request, true),
      undrain: async (request) => await drain(planning, request, false),
      policy: async (request) => await setPolicy(planning, request),
      await: async (request) => { await awaitReady(planning, request) }
    },
    commands: commandHandlers({
      ...ctx.sections,
      replaced: (id) => Object.values(instances.placed().instances).some((one) =>
        bodyOf(one).placement?.replaces === id),
      waits (instanceId, { modelId, reason, message }) {
        ctx.emit('InstanceWaiting', { instanceId, modelId, reason, message })
      }
    }),
    services: { keeping: keepingService(planning, keeper.poke) },
    state: {
      waitingInstances: () => waitingView(ctx.sections.waiting),
      drainedNodes: () => drainedView(ctx.sections.drainedNodes),
      policies: () => Object.fromEntries([...ctx.sections.policies.entries()].map(({ key, value }) =>
        [key, { ...value, words: policyText(value), stopped: planning.isStopped(key) }]))
    }
  }
})
