import { randomUUID } from 'node:crypto'
import { definePlugin } from '../../kernel/index.js'
import type { Context } from '../../kernel/index.js'
import { Admission, REFRESH_MS } from './admission.js'
import type { Desk } from './desk.js'
import { awaitReady, get, remove } from './handlers/instances.js'
import { create, place } from './handlers/place.js'
import { placement, previews } from './handlers/previews.js'
import { manifest } from './manifest.js'
import { Planning } from './planning.js'
import { stateReader } from './state-view.js'

export default definePlugin(manifest, (ctx) => {
  const { bundle, cluster, models, instances, state } = ctx.deps
  const readState = stateReader(state)
  const planning = new Planning({ clock: ctx.clock, bundle, cluster, models, readState })
  judge(ctx, planning)
  const desk: Desk = {
    clock: ctx.clock, cluster, planning, instances, readState, newId: randomUUID,
    forced (instanceId, modelId, nodeIds, { id: by }) {
      ctx.log.warn({ instanceId, modelId, nodeIds, by }, 'an instance was placed without the check of memory')
      ctx.emit('PlacementForced', { instanceId, modelId, nodeIds, by })
    }
  }
  return {
    routes: {
      place: async (request) => await place(desk, request),
      create: async (request) => await create(desk, request),
      placement: async (request) => await placement(desk, request),
      previews: async (request) => await previews(desk, request),
      get: async (request) => await get(desk, request),
      remove: async (request) => await remove(desk, request),
      await: async (request) => { await awaitReady(desk, request) }
    }
  }
})

/** Has the master look itself before it enters an instance. */
function judge (ctx: Context<typeof manifest>, planning: Planning): void {
  const { session, instances } = ctx.deps
  const admission = new Admission(planning, (error) => {
    ctx.log.warn({ err: error }, 'the state could not be read')
  })
  const look = (): void => {
    if (session.isMaster) void admission.refresh()
    else admission.forget()
  }
  ctx.effect('look at a new session', session.onChange(look))
  ctx.every('look at the cluster', REFRESH_MS, look)
  ctx.effect('check of what is placed', instances.onEnter((entering) => { admission.check(entering) }))
}
