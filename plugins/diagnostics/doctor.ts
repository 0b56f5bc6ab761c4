import { checkClocks, fail, isVerbError, ok, plain, showBytes, warn } from '../../kernel/cli/index.js'
import type { Check, Checker, ClockReading } from '../../kernel/cli/index.js'

/** A runner as its node reports it. */
interface Runner {
  runnerId: string
  modelId: string
  statusKind: string
  restarts: number
  inProgressTasks: string[]
  secondsInStatus: number
  secondsSinceForward: number | null
  hold?: 'files' | 'privileges' | 'none' | null
}

/** One node in the answer of GET /v1/diagnostics/cluster. */
export interface DiagnosedNode {
  name: string
  nodeId: string
  live: boolean
  error: { reason: string, message: string } | null
  clockAheadMs: number | null
  diagnostics: Insides | null
}

/** The parts of a node's diagnostics that are looked at. */
export interface Insides {
  resources: { eventLoopDelayMs?: { p99: number }, heapUsedBytes?: number, heapLimitBytes?: number }
  supervisorRunners: Runner[]
  warnings: string[]
}

/** The answer of GET /v1/diagnostics/cluster. */
export interface Diagnosis { localNodeId: string, nodes: DiagnosedNode[] }

/** An event loop later than this answers slowly, ms. */
const LATE_MS = 250
/** A heap fuller than this may run over. */
const HEAP_FULL = 0.85
/** A runner with work inside that gave nothing for this long may hang, seconds. */
const SILENT_SECONDS = 30

/** What the nodes report of their insides, and of each other's clocks. */
export default {
  async run ({ look }) {
    const diagnosis = await look<Diagnosis>('/v1/diagnostics/cluster')
    if (isVerbError(diagnosis)) return []
    const clocks = clocksOf(diagnosis)
    return [...clocks.length > 1 ? [checkClocks(clocks)] : [], ...checkDiagnosis(diagnosis)]
  }
} satisfies Checker

/** How far each node's clock is ahead, as the nodes found it over their links. */
export function clocksOf ({ nodes, localNodeId }: Diagnosis): ClockReading[] {
  return nodes.flatMap(({ name, nodeId, clockAheadMs }) => {
    const ahead = nodeId === localNodeId ? 0 : clockAheadMs
    return ahead === null ? [] : [{ name: plain(name), aheadSeconds: ahead / 1000 }]
  })
}

/** What the nodes report of their insides: runners, event loop, heap, and their own warnings. */
export function checkDiagnosis ({ nodes }: Diagnosis): Check[] {
  const found = nodes.flatMap(checkNodeInside)
  const answered = nodes.filter(({ diagnostics }) => diagnostics !== null).length
  return found.length > 0 ? found : [ok('inside the nodes', `${answered} nodes report nothing`)]
}

function checkNodeInside ({ name, live, error, diagnostics }: DiagnosedNode): Check[] {
  const node = plain(name)
  if (diagnostics === null) {
    // A node that is away has a check of its own.
    return live && error !== null
      ? [warn(`inside ${node}`, plain(error.message), 'Run `svc doctor` on that machine.')]
      : []
  }
  const { resources, supervisorRunners, warnings } = diagnostics
  return [
    ...supervisorRunners.flatMap((runner) => checkRunner(node, runner)),
    ...checkHold(node, supervisorRunners),
    ...checkProcess(node, resources),
    // Those are told above, with a command that fits.
    ...warnings.filter((text) => !/^The (runner of|event loop) /.test(text)).map((text) =>
      warn(`inside ${node}`, plain(text), `More about it: svc logs --node ${node} --level warn`))
  ]
}

function checkRunner (node: string, runner: Runner): Check[] {
  const model = plain(runner.modelId)
  const name = `runner of ${model} on ${node}`
  const logs = `svc logs --node ${node} --model ${model}`
  const times = `${runner.restarts} restart${runner.restarts === 1 ? '' : 's'}`
  if (runner.statusKind === 'RunnerFailed') {
    return [fail(name, `given up after ${times}`,
      `Why: ${logs}; then svc stop ${model} and svc place ${model}`)]
  }
  // What it gave before it got this work says nothing: it is in its status since then.
  const silent = Math.min(runner.secondsSinceForward ?? Infinity, runner.secondsInStatus)
  const stalled = runner.inProgressTasks.length > 0 && silent > SILENT_SECONDS
  return [
    ...runner.restarts > 0 ? [warn(name, times, `Why: ${logs}`)] : [],
    ...stalled
      ? [warn(name, `works on ${runner.inProgressTasks.length} requests and gave nothing for ` +
      `${Math.round(silent)} s`, `What they wait for: svc why ${runner.inProgressTasks[0]!}`)]
      : []
  ]
}

/** What runners could do that nobody asked them for. The engines parse files of strangers. */
function checkHold (node: string, runners: Runner[]): Check[] {
  const name = `runners of ${node}`
  if (runners.some(({ hold }) => hold === 'none')) {
    return [ok(name, 'they may read and do what the node may: plugins.runners.confine is off, or this ' +
      'system has no setpriv with --no-new-privs')]
  }
  if (!runners.some(({ hold }) => hold === 'privileges')) return []
  return [ok(name, 'they get no new rights, but may read what the node may: setpriv of util-linux 2.40 or ' +
    'newer and a kernel with Landlock would hold them to their files')]
}

function checkProcess (
  node: string, { eventLoopDelayMs, heapUsedBytes = 0, heapLimitBytes = Infinity }: Insides['resources']
): Check[] {
  const late = eventLoopDelayMs?.p99 ?? 0
  const full = heapUsedBytes / heapLimitBytes
  return [
    ...late > LATE_MS
      ? [warn(`event loop of ${node}`, `late by ${Math.round(late)} ms (p99): it answers slowly`,
          'Look for what keeps that machine busy: svc status, svc ps')]
      : [],
    ...full > HEAP_FULL
      ? [warn(`heap of ${node}`, `${showBytes(heapUsedBytes)} of ${showBytes(heapLimitBytes)} in use`,
          'Run `svc capture` on that machine for a report, and restart the node when it is idle.')]
      : []
  ]
}
