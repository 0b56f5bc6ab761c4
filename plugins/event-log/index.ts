import {
  ClusterService, definePlugin, EventTapService, SessionService, StateHistoryService, StateService
} from '../../kernel/index.js'
import { conflicts } from './conflicts.js'
import { events } from './events.js'
import { findInStore, roomIn } from './catchup.js'
import { startFeed } from './feed.js'
import { follow } from './follow.js'
import { startHistory } from './history/index.js'
import { openLog } from './opening.js'
import { pageOf, shown, startOf } from './page.js'
import { readQuery } from './query.js'
import { routes } from './routes.js'
import { EventLogService } from './service.js'
import { firstIdx, readLog } from './source.js'
import { realParts } from './store/start.js'
import type { Cluster, Manifest, Plugin } from '../../kernel/index.js'
import type { Source } from './source.js'
import type { Gap } from './store/gaps.js'
import type { Damaged } from './store/types.js'
import type { StoreParts } from './store/start.js'

const manifest = {
  name: 'event-log',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Keeps the control events of the whole cluster in one order on every node, and shows them.',
  consumes: {
    tap: EventTapService, cluster: ClusterService, session: SessionService, state: StateService
  },
  provides: { history: StateHistoryService, view: EventLogService },
  routes,
  events,
  conflicts,
  state: { lastEventAppliedIdx: 'Index of the newest control event this node has in its log.' },
  checks: { eventLog: { summary: 'Whether events are kept.', load: () => import('./doctor.js') } },
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
    },
    diff: {
      summary: 'say what differs between two moments: nodes, master, instances, runners, conflicts',
      args: '<from> [to]',
      examples: ['svc diff 10m', 'svc diff 2026-01-31T08:00Z 2026-01-31T09:00Z', 'svc diff 1200 1250 --json'],
      load: () => import('./history/cli/diff.js')
    }
  }
} as const satisfies Manifest

/** The event log; `parts`: SQLite, free space and limits, which tests replace. */
export function createEventLogPlugin (parts: StoreParts): Plugin {
  return definePlugin(manifest, async (ctx) => {
    const { tap, cluster, session, state } = ctx.deps
    const { clock, node } = ctx
    const reportGap = ({ from, to, count }: Gap): void => { ctx.emit('LogGap', { from, to, count }) }
    const reportDamaged = ({ file, from, error }: Damaged): void => {
      ctx.emit('LogCorrupt', { nodeId: node.nodeId, file, from, errorMessage: error })
    }
    const found: Damaged[] = []
    let onDamaged = (damaged: Damaged): void => { found.push(damaged) }
    const source = await openLog({
      parts, clock, home: node.home, logger: ctx.log,
      onGap: reportGap,
      onDamaged: (damaged) => { onDamaged(damaged) },
      unavailable: (why) => { ctx.raise('event_log_unavailable', why) },
      counting: (why) => {
        if (why === null) ctx.clear('event_log_degraded')
        else ctx.raise('event_log_degraded', why)
      }
    })
    const { log, store } = source
    ctx.effect('stored event log', () => store.close())
    const { replication, stop } = startFeed({
      log, tap, cluster, session, clock, logger: ctx.log, nodeId: node.nodeId, reserved: store.reserved,
      find: (have) => findInStore(store, have),
      room: () => roomIn(store, clock),
      dropped: reportGap
    })
    ctx.effect('event log', stop)
    onDamaged = reportDamaged
    for (const damaged of found) reportDamaged(damaged)
    const past = startHistory({
      log, store, state, session, clock, logger: ctx.log, inStep: () => replication.inStep
    })
    ctx.effect('history of the state', past.stop)
    return {
      services: {
        history: past.history,
        view: {
          status: () => store.status(),
          get lastIdx () { return log.last.idx },
          get firstIdx () { return firstIdx(source) },
          newest: (limit) => log.entries.slice(Math.max(0, log.entries.length - limit)).map(shown),
          get waiting () { return replication.waiting }
        }
      },
      state: { lastEventAppliedIdx: () => log.last.idx },
      routes: {
        list: async (request) => {
          const { node: ref } = request.query
          const ids = ref === undefined ? null : await nodeIds(ref, cluster, source)
          const query = readQuery(request.query, {
            kinds: new Set(tap.kinds()),
            node: () => ids,
            lastEventId: request.headers['last-event-id']
          })
          if (!query.follow) return await pageOf(source, query, session.sessionId)
          const since = await startOf(source, query)
          const stream = request.open({ contentType: 'text/event-stream' })
          await follow(stream, {
            log, store, clock, query, signal: request.signal, since,
            foreign: (idx) => replication.inStep && idx > replication.highest
          })
        }
      }
    }
  })
}

// The environment is read here only, and handed on as an argument.
export default createEventLogPlugin(realParts(process.env['SVC_EVENTLOG_FLOOR_BYTES']))

/** The node ids whose events `ref` asks for; null for an unknown node. A node has a new id at each start. */
async function nodeIds (
  ref: string, cluster: Cluster, source: Source
): Promise<ReadonlySet<string> | null> {
  const node = cluster.resolve(ref)
  if (node !== undefined) return new Set([node.nodeId])
  const search = { after: 0, limit: 1, origins: [ref], newest: true }
  const known = await readLog(source, search).catch(() => [])
  return known.length > 0 ? new Set([ref]) : null
}
