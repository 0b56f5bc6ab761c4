import { definePlugin, offPlugin, type Plugin } from '../../kernel/index.js'
import { manifest } from './manifest.js'
import type { CallOutcome } from './service.js'

const plugin = definePlugin(manifest, async ({ clock, log, node, deps, effect }) => {
  // Imported lazily, because the CLI loads all plugin manifests and this import is large.
  const { createCapabilities } = await import('./capabilities.js')
  const { host } = deps
  const listeners = new Set<(outcome: CallOutcome) => void>()
  const capabilities = createCapabilities({
    clock, log, node, limits: host.limits, elsewhere: host.elsewhere,
    commands: deps.commands, cluster: deps.cluster, tracers: deps.tracers,
    off: (id) => offPlugin(deps.declarations, 'capabilities', id),
    errorDecl: (reason) => deps.declarations.manifests.flatMap(({ errors = {} }) =>
      Object.hasOwn(errors, reason) ? errors[reason]! : [])[0],
    spending: () => deps.spending,
    onOutcome: (outcome) => { for (const fn of listeners) fn(outcome) }
  })
  effect('capabilities of the plugins', host.serve(capabilities))
  return {
    routes: capabilities.handlers,
    services: {
      invocations: capabilities.invocations,
      calls: {
        onEnd (fn) {
          listeners.add(fn)
          return () => { listeners.delete(fn) }
        },
        queues: () => capabilities.invoker.queues()
      }
    }
  }
})

export default {
  ...plugin,
  async refusals ({ name, capabilities = {} }) {
    const { capabilityProblems } = await import('./registry.js')
    return Object.values(capabilities).flatMap((decl) => capabilityProblems(name, decl))
  }
} satisfies Plugin
