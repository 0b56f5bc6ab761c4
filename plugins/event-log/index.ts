import { definePlugin, type Cluster, type Plugin } from '../../kernel/index.js'
import { Snapshots, stateAt } from './history/lookup.js'
import { startRecorder } from './history/recorder.js'
import { manifest } from './manifest.js'
import { follow } from './reading/follow.js'
import { firstIdx, pageOf, readLog, shown, startOf, type Source } from './reading/page.js'
import { readQuery } from './reading/query.js'
import { startReplication } from './replication/start.js'
import { openLog, defaultParts, type StoreParts } from './store/opening.js'
import type { Gap } from './store/gaps.js'
import type { Damaged } from './store/types.js'

/** The event log; tests replace `parts` (SQLite, free space and limits). */
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
    const { replication, stop } = startReplication({
      log, store, tap, cluster, session, clock, logger: ctx.log, nodeId: node.nodeId, dropped: reportGap,
      checker: (schema) => ctx.checker(schema)
    })
    ctx.effect('event log', stop)
    onDamaged = reportDamaged
    for (const damaged of found) reportDamaged(damaged)
    const snapshots = new Snapshots(store)
    ctx.effect('history of the state', startRecorder({
      log, snapshots, state, session, clock, logger: ctx.log, inStep: () => replication.inStep
    }))
    return {
      services: {
        history: { at: async (moment) => await stateAt({ log, store, snapshots, clock }, moment) },
        view: {
          status: () => store.status(), get lastIdx () { return log.last.idx },
          get firstIdx () { return firstIdx(source) },
          newest: (limit) => log.entries.slice(Math.max(0, log.entries.length - limit)).map(shown),
          get waiting () { return replication.waiting }
        }
      },
      state: { lastEventAppliedIdx: () => log.last.idx },
      routes: {
        list: async (request) => {
          const { node: ref } = request.query
          const origins = ref === undefined ? null : await nodeIds(ref, cluster, source)
          const lastEventId = request.headers['last-event-id']
          const query = readQuery(request.query, { kinds: [...tap.kinds()], origins, lastEventId })
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

// The only place in this plugin that reads environment variables.
export default createEventLogPlugin(defaultParts(process.env['SVC_EVENTLOG_FLOOR_BYTES']))

/** Resolves a node reference to ids; null if unknown. An id from an earlier start is looked up in the log. */
async function nodeIds (ref: string, cluster: Cluster, source: Source): Promise<readonly string[] | null> {
  const node = cluster.resolve(ref)
  if (node !== undefined) return [node.nodeId]
  const search = { after: 0, limit: 1, origins: [ref], newest: true }
  const known = await readLog(source, search).catch(() => [])
  return known.length > 0 ? [ref] : null
}
