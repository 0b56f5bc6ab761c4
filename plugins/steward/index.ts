import { definePlugin, type Plugin } from '../../kernel/index.js'
import { createDesk, type Voice } from './ask.js'
import { manifest } from './manifest.js'
import { STEWARD, stewardModel } from './model.js'
import { keepModel } from './voice/keep.js'

export function createSteward (voice: Voice): Plugin {
  return definePlugin(manifest, (ctx) => {
    const { clock, log, deps: { api, declarations, runners } } = ctx
    const model = keepModel(ctx)
    const desk = createDesk({
      api, declarations, clock, log, voice, model, checker: (schema) => ctx.checker(schema),
      refusal: () => ctx.settings.steward.enabled ? null : ctx.error('steward_disabled')
    })
    if (runners !== undefined) {
      ctx.effect('virtual model', runners.virtual(STEWARD, stewardModel(desk, () => model.status())))
    }
    return { routes: { status: () => model.status(), ask: async (request) => await desk.ask(request) } }
  })
}

export default createSteward(async function * (...asked) {
  // Imported on the first question, because startup does not need these modules.
  const { turn } = await import('./turn.js')
  yield * turn(...asked)
})
