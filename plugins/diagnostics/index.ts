import os from 'node:os'
import {
  definePlugin, InspectionService, monitorLoop, SessionService, TelemetryService
} from '../../kernel/index.js'
import { RunnersService } from '../runners/service.js'
import { nodeDiagnostics } from './node.js'
import { routes } from './routes.js'

/** What goes on inside this node: process, runners, plugins, warnings. */
export default definePlugin({
  name: 'diagnostics',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Shows what goes on inside a node: its process, runners, plugins, telemetry and warnings.',
  after: ['runners'],
  consumes: { inspection: InspectionService, session: SessionService, telemetry: TelemetryService },
  consumesOptional: { runners: RunnersService },
  routes
}, (ctx) => {
  const loop = monitorLoop()
  ctx.effect('event loop monitor', loop.stop)
  return {
    routes: {
      telemetry: () => ctx.deps.telemetry.counters(),
      node: () => nodeDiagnostics({
        node: ctx.node,
        session: ctx.deps.session,
        inspection: ctx.deps.inspection,
        runners: ctx.deps.runners?.reports() ?? [],
        now: new Date(ctx.clock.now()).toISOString(),
        process: {
          pid: process.pid,
          uptimeSeconds: process.uptime(),
          memory: process.memoryUsage(),
          hostname: os.hostname(),
          nodeVersion: process.version
        },
        loopDelayMs: loop.read()
      })
    }
  }
})
