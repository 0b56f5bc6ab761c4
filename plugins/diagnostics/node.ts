import type { DialReport, Inspection, NodeInfo, PluginReport, Session } from '../../kernel/index.js'
import type { RunnerReport } from '../runners/service.js'

/** What the report is made of. */
export interface DiagnosticsInput {
  node: NodeInfo
  session: Session
  inspection: Inspection
  runners: readonly RunnerReport[]
  /** ISO-8601. */
  now: string
  process: {
    pid: number
    uptimeSeconds: number
    memory: NodeJS.MemoryUsage
    hostname: string
    nodeVersion: string
  }
  loopDelayMs: { p50: number, p99: number, max: number }
}

/** A process of this node. Bytes; null where the system does not say. */
export interface ProcessReport {
  pid: number
  role: 'node' | 'runner'
  runnerId: string | null
  rssBytes: number | null
}

/** The answer of GET /v1/diagnostics/node. */
export interface NodeDiagnostics {
  generatedAt: string
  runtime: Record<string, unknown>
  resources: Record<string, unknown>
  processes: ProcessReport[]
  supervisorRunners: RunnerReport[]
  placements: { instanceId: string, runnerId: string, modelId: string }[]
  /** Addresses at which members were looked for, each with why it failed. */
  dials: readonly DialReport[]
  plugins: PluginReport[]
  warnings: string[]
}

/** Puts the report together; never a prompt, a text or a secret. Pure. */
export function nodeDiagnostics (input: DiagnosticsInput): NodeDiagnostics {
  const { node, session, inspection, runners } = input
  const alive = runners.filter((r) => r.pid !== null && r.processAlive)
  return {
    generatedAt: input.now,
    runtime: {
      nodeId: node.nodeId,
      nodeInstallId: node.installId,
      hostname: input.process.hostname,
      pid: input.process.pid,
      isMaster: session.isMaster,
      masterNodeId: session.masterNodeId,
      sessionId: session.sessionId,
      svcVersion: node.version,
      nodeVersion: input.process.nodeVersion,
      configPath: node.configPath,
      tracingEnabled: false,
      apiUrl: inspection.url(),
      uptimeSeconds: input.process.uptimeSeconds
    },
    resources: {
      eventLoopDelayMs: input.loopDelayMs,
      heapUsedBytes: input.process.memory.heapUsed,
      externalBytes: input.process.memory.external,
      openCommands: inspection.openCommands(),
      openStreams: inspection.openStreams()
    },
    processes: [
      { pid: input.process.pid, role: 'node', runnerId: null, rssBytes: input.process.memory.rss },
      ...alive.map(({ pid, runnerId, rssBytes }): ProcessReport =>
        ({ pid: pid!, role: 'runner', runnerId, rssBytes }))
    ],
    supervisorRunners: [...runners],
    placements: runners.map(({ instanceId, runnerId, modelId }) => ({ instanceId, runnerId, modelId })),
    dials: inspection.dials(),
    plugins: inspection.plugins(),
    warnings: inspection.warnings()
  }
}
