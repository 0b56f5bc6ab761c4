import { count, fail, isVerbError, ok, plain, showBytes, warn } from '../../../kernel/cli/index.js'
import type { Check, Checker } from '../../../kernel/cli/index.js'
import type { RunnerReport } from '../../runners/service.js'
import { checkClocks } from './cluster.js'
import type { ClockReading } from './cluster.js'

type Runner = Pick<RunnerReport, 'runnerId' | 'modelId' | 'statusKind' | 'restarts' | 'inProgressTasks' |
  'secondsInStatus' | 'secondsSinceForward'>

export interface DiagnosedNode {
  name: string
  nodeId: string
  live: boolean
  error: { reason: string, message: string } | null
  clockAheadMs: number | null
  diagnostics: NodeDiagnostics | null
}

/** Fields of a node's diagnostics that `svc doctor` reads. */
export interface NodeDiagnostics {
  resources: { eventLoopDelayMs?: { p99: number }, heapUsedBytes?: number, heapLimitBytes?: number }
  supervisorRunners: Runner[]
  warnings: string[]
  /** Codes of the warnings, by position; older nodes do not send them. */
  warningCodes?: string[]
}

export interface Diagnosis { localNodeId: string, nodes: DiagnosedNode[] }

/** Event loop delay in ms above which the node is reported as slow. */
const SLOW_LOOP_MS = 250
/** Seconds without output after which a runner with tasks is reported, because it may be stuck. */
const SILENT_SECONDS = 30
/** From this number of restarts on, a runner counts as crashing repeatedly. */
const RESTARTS_MANY = 3
/** Fraction of the heap limit above which the process may run out of memory. */
const HEAP_FULL = 0.85
/** Warnings to skip: the node words a check below, or they are about the past. */
const TOLD = new Set([
  'loop_was_late', 'heap_full', 'runner_failed', 'runner_restarted', 'runner_restarts', 'runner_silent',
  'log_shipping_back'
])

/** Warnings about past faults, reported as ok: chunks that a runner sent after their request ended. */
const DONE = new Set(['chunks_dropped'])
const REMEDIES: Readonly<Record<string, string | undefined>> = {
  log_shipping_failed: 'Start the server at that address, or set another with ' +
    '`svc config set logging.ingest_url URL` and restart the node.',
  event_log_counting: 'Free disk space: `svc purge` removes staged copies that are not in use.'
}

/** Checks built from the nodes' reports about their processes and each other's clocks. */
export default {
  async run ({ look }) {
    const diagnosis = await look<Diagnosis>('/v1/diagnostics/cluster')
    if (isVerbError(diagnosis)) return []
    return [checkClocks(clocksOf(diagnosis)), ...checkDiagnosis(diagnosis)]
  }
} satisfies Checker

/** By how much each node's clock is ahead of the local node's, measured over links. */
export function clocksOf ({ nodes, localNodeId }: Diagnosis): ClockReading[] {
  return nodes.flatMap(({ name, nodeId, clockAheadMs }) => {
    const ahead = nodeId === localNodeId ? 0 : clockAheadMs
    return ahead === null ? [] : [{ name: plain(name), aheadSeconds: ahead / 1000 }]
  })
}

export function checkDiagnosis ({ nodes }: Diagnosis): Check[] {
  const found = nodes.flatMap(checkNodeInside)
  const answered = nodes.filter(({ diagnostics }) => diagnostics !== null).length
  return found.length > 0 ? found : [ok('inside the nodes', `no problem at ${count(answered, 'node')}`)]
}

function checkNodeInside ({ name, live, error, diagnostics }: DiagnosedNode): Check[] {
  const node = plain(name)
  if (diagnostics === null) {
    // Skip nodes that are not live, since another check reports them.
    return live && error !== null
      ? [warn(`inside ${node}`, plain(error.message), 'Run `svc doctor` on that machine.',
          { code: 'node_silent', about: [node] })]
      : []
  }
  const { resources, supervisorRunners, warnings, warningCodes = [] } = diagnostics
  return [
    ...supervisorRunners.flatMap((runner) => checkRunner(node, runner)),
    ...checkProcess(node, resources),
    ...warnings.flatMap((text, i) => {
      const code = warningCodes[i] ?? 'node_warning'
      if (TOLD.has(code)) return []
      const about = { code, about: [node] }
      if (DONE.has(code)) return [ok(`inside ${node}`, plain(text), about)]
      return [warn(`inside ${node}`, plain(text),
        REMEDIES[code] ?? `Details: \`svc logs --node ${node} --level warn\`.`, about)]
    })
  ]
}

export function checkRunner (node: string, runner: Runner): Check[] {
  const model = plain(runner.modelId)
  const name = `runner of ${model} on ${node}`
  const logs = `\`svc logs --node ${node} --model ${model}\``
  const about = [model, node]
  const times = `${runner.restarts} restart${runner.restarts === 1 ? '' : 's'}`
  if (runner.statusKind === 'RunnerFailed') {
    return [fail(name, `given up after ${times}`,
      `Find the cause: ${logs}; then \`svc stop ${model}\` and \`svc place ${model}\`.`,
      { code: 'runner_failed', about })]
  }
  const tasks = runner.inProgressTasks
  // The status changes when a task begins, so output before that does not count.
  const silent = Math.min(runner.secondsSinceForward ?? Infinity, runner.secondsInStatus)
  return [
    ...checkRestarts(name, runner, { logs, about }),
    ...tasks.length > 0 && silent > SILENT_SECONDS
      ? [warn(name, `works on ${tasks.length} requests, without output for ${Math.round(silent)} s`,
          `Find the cause: \`svc why ${tasks[0]!}\`.`, { code: 'runner_silent', about })]
      : []
  ]
}

/** A runner that crashed once and runs again is not a fault; repeated crashes are. */
function checkRestarts (
  name: string, { restarts, statusKind }: Runner, { logs, about }: { logs: string, about: string[] }
): Check[] {
  if (restarts === 0) return []
  const times = `${restarts} restart${restarts === 1 ? '' : 's'}`
  const well = statusKind === 'RunnerReady' || statusKind === 'RunnerRunning'
  return well && restarts < RESTARTS_MANY
    ? [ok(name, `${times}; it is ready again`, { code: 'runner_restarted', about })]
    : [warn(name, times, `Why: ${logs}.`, { code: 'runner_restarts', about })]
}

export function checkProcess (
  node: string,
  { eventLoopDelayMs, heapUsedBytes = 0, heapLimitBytes = Infinity }: NodeDiagnostics['resources']
): Check[] {
  const late = eventLoopDelayMs?.p99 ?? 0
  const full = heapUsedBytes / heapLimitBytes
  return [
    ...late > SLOW_LOOP_MS
      // Only informative: the node reports a slow loop itself, and this p99 covers the time since its start.
      ? [ok(`event loop of ${node}`, `delayed by up to ${Math.round(late)} ms (p99 since its start)`,
          { code: 'loop_was_late', about: [node] })]
      : [],
    ...full > HEAP_FULL
      ? [warn(`heap of ${node}`, `${showBytes(heapUsedBytes)} of ${showBytes(heapLimitBytes)} in use`,
          'Run `svc capture` on that machine for a report, and restart the node when it is idle.',
          { code: 'heap_full', about: [node] })]
      : []
  ]
}
