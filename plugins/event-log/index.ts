import {
  ClusterService, definePlugin, EventTapService, SessionService
} from '../../kernel/index.js'
import { events } from './events.js'
import { startFeed } from './feed.js'
import { follow } from './follow.js'
import { createEventLog } from './log.js'
import { pageOf, startOf } from './page.js'
import { readQuery } from './query.js'
import { routes } from './routes.js'
import type { Cluster } from '../../kernel/index.js'
import type { EventLog } from './log.js'

/** What happened in the cluster, in one order on all nodes. It is kept in memory. */
export default definePlugin({
  name: 'event-log',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Keeps the control events of the whole cluster in one order on every node, and shows them.',
  consumes: { tap: EventTapService, cluster: ClusterService, session: SessionService },
  routes,
  events,
  state: { lastEventAppliedIdx: 'Index of the newest control event this node has in its log.' },
  verbs: {
    events: {
      summary: 'show what happened in the cluster, or follow it',
      options: [
        ['-f, --follow', 'go on as things happen'],
        ['--since <when>', 'a span such as 10m, a time, or the index after which to begin'],
        ['--kind <kind...>', 'only events of these kinds'],
        ['--node <ref>', 'only events of this node: id, name or local'],
        ['--limit <n>', 'at most so many (200)']
      ],
      examples: ['svc events --since 10m', 'svc events -f --kind NodeTimedOut MasterElected'],
      load: () => import('./cli/events.js')
    }
  }
}, (ctx) => {
  const { tap, cluster, session } = ctx.deps
  const { clock } = ctx
  const log = createEventLog()
  const { replication, stop } = startFeed({
    log, tap, cluster, session, clock, logger: ctx.log, nodeId: ctx.node.nodeId,
    dropped: (gap) => { ctx.emit('LogGap', gap) }
  })
  ctx.effect('event log', stop)
  return {
    state: { lastEventAppliedIdx: () => log.last.idx },
    routes: {
      list: async (request) => {
        const query = readQuery(request.query, {
          kinds: new Set(tap.kinds()),
          node: (ref) => nodeIds(ref, cluster, log),
          lastEventId: request.headers['last-event-id']
        })
        if (!query.follow) return pageOf(log, query, session.sessionId)
        const stream = request.open({ contentType: 'text/event-stream' })
        await follow(stream, {
          log, clock, query, signal: request.signal, since: startOf(log, query),
          foreign: (idx) => replication.inStep && idx > replication.highest
        })
      }
    }
  }
})

/** The ids under which a node's events are found: a node has a new one after each start. */
function nodeIds (ref: string, cluster: Cluster, log: EventLog): ReadonlySet<string> | null {
  const node = cluster.resolve(ref)
  if (node !== undefined) return new Set([node.nodeId])
  return log.entries.some((entry) => entry.origin === ref) ? new Set([ref]) : null
}
