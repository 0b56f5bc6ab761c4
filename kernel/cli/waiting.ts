import { setTimeout as sleep } from 'node:timers/promises'
import { systemClock } from '../api/clock.js'
import { serverEvents, type ServerEvent } from '../http/event-stream-parser.js'
import { CliError, exitCodes, interrupted } from './errors.js'
import type { VerbContext, WaitOptions } from './verb.js'

/** Milliseconds between two attempts. */
const PAUSE_MS = 250

/** Retries until success, the time limit or a final error. Throws the last error. */
export async function retryFor<T> (options: WaitOptions, attempt: () => Promise<T>): Promise<T> {
  const until = performance.now() + options.seconds * 1000
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      if (!(error instanceof CliError) || performance.now() >= until) throw error
      if (!await options.again(error)) throw error
      options.onWait?.(error)
    }
    await sleep(PAUSE_MS, undefined, { signal: options.signal }).catch(() => { throw interrupted() })
  }
}

/** True for errors from a starting or busy node, and for a missing answer. */
export function isRetryable (error: CliError): boolean {
  const silent = error.exitCode === exitCodes.unreachable && error.status === undefined
  return silent || error.exitCode === exitCodes.notReady
}

/** Seconds to wait for a starting node if `--wait` is not given. */
const STARTING_SECONDS = 30

/**
 * Retries while the node starts and, with `--wait`, until the model is ready. Stops once `begun`: an answer
 * has begun, or the user no longer reads it. Throws the last error.
 */
export async function retryUntil<T> (
  ctx: VerbContext, begun: () => boolean, attempt: () => Promise<T>
): Promise<T> {
  return await ctx.retry({
    seconds: ctx.wait ?? STARTING_SECONDS,
    again: async (error) => !begun() && await worthWaiting(ctx, error),
    onWait: (error) => { ctx.err.update(`waiting: ${error.message.split('\n')[0]!}`) }
  }, attempt)
}

const ABSENT: readonly unknown[] = ['no_instance', 'capability_not_found']

/**
 * Whether waiting may help: no answer (only with --wait), "not ready", or a missing model while
 * models that start automatically are not all ready.
 */
async function worthWaiting (ctx: VerbContext, error: CliError): Promise<boolean> {
  if (error.status === undefined) return ctx.wait !== undefined && ctx.notYet(error)
  if (ctx.notYet(error)) return true
  if (!ABSENT.includes(error.api?.reason)) return false
  return ctx.wait !== undefined || !await ctx.client.json('/readyz').then(() => true, () => false)
}

export interface WaitClock {
  /** Resolves after `ms`, or earlier on abort. Keeps the process alive. */
  pause (ms: number, signal: AbortSignal): Promise<void>
  mono (): number
}

export const realPace: WaitClock = {
  // The clock's own timers do not keep the process alive.
  pause: (ms, signal) => sleep(ms, undefined, { signal }).catch(() => {}),
  mono: systemClock.mono
}

/** Milliseconds without progress before a wait fails; more than the 300 s that a warm-up may take. */
export const NO_PROGRESS_MS = 360_000

/** Returns a function that tests whether no new text has been shown for NO_PROGRESS_MS. */
export function stallDetector (pace: Pick<WaitClock, 'mono'>): (shown: string) => boolean {
  const seen = new Set<string>()
  let since = pace.mono()
  return (shown) => {
    if (!seen.has(shown)) since = pace.mono()
    seen.add(shown)
    return pace.mono() - since >= NO_PROGRESS_MS
  }
}

/** Milliseconds for which a broken event stream is retried. */
const RETRY_MS = 60_000
/** Exit statuses after which a stream is reopened: broken off, no answer (yet), or not ready. */
const PASSING = [1, 4, 7]

/**
 * Follows server-sent events until Ctrl-C; after a failure, reopens the stream at `path()`. Throws CliError
 * if the node is away for longer than RETRY_MS, or at the beginning for longer than --wait.
 */
export async function followEvents (
  ctx: VerbContext, path: () => string, take: (event: Extract<ServerEvent, { kind: 'event' }>) => void
): Promise<void> {
  let heardAt = ctx.wait === undefined ? -Infinity : systemClock.mono() + ctx.wait * 1000 - RETRY_MS
  await ctx.retry({
    seconds: Infinity,
    again: (error) => PASSING.includes(error.exitCode) && systemClock.mono() - heardAt < RETRY_MS,
    onWait: (error) => { ctx.err.update(`${error.message.split('\n')[0]!}; trying again`) }
  }, async () => {
    const answer = await ctx.client.open(path(), { accept: 'text/event-stream' })
    for await (const event of serverEvents(answer.bytes)) {
      heardAt = systemClock.mono()
      if (event.kind === 'event') take(event)
    }
    throw ctx.fail(1, `the node at ${ctx.client.url} ended the stream`)
  })
}
