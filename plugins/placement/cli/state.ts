import { plain, type NamedNodes, type WaitClock, type VerbContext } from '../../../kernel/cli/index.js'
import { loadingText, STATUS_TEXT, type LoadProgress } from '../../runners/service.js'
import type { InstanceStates, RankProgress } from '../progress/progress.js'

export { nameOf } from '../../../kernel/cli/index.js'

export interface RunnerMemory {
  residentBytes: number | null
  vramBytes?: number | null
  estimatedBytes: number | null
}

/** The fields of GET /state that these verbs read. */
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

/** Milliseconds between two state fetches. */
const POLL_MS = 500

/**
 * Polls until the count from `left` is 0 or the `--wait` time has passed; resolves to the last count. Throws
 * VerbError (130) at Ctrl-C.
 */
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

const RANK_TEXT: Readonly<Record<string, string>> = {
  ...STATUS_TEXT,
  RunnerFailed: 'failed; will be retried',
  DownloadPending: 'waiting for its files',
  DownloadOngoing: 'copying its files'
}

export function rankText ({ state, detail, waitsFor }: RankProgress): string {
  if (state === 'RunnerIdle' && waitsFor !== null) {
    const { message, since, tries, nextTryAt } = waitsFor
    const told = `waiting since ${since}: ${message}`
    return plain(nextTryAt === undefined ? told : `${told}. Tried ${tries} times, next try at ${nextTryAt}`)
  }
  const words = plain(RANK_TEXT[state] ?? state)
  const { downloadProgress, ...progress } = detail as
    Partial<LoadProgress> & { downloadProgress?: Record<string, number> }
  if (progress.layersLoaded !== undefined) return loadingText(progress as LoadProgress)
  const { total = 0, downloaded = 0 } = downloadProgress ?? {}
  return total > 0 ? `${words} (${Math.floor(downloaded / total * 100)}%)` : words
}
