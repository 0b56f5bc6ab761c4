import { randomInt } from 'node:crypto'
import { ClusterService, definePlugin, LogRingService, logLevels, noSuchNode } from '../../kernel/index.js'
import type { Cluster, Context, NodeView } from '../../kernel/index.js'
import { gather } from './cluster.js'
import { followCluster } from './cluster-follow.js'
import { follow } from './follow.js'
import { pageOf } from './lines.js'
import { badSince, readQuery, wantOf } from './query.js'
import { routes } from './routes.js'
import { ShippingService } from './service.js'
import { LogShipper, logChange } from './ship.js'

const EVENTS = { contentType: 'text/event-stream' }

/** The newest lines of the nodes' logs and of their runners' output. */
export default definePlugin({
  name: 'logs',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Shows the newest lines of the logs of all nodes and of what their runners wrote, and ships them.',
  consumes: { ring: LogRingService, cluster: ClusterService },
  provides: { shipping: ShippingService },
  routes,
  tools: {
    logs: {
      summary: 'The newest lines of the nodes\' logs, warnings and worse unless a level is asked for.',
      args: {
        type: 'object', additionalProperties: false,
        properties: {
          node: { type: 'string', minLength: 1, maxLength: 100, description: 'Only of this node.' },
          model: { type: 'string', minLength: 1, maxLength: 200, description: 'Only about this model.' },
          from: {
            type: 'string', minLength: 1, maxLength: 40,
            description: 'From this time on (ISO-8601), or a span back from now such as 10m.'
          },
          level: { enum: [...logLevels], description: 'Lowest level.' }
        }
      },
      load: () => import('./tools/logs.js')
    }
  },
  verbs: {
    logs: {
      heading: 'Watch it',
      summary: 'show the newest log lines of all nodes in order of time, or follow them',
      options: [
        ['-f, --follow', 'go on as lines are written'],
        ['--since <when>', 'a span such as 10m, or a time'],
        ['--node <ref>', 'only this node: id, name or local'],
        ['--model <id>', 'only lines about this model, what its runners wrote included'],
        ['--plugin <name>', 'only lines of this plugin'],
        ['--level <level>', 'lowest level: trace, debug, info, warn, error or fatal'],
        ['--grep <pattern>', 'only lines that this regular expression is found in, whatever the case'],
        ['--limit <n>', 'at most so many of the newest (200; 1000 with --since; 20 to begin with -f)']
      ],
      examples: [
        'svc logs --since 10m --level warn', 'svc logs -f --node attic',
        'svc logs -f --model acme/chat --json', 'svc logs --grep "evict|purge"'
      ],
      load: () => import('./cli/logs.js')
    }
  }
}, (ctx) => {
  const { ring, cluster } = ctx.deps
  const { clock } = ctx
  const self = { nodeId: ctx.node.nodeId, node: ctx.node.name }
  const shipper = shipperFor(ctx, ring.ingestUrl)
  if (shipper !== null) ring.sendTo(shipper)
  return {
    services: { shipping: { get shipping () { return shipper?.shipping ?? null } } },
    routes: {
      here: async (request) => {
        const query = readQuery(request.query, request.headers['last-event-id'])
        if (!query.follow) return pageOf(ring, self, wantOf(query, self.nodeId))
        await follow(request.open(EVENTS), { ring, self, clock }, query, request.signal)
      },
      cluster: async (request) => {
        const { node, ...raw } = request.query
        const query = readQuery(raw)
        if (query.position !== null) throw badSince(raw.since!, 'a time such as 2026-01-31T08:00:00Z')
        const nodes = nodesFor(cluster, node)
        const parts = { ring, self, cluster, clock }
        if (!query.follow) {
          const page = await gather(parts, nodes(), query, request)
          return { nodes: page.nodes, lines: page.lines }
        }
        await followCluster(request.open(EVENTS), { ...parts, nodes, query, asker: request })
      }
    }
  }
})

/** Sends lines to the address; null without one. */
function shipperFor (
  { clock, log }: Pick<Context, 'clock' | 'log'>, url: string | undefined
): LogShipper | null {
  if (url === undefined) return null
  const random = (): number => randomInt(2 ** 32) / 2 ** 32
  return new LogShipper({ url, clock, random, tell: (news) => { logChange(log, news) } })
}

/** The node that was named, or all there are, as they are when it is called. Throws `node_not_found`. */
function nodesFor (cluster: Cluster, ref: string | undefined): () => readonly NodeView[] {
  if (ref === undefined) return () => cluster.nodes()
  const node = cluster.resolve(ref)
  if (node === undefined) throw noSuchNode(ref, cluster.nodes())
  // Its id changes when it starts anew.
  return () => cluster.nodes().filter(({ installId }) => installId === node.installId)
}
