import { join } from 'node:path'
import { definePlugin } from '../../kernel/index.js'
import { pruneTraces } from './janitor.js'

const HOUR_MS = 3_600_000

/** Saved traces. So far only their keeping: the hourly janitor. */
export default definePlugin({
  name: 'tracing',
  version: '0.1.0',
  kernel: '^1.0.0',
  summary: 'Prunes saved trace files after tracing.retention_days.',
  settings: {
    tracing: {
      type: 'object', additionalProperties: false, default: {}, description: 'Traces of single requests.',
      properties: {
        retention_days: {
          type: 'integer', minimum: 1, default: 3, description: 'Days a saved trace file is kept.'
        }
      }
    }
  }
}, (ctx) => {
  const folder = join(ctx.node.home, 'traces')
  const days = ctx.settings.tracing.retention_days
  const prune = (): void => {
    pruneTraces(folder, days, ctx.clock.now()).then((removed) => {
      if (removed.length > 0) ctx.log.info({ files: removed.length, days }, 'pruned old trace files')
    }, (err: unknown) => { ctx.log.warn({ err }, 'cannot prune trace files') })
  }
  prune()
  ctx.every('trace janitor', HOUR_MS, prune)
  return {}
})
