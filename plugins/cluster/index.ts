import { defineCluster } from '../../kernel/index.js'
import { manifest } from './manifest.js'
import { TOUCH_COMMAND } from './routes.js'
import type { Host } from './host.js'

/** Joins nodes to one cluster; its settings are the kernel's `cluster.*`. */
export default defineCluster(manifest, (ctx, host: Host) => {
  ctx.effect('touch', host.commands.handle(TOUCH_COMMAND, () => null))
  const { declared } = ctx.deps
  const authorities = (): string[] =>
    declared.manifests.flatMap((one) => Object.keys(one.authorities ?? {}))
  return { routes: host.handlers(authorities) }
}, async (opening) => await (await import('./host.js')).openHost(opening))
