import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { definePlugin, type Context, type Plugin, type TraceStart } from '../../kernel/index.js'
import { traceHandlers } from './handlers.js'
import { manifest } from './manifest.js'
import { createOtlp, type Otlp } from './otlp.js'
import { partReader, Recording } from './recording.js'
import { peerReaders } from './peers.js'
import { TraceStore } from './store.js'
import type { TraceRecord } from './recording.js'
import type { TraceCounters } from './service.js'

type TracingContext = Context<typeof manifest>

const HOUR_MS = 3_600_000
const MIB = 1024 * 1024
const SWITCH = 'requests'

export default definePlugin(manifest, (ctx) => {
  const { cluster, tracers } = ctx.deps
  const counters: TraceCounters = {
    recorded: 0, written: 0, droppedQueue: 0, droppedDisk: 0, droppedSpans: 0, exported: 0, exportDropped: 0
  }
  const store = openStore(ctx, counters)
  const otlp = openOtlp(ctx, counters)
  const recording = {
    readPart: partReader(ctx),
    clock: ctx.clock,
    randomHex: (bytes: number) => randomBytes(bytes).toString('hex'),
    nodeId: ctx.node.nodeId,
    nameOf: (nodeId: string) => cluster.resolve(nodeId)?.name ?? nodeId,
    finished: (record: TraceRecord) => {
      store.put(record)
      otlp?.push(record)
    }
  }
  const tracer = { enabled: false, begin: (start: TraceStart) => new Recording(recording, start) }
  const isOn = (): boolean => ctx.sections.switch.get(SWITCH)?.enabled === true
  const applySwitch = (): void => { tracer.enabled = isOn() }
  applySwitch()
  ctx.sections.switch.observe(applySwitch)
  ctx.effect('recording of requests', tracers.use(tracer))
  const { error, clock, node } = ctx
  return {
    commands: {
      set (args) {
        if (isOn() !== args.enabled) {
          ctx.sections.switch.put(SWITCH, args)
          ctx.emit('TracingStateChanged', args)
        }
        return args
      }
    },
    routes: {
      ...traceHandlers({ store, cluster, clock, nodeId: node.nodeId, error, ...peerReaders(ctx) }),
      state: () => ({ enabled: tracer.enabled }), set: async ({ body }) => await ctx.command('set', body)
    },
    services: { tracing: { get enabled () { return tracer.enabled }, counters: () => ({ ...counters }) } },
    state: { tracingEnabled: () => tracer.enabled }
  }
}) satisfies Plugin

/** Opens the saved traces; removes old and excess ones every hour. */
function openStore (ctx: TracingContext, counters: TraceCounters): TraceStore {
  const { retention_days: days, max_total_mib: mib } = ctx.settings.tracing
  const folder = join(ctx.node.home, 'traces')
  const store = new TraceStore({ folder, counters, clock: ctx.clock, log: ctx.log, maxBytes: mib * MIB })
  const prune = async (): Promise<void> => {
    const removed = await store.prune(days)
    if (removed > 0) ctx.log.info({ files: removed, days }, 'pruned old trace files')
  }
  const failed = (err: unknown): void => { ctx.log.warn({ err }, 'cannot prune trace files') }
  store.load().then(prune).catch(failed)
  ctx.every('trace janitor', HOUR_MS, () => { prune().catch(failed) })
  ctx.effect('traces that wait to be written', async () => { await store.idle() })
  return store
}

function openOtlp (ctx: TracingContext, counters: TraceCounters): Otlp | undefined {
  const { otlp_url: url, otlp_headers: headers } = ctx.settings.tracing
  if (url === undefined) return undefined
  const { log, clock, node: { name, nodeId, version } } = ctx
  const otlp = createOtlp({
    url, headers: headers as Record<string, string>, clock, log, counters, node: { name, nodeId, version }
  })
  ctx.effect('export of traces', otlp.close)
  return otlp
}
