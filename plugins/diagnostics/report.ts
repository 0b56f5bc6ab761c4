import { readdirSync } from 'node:fs'
import os from 'node:os'
import { getHeapStatistics } from 'node:v8'
import type { Context, Inspection, LoopMonitor } from '../../kernel/index.js'
import type { CallQueue } from '../capabilities/service.js'
import type { RunnerReport } from '../runners/service.js'
import type { manifest } from './manifest.js'
import { warningsOf } from './warnings.js'

export type NodeDiagnostics = ReturnType<typeof nodeDiagnostics>

/** This node's own report. Sizes in bytes; null if the system does not report them. */
export function nodeDiagnostics (ctx: Context<typeof manifest>, loop: LoopMonitor) {
  const { node, deps: { session, inspection, calls, tracing, eventLog, ship, gossip } } = ctx
  const runners = ctx.deps.runners?.reports() ?? []
  const facts = processFacts()
  const { pid, memory } = facts
  const loopDelayMs = loop.read()
  const stores = {
    eventLog: eventLog?.status() ?? null, shipping: ship?.shipping ?? null, gossip: gossip.counters()
  }
  const heap = { heapUsedBytes: memory.heapUsed, heapLimitBytes: facts.heapLimitBytes }
  const warnings = [
    ...inspection.warnings().map((text) => ({ code: 'node_warning', text })),
    ...warningsOf({ node: node.name, runners, resources: { eventLoopDelayMs: loopDelayMs, ...heap }, stores })
  ]
  const alive = runners.filter((r) => r.pid !== null && r.processAlive)
  return {
    generatedAt: new Date(ctx.clock.now()).toISOString(),
    runtime: {
      nodeId: node.nodeId, nodeInstallId: node.installId, name: node.name, hostname: facts.hostname, pid,
      isMaster: session.isMaster, masterNodeId: session.masterNodeId, sessionId: session.sessionId,
      svcVersion: node.version, nodeVersion: facts.nodeVersion, configPath: node.configPath,
      tracingEnabled: tracing?.enabled ?? false, apiUrl: inspection.url(),
      uptimeSeconds: facts.uptimeSeconds
    },
    resources: {
      eventLoopDelayMs: loopDelayMs, rssBytes: memory.rss, ...heap, heapTotalBytes: memory.heapTotal,
      externalBytes: memory.external, arrayBuffersBytes: memory.arrayBuffers, openFiles: facts.openFiles,
      handles: facts.handles, openCommands: inspection.openCommands(),
      openStreams: inspection.openStreams(),
      dataPlane: dataPlane({ inspection, runners, queues: calls?.queues() ?? [] })
    },
    processes: [
      { pid, role: 'node', runnerId: null, rssBytes: memory.rss },
      ...alive.map(({ pid, runnerId, rssBytes }) => ({ pid: pid!, role: 'runner', runnerId, rssBytes }))
    ],
    supervisorRunners: [...runners],
    placements: runners.map(({ instanceId, runnerId, modelId }) => ({ instanceId, runnerId, modelId })),
    dials: inspection.dials(),
    plugins: inspection.plugins(),
    warnings: warnings.map(({ text }) => text),
    warningCodes: warnings.map(({ code }) => code)
  }
}

export interface DataPlaneInput {
  inspection: Pick<Inspection, 'openStreams' | 'openCommands' | 'links'>
  runners: readonly RunnerReport[]
  queues: readonly CallQueue[]
}

const sum = <T>(all: readonly T[], of: (one: T) => number): number =>
  all.reduce((total, one) => total + of(one), 0)

/** Current load of the data plane, and totals since its runners and links started. Sizes in bytes. Pure. */
export function dataPlane ({ inspection, runners, queues }: DataPlaneInput) {
  const links = inspection.links()
  return {
    openStreams: inspection.openStreams(), openCommands: inspection.openCommands(),
    callsRunning: sum(queues, ({ running }) => running),
    callsWaiting: sum(queues, ({ waiting }) => waiting),
    runnerTasks: sum(runners, ({ inProgressTasks }) => inProgressTasks.length),
    runnerTasksWaiting: sum(runners, ({ waitingTasks }) => waitingTasks),
    chunksBuffered: sum(runners, ({ chunks }) => chunks.buffered),
    bytesBuffered: sum(links, ({ buffered }) => buffered),
    chunksReceived: sum(runners, ({ chunks }) => chunks.received),
    chunksDropped: sum(runners, ({ chunks }) => chunks.dropped),
    framesIn: sum(links, ({ framesIn }) => framesIn),
    framesOut: sum(links, ({ framesOut }) => framesOut), bytesIn: sum(links, ({ bytesIn }) => bytesIn),
    bytesOut: sum(links, ({ bytesOut }) => bytesOut), links
  }
}

export type ProcessFacts = ReturnType<typeof processFacts>

/**
 * Facts about the node's process; never throws. Sizes in bytes, times in seconds. `handles`: open handles of
 * the event loop by kind; `openFiles`: null if the system does not list them.
 */
export function processFacts () {
  return {
    pid: process.pid, uptimeSeconds: process.uptime(), memory: process.memoryUsage(),
    heapLimitBytes: getHeapStatistics().heap_size_limit, hostname: os.hostname(),
    nodeVersion: process.version, handles: countByName(process.getActiveResourcesInfo()),
    openFiles: openFiles()
  }
}

export function countByName (names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1
  return counts
}

function openFiles (): number | null {
  try { return readdirSync('/proc/self/fd').length } catch { return null }
}
