import { plain } from '../../../kernel/cli/index.js'
import type { NamedNodes, WaitClock, VerbContext } from '../../../kernel/cli/index.js'
import type { InstanceStates, RankProgress } from '../progress/progress.js'

export { nameOf } from '../../../kernel/cli/index.js'

/** Bytes of one runner; null where nothing tells. */
export interface RunnerMemory {
  residentBytes: number | null
  /** On GPUs; absent from nodes of earlier releases. */
  vramBytes?: number | null
  estimatedBytes: number | null
}

/** GET /state, as far as the verbs about instances read it. */
export interface SeenState extends InstanceStates, NamedNodes {
  nodeSystem?: Record<string, { runnerMemory?: Record<string, RunnerMemory> } | null>
  tasks?: Record<string, { Inference?: SeenTask }>
}

export interface SeenTask {
  taskId: string
  commandId: string
  instanceId: string
  modelId: string
  capability: string
  status: string
  createdAt: string
}

export function queueOf (
  { tasks = {} }: Pick<SeenState, 'tasks'>, counts: (task: SeenTask) => boolean
): { waiting: number, running: number } {
  const count = (status: string): number => Object.values(tasks).filter(({ Inference: task }) =>
    task !== undefined && task.status === status && counts(task)).length
  return { waiting: count('Pending'), running: count('Running') }
}

/** Pause between two looks at the state, ms. */
const POLL_MS = 500

/** Waits for `left` to be 0, for the seconds of --wait at most; resolves to it. Throws VerbError (130). */
export async function waitUntilZero (
  ctx: VerbContext, pace: WaitClock, left: (state: SeenState) => number, goesOn: string
): Promise<number> {
  const until = pace.mono() + (ctx.wait ?? 0) * 1000
  for (;;) {
    const found = left(await ctx.client.json<SeenState>('/state'))
    if (found === 0 || pace.mono() >= until) return found
    await pace.pause(POLL_MS, ctx.signal)
    if (ctx.signal.aborted) throw ctx.fail(130, `interrupted; ${goesOn}`)
  }
}

export const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`

const WORDS: Readonly<Record<string, string>> = {
  RunnerIdle: 'waits for its runner',
  RunnerConnecting: 'connects',
  RunnerConnected: 'connected',
  RunnerLoading: 'loads',
  RunnerLoaded: 'loaded',
  RunnerWarmingUp: 'warms up',
  RunnerReady: 'ready',
  RunnerRunning: 'ready',
  RunnerShuttingDown: 'shuts down',
  RunnerShutdown: 'shut down',
  RunnerFailed: 'failed; it is tried again',
  DownloadPending: 'waits for its files',
  DownloadOngoing: 'copies its files'
}

export function rankText ({ state, detail, waitsFor }: RankProgress): string {
  if (state === 'RunnerIdle' && waitsFor !== null) {
    const { message, since, tries, nextTryAt } = waitsFor
    const told = `waits since ${since}: ${message}`
    return plain(nextTryAt === undefined ? told : `${told}. Tried ${tries} times, next at ${nextTryAt}`)
  }
  const words = plain(WORDS[state] ?? state)
  const { layersLoaded, totalLayers, downloadProgress } = detail as
    { layersLoaded?: number, totalLayers?: number, downloadProgress?: Record<string, number> }
  if (layersLoaded !== undefined) return `${words} (${layersLoaded} of ${totalLayers})`
  const { total = 0, downloaded = 0 } = downloadProgress ?? {}
  return total > 0 ? `${words} (${Math.floor(downloaded / total * 100)}%)` : words
}
