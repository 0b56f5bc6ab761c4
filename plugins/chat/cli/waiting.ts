import type { VerbContext } from '../../../kernel/index.js'
import type { VerbError } from './api.js'

/** Seconds to wait for a node that is still starting when `--wait` is not given. */
const STARTING_SECONDS = 30

/**
 * Tries again while the node starts, and with `--wait` until the model is ready; not once the signal
 * aborts. What has begun fails with an error that is not tried again. Throws the last error.
 */
export async function patiently<T> (
  ctx: VerbContext, signal: AbortSignal, attempt: () => Promise<T>
): Promise<T> {
  return await ctx.retry({
    seconds: ctx.wait ?? STARTING_SECONDS,
    again: async (error) => !signal.aborted && await worthWaiting(ctx, error),
    onWait: (error) => { ctx.err.update(`waiting: ${error.message.split('\n')[0]!}`) }
  }, attempt)
}

/**
 * Waiting helps while the node starts: nothing answers (only with --wait), it says "not ready", or the model
 * is not there yet and not everything set to start by itself is ready.
 */
async function worthWaiting (ctx: VerbContext, error: VerbError): Promise<boolean> {
  if (error.status === undefined) return ctx.wait !== undefined && ctx.notYet(error)
  if (ctx.notYet(error)) return true
  if (error.api?.reason !== 'no_instance') return false
  return ctx.wait !== undefined || !await ctx.client.json('/readyz').then(() => true, () => false)
}
