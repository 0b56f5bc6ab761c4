import { defineCluster, DeclarationService, type Manifest } from '../../kernel/index.js'
import { TOUCH_COMMAND, clusterRoutes } from './routes.js'
import { verbs } from './cli/verbs.js'
import type { Host } from './host.js'

const manifest = {
  name: 'cluster',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Joins nodes into one cluster: members, links, election and shared documents.',
  consumes: { declared: DeclarationService },
  routes: clusterRoutes,
  verbs
} as const satisfies Manifest

/** Joins nodes to one cluster; its settings are the kernel's `cluster.*`. */
export default defineCluster(manifest, (ctx, host: Host) => {
  ctx.effect('touch', host.commands.handle(TOUCH_COMMAND, () => null))
  const { declared } = ctx.deps
  const authorities = (): string[] => declared.manifests.flatMap((one) => Object.keys(one.authorities ?? {}))
  return { routes: host.handlers(authorities) }
}, async (opening) => await (await import('./host.js')).openHost(opening))
