import { defineCluster, DeclarationService, type Manifest, type VerbDecl } from '../../kernel/index.js'
import { TOUCH_COMMAND, clusterRoutes } from './routes.js'
import type { Host } from './host.js'

const verbs = {
  dev: {
    heading: 'Run a cluster', summary: 'run a test cluster of several nodes on this machine',
    args: '[action] [node]',
    options: [
      ['--nodes <n>', 'number of nodes (3)'],
      ['--base-port <port>', 'first port, two per node; 0: any free ports (52415)']
    ],
    examples: [
      'svc dev', 'svc dev --nodes 5 --json', 'svc dev --base-port 0 --home ./trial', 'svc dev start node2'
    ],
    load: () => import('./cli/dev.js')
  },
  nodes: {
    heading: 'Run a cluster', summary: 'list the nodes: URL, master, live or lost, memory, health',
    examples: ['svc nodes', 'svc nodes --json | jq -r \'.nodes[] | select(.live | not) | .name\''],
    load: async () => ({ default: (await import('./cli/members.js')).nodes })
  },
  'join-token': {
    heading: 'Run a cluster',
    summary: 'print a token that lets one machine join the cluster; list or revoke tokens',
    args: '[action] [id]',
    options: [
      ['--ttl <span>', 'time until it expires: 90s, 15m, 2h, 1d (15m)'],
      ['--local', 'for another node on this machine']
    ],
    examples: ['svc join-token', 'svc join-token --ttl 1h --json', 'svc join-token revoke ID'],
    load: () => import('./cli/join-token.js')
  },
  members: {
    heading: 'Run a cluster', summary: 'list the members of the cluster, or remove one permanently',
    args: '[action] [id]', examples: ['svc members', 'svc members remove attic'],
    load: async () => ({ default: (await import('./cli/members.js')).members })
  }
} satisfies Record<string, VerbDecl>

const manifest = {
  name: 'cluster', version: '1.0.0', kernel: '^1.0.0',
  summary: 'Joins nodes into one cluster: members, links, election and shared documents.',
  consumes: { declared: DeclarationService },
  routes: clusterRoutes, verbs
} as const satisfies Manifest

/** Joins nodes to one cluster; its settings are the kernel's `cluster.*`. */
export default defineCluster(manifest, (ctx, host: Host) => {
  ctx.effect('touch', host.commands.handle(TOUCH_COMMAND, () => null))
  const { declared } = ctx.deps
  const authorities = (): string[] => declared.manifests.flatMap((one) => Object.keys(one.authorities ?? {}))
  return { routes: host.handlers(authorities) }
}, async (opening) => await (await import('./host.js')).openHost(opening))
