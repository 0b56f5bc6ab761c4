import os from 'node:os'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { definePlugin, InspectionService, SessionService } from '../../kernel/index.js'
import { RunnersService } from '../runners/service.js'
import { nodeDiagnostics } from './node.js'
import { routes } from './routes.js'

/** What goes on inside this node: process, runners, plugins, warnings. */
export default definePlugin({
  name: 'diagnostics',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Shows what goes on inside a node: its process, runners, plugins and warnings.',
  after: ['runners'],
  consumes: { inspection: InspectionService, session: SessionService },
  consumesOptional: { runners: RunnersService },
  routes
}, (ctx) => {
  const loop = monitorEventLoopDelay({ resolution: 20 })
  loop.enable()
  ctx.effect('event loop monitor', () => { loop.disable() })
  return {
    routes: {
      node: () => nodeDiagnostics({
        node: ctx.node,
        session: ctx.deps.session,
        inspection: ctx.deps.inspection,
        runners: ctx.deps.runners?.reports() ?? [],
        now: new Date(ctx.clock.now()).toISOString(),
        process: { pid: process.pid, uptimeSeconds: process.uptime(), memory: process.memoryUsage(), hostname: os.hostname(),
          nodeVersion: process.version },
        loopDelayMs: { p50: loop.percentile(50) / 1e6, p99: loop.percentile(99) / 1e6, max: loop.max / 1e6 }
      })
    }
  }
})
