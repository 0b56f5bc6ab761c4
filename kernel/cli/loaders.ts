import type { VerbDecl } from '../api/plugin.js'

/** Module loaders of the built-in verbs; a module is loaded only when its verb is used. */
export const loaders: Readonly<Record<string, VerbDecl['load']>> = {
  up: () => import('./verbs/up.js'),
  restart: () => import('./verbs/restart.js'),
  state: () => import('./verbs/state.js'),
  'plugin ls': async () => ({ default: (await import('./verbs/plugins.js')).ls }),
  'plugin enable': async () => ({ default: (await import('./verbs/plugins.js')).enable }),
  'plugin disable': async () => ({ default: (await import('./verbs/plugins.js')).disable }),
  'config check': async () => ({ default: (await import('./verbs/config.js')).check }),
  'config get': async () => ({ default: (await import('./verbs/config.js')).get }),
  'config set': async () => ({ default: (await import('./verbs/config.js')).set }),
  'known ls': async () => ({ default: (await import('./verbs/known.js')).ls }),
  'known rm': async () => ({ default: (await import('./verbs/known.js')).rm }),
  completion: async () => ({ default: (await import('./verbs/completion.js')).completion }),
  'complete-words': async () => ({ default: (await import('./verbs/completion.js')).completeWords })
}
