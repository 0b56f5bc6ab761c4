import type {
  CallQueue, DialReport, Inspection, NodeInfo, PluginReport, Session
} from '../../kernel/index.js'
import type { RunnerReport } from '../runners/service.js'
import { dataPlane } from './data-plane.js'
import type { ProcessFacts } from './process-facts.js'
import { warningsOf } from './warnings.js'
import type { Stores } from './warnings.js'

/** What the report is made of. */
export interface DiagnosticsInput {
  node: NodeInfo
  session: Session
  inspection: Inspection
  runners: readonly RunnerReport[]
  /** Capability calls that run and wait. */
  queues: readonly CallQueue[]
  /** ISO-8601. */
  now: string
  process: ProcessFacts
  loopDelayMs: { p50: number, p99: number, max: number }
  tracingEnabled: boolean
  /** How what is kept on disk or shipped is doing; null where nothing is. */
  stores: Stores
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
  const { inspection, runners, process: { pid, memory } } = input
  const alive = runners.filter((r) => r.pid !== null && r.processAlive)
  return {
    generatedAt: input.now,
    runtime: runtimeOf(input),
    resources: resourcesOf(input),
    processes: [
      { pid, role: 'node', runnerId: null, rssBytes: memory.rss },
      ...alive.map(({ pid, runnerId, rssBytes }): ProcessReport =>
        ({ pid: pid!, role: 'runner', runnerId, rssBytes }))
    ],
    supervisorRunners: [...runners],
    placements: runners.map(({ instanceId, runnerId, modelId }) => ({ instanceId, runnerId, modelId })),
    dials: inspection.dials(),
    plugins: inspection.plugins(),
    warnings: [...inspection.warnings(), ...warningsOf(input)]
  }
}

function runtimeOf (input: DiagnosticsInput): Record<string, unknown> {
  const { node, session, inspection, process, tracingEnabled } = input
  return {
    nodeId: node.nodeId,
    nodeInstallId: node.installId,
    name: node.name,
    hostname: process.hostname,
    pid: process.pid,
    isMaster: session.isMaster,
    masterNodeId: session.masterNodeId,
    sessionId: session.sessionId,
    svcVersion: node.version,
    nodeVersion: process.nodeVersion,
    configPath: node.configPath,
    tracingEnabled,
    apiUrl: inspection.url(),
    uptimeSeconds: process.uptimeSeconds
  }
}

function resourcesOf ({ process, loopDelayMs, inspection, runners, queues }: DiagnosticsInput):
Record<string, unknown> {
  const { memory } = process
  return {
    eventLoopDelayMs: loopDelayMs,
    rssBytes: memory.rss,
    heapUsedBytes: memory.heapUsed,
    heapTotalBytes: memory.heapTotal,
    heapLimitBytes: process.heapLimitBytes,
    externalBytes: memory.external,
    arrayBuffersBytes: memory.arrayBuffers,
    openFiles: process.openFiles,
    handles: process.handles,
    openCommands: inspection.openCommands(),
    openStreams: inspection.openStreams(),
    dataPlane: dataPlane({ inspection, runners, queues })
  }
}
