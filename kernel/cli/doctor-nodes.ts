import { fail, judgeDisk, ok, warn } from './doctor-host.js'
import { plain } from './output.js'
import { showBytes } from './units.js'
import type { ClockReading } from './doctor-cluster.js'
import type { State } from './cluster-view.js'
import type { Check } from './doctor-host.js'

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

/** The answer of GET /store/health, in bytes. */
export interface StoreRoom { freeBytes: number, totalBytes: number }

/** The parts of GET /store/storage about the volume, in bytes. */
export interface Volume { diskFreeBytes: number, diskTotalBytes: number }

/** The head of GET /events. */
export interface EventLogHead { mode: string, counted: number, firstIdx: number, nextIdx: number }

/** An event loop later than this answers slowly, ms. */
const LATE_MS = 250
/** A heap fuller than this may run over. */
const HEAP_FULL = 0.85
/** Less memory than this share of the machine's is little. */
const MEMORY_LITTLE = 0.05
/** A runner with work inside that gave nothing for this long may hang, seconds. */
const SILENT_SECONDS = 30

/** Models that are placed and do not answer, or wait for a place. Pure, as all here. */
export function checkModels (state: State): Check[] {
  const checks = Object.values(state.instances ?? {}).flatMap((tagged) => {
    const { modelId, nodeToRunner } = assignedIn(tagged)
    return Object.entries(nodeToRunner).map(([nodeId, runnerId]) =>
      checkRank(state, { modelId, nodeId, kind: kindOf(state.runners?.[runnerId]) }))
  })
  const waiting = Object.values(state.waitingInstances ?? {}).map(({ modelId }) =>
    warn(`model ${plain(modelId)}`, 'waits for a place', `What keeps it: svc why ${plain(modelId)}`))
  const found = [...checks.filter((check) => check.result !== 'ok'), ...waiting]
  const count = Object.keys(state.instances ?? {}).length
  return found.length > 0 || count === 0 ? found : [ok('models', `${count} placed, all runners ready`)]
}

interface Assigned { modelId: string, nodeToRunner: Record<string, string> }

function assignedIn (tagged: Record<string, unknown>): Assigned {
  const [instance] = Object.values(tagged) as { shardAssignments?: object }[]
  return { modelId: 'a model', nodeToRunner: {}, ...instance?.shardAssignments }
}

const kindOf = (status: Record<string, unknown> | undefined): string =>
  Object.keys(status ?? {})[0] ?? 'no runner'

function checkRank (state: State, rank: { modelId: string, nodeId: string, kind: string }): Check {
  const model = plain(rank.modelId)
  const name = `model ${model}`
  const message = `${rank.kind} on ${nameIn(state, rank.nodeId)}`
  if (rank.kind === 'RunnerReady' || rank.kind === 'RunnerRunning') return ok(name, message)
  const make = rank.kind === 'RunnerFailed' ? fail : warn
  return make(name, message, `What keeps it from answering: svc why ${model}`)
}

const nameIn = ({ nodeIdentities }: State, nodeId: string): string =>
  plain(nodeIdentities[nodeId]?.friendlyName ?? nodeId)

/** Nodes that are short of memory. */
export function checkPressure (state: State): Check[] {
  return Object.entries(state.nodeMemory ?? {}).flatMap(([nodeId, memory]) => {
    if (memory === null) return []
    const [free, total] = [memory.ramAvailable.inBytes, memory.ramTotal.inBytes]
    if (free >= total * MEMORY_LITTLE) return []
    return [warn(`memory of ${nameIn(state, nodeId)}`, `${showBytes(free)} free of ${showBytes(total)}`,
      'See what is loaded there and stop what nobody needs: svc ps, svc stop MODEL')]
  })
}

/** Room in the store. */
export function checkStore ({ freeBytes, totalBytes }: StoreRoom): Check {
  return judgeDisk(freeBytes, totalBytes, { name: 'store', remedy:
    'Remove models from the store that nobody needs (svc ls, svc rm MODEL), or give it a larger disk.' })
}

/** Room where the asked node stages models. */
export function checkVolume ({ diskFreeBytes, diskTotalBytes }: Volume): Check {
  return judgeDisk(diskFreeBytes, diskTotalBytes,
    { name: 'staging disk', remedy: 'Remove staged copies that are not in use: svc purge' })
}

/** Whether what happens is written down. */
export function checkEventLog ({ mode, counted, firstIdx, nextIdx }: EventLogHead): Check {
  const kept = `events ${firstIdx} to ${nextIdx - 1} are kept`
  if (mode === 'normal') return ok('event log', nextIdx <= firstIdx ? 'no events yet' : kept)
  if (mode === 'counting-only') {
    return fail('event log', `events are only counted, not written (${counted} so far): the disk is full`,
      'Free space on the volume of the home; with 2.5 GiB free it ends by itself: svc purge')
  }
  return warn('event log', `${plain(mode)}: ${kept}`, 'Its log says why: svc logs --grep "event log"')
}

/** How far each node's clock is ahead, as the nodes found it over their links; empty without that. */
export function clocksOf (diagnosis: Diagnosis | null): ClockReading[] {
  return (diagnosis?.nodes ?? []).flatMap(({ name, nodeId, clockAheadMs }) => {
    const ahead = nodeId === diagnosis?.localNodeId ? 0 : clockAheadMs
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
