import { waitsFor } from '../progress/progress.js'
import type { Progress } from '../progress/progress.js'
import { plain } from '../../../kernel/cli/index.js'
import { bodyOf } from '../../runners/service.js'
import { Follower } from '../progress/follow.js'
import { nameOf } from './api.js'
import type { Pace, VerbContext } from '../../../kernel/cli/index.js'
import type { SeenState } from './api.js'

/** Pause between two looks at the state, ms. */
const POLL_MS = 500
/** How long a node that went away in the middle of a wait is asked again, seconds. */
const RETURN_SECONDS = 60

/** What is waited for. */
export interface Watched { instanceId: string, attempts: ReadonlySet<string>, limitMs: number }

/** How it ended, and under which id: an instance that is placed anew has another one. */
export interface Seen { progress: Progress, instanceId: string }

/**
 * Shows how far the instance is until it is ready, has failed for good or is gone, or the time is up. Where
 * it is lost and placed anew it goes on with the one in its place.
 */
export async function watch (
  ctx: VerbContext, pace: Pace, { instanceId, attempts, limitMs }: Watched
): Promise<Seen> {
  const began = pace.mono()
  const follower = new Follower(instanceId, attempts, began)
  let shown = ''
  let at = instanceId
  for (;;) {
    const state = await ask(ctx)
    const now = pace.mono()
    const { progress, over } = follower.look(state, now)
    if (over || now - began >= limitMs || ctx.signal.aborted) {
      ctx.err.end()
      return { progress, instanceId: follower.instanceId }
    }
    if (follower.instanceId !== at && 'instance' in progress) {
      at = follower.instanceId
      ctx.err.line(`it is placed anew, as ${at}`)
    }
    const text = textOf(state, progress)
    if (text !== shown) {
      shown = text
      if (ctx.io.stderr.isTTY === true) ctx.err.update(text)
      else ctx.err.line(text)
    }
    await pace.pause(POLL_MS, ctx.signal)
  }
}

async function ask (ctx: VerbContext): Promise<SeenState> {
  return await ctx.retry({
    seconds: RETURN_SECONDS,
    again: ctx.notYet,
    onWait: (error) => { ctx.err.update(`${error.message.split('\n')[0]!}; asking again`) }
  }, () => ctx.client.json<SeenState>('/state'))
}

function textOf (state: SeenState, progress: Progress): string {
  switch (progress.kind) {
    case 'starting': return ranksText(state, progress)
    case 'failed': return plain(`failed: ${progress.message}`)
    case 'waiting': return plain(`waits for a node: ${progress.entry.message}`)
    case 'draining': return 'is being stopped'
    case 'ready': return 'ready'
    case 'gone': return 'waiting for the cluster'
  }
}

function ranksText (state: SeenState, { instance, ranks }: Progress & { kind: 'starting' }): string {
  const { modelId, nodeToRunner } = bodyOf(instance).shardAssignments
  return ranks.map((rank) => {
    const runner = state.runners[nodeToRunner[rank.nodeId] ?? '']
    return `${nameOf(state, rank.nodeId)}: ${plain(stateText(state, rank, runner, modelId))}`
  }).join('; ')
}

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

/** A state of a rank in words, with how far it is. */
export function stateText (
  state: SeenState, { nodeId, state: kind }: { nodeId: string, state: string },
  runner: Record<string, unknown> | undefined, modelId: string
): string {
  const words = WORDS[kind] ?? kind
  const waits = kind === 'RunnerIdle' ? waitsFor(runner) : null
  if (waits !== null) {
    const { message, since, tries, nextTryAt } = waits
    const told = `waits since ${since}: ${message}`
    return nextTryAt === undefined ? told : `${told}. Tried ${tries} times, next at ${nextTryAt}`
  }
  if (kind === 'RunnerLoading') {
    const { layersLoaded, totalLayers } = (runner?.[kind] ?? {}) as Record<string, number>
    return layersLoaded === undefined ? words : `${words} (${layersLoaded} of ${totalLayers})`
  }
  if (kind !== 'DownloadOngoing') return words
  const copy = (state.downloads[nodeId] ?? []).map((one) => one[kind]).find((one) => one?.modelId === modelId)
  const { total = 0, downloaded = 0 } = (copy as { downloadProgress?: Record<string, number> } | undefined)
    ?.downloadProgress ?? {}
  return total > 0 ? `${words} (${Math.floor(downloaded / total * 100)}%)` : words
}
