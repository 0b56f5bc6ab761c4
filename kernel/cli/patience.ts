import type { CliError } from './errors.js'
import type { VerbContext } from './verb.js'

/** Seconds to wait for a node that is still starting when `--wait` is not given. */
const STARTING_SECONDS = 30

/**
 * Tries again while the node starts, and with `--wait` until the model is ready; not once `begun` says that
 * an answer has begun, or that nobody waits for it. Throws the last error.
 */
export async function patiently<T> (
  ctx: VerbContext, begun: () => boolean, attempt: () => Promise<T>
): Promise<T> {
  return await ctx.retry({
    seconds: ctx.wait ?? STARTING_SECONDS,
    again: async (error) => !begun() && await worthWaiting(ctx, error),
    onWait: (error) => { ctx.err.update(`waiting: ${error.message.split('\n')[0]!}`) }
  }, attempt)
}

/** What is answered while what is asked for is not there yet. */
const ABSENT: readonly unknown[] = ['no_instance', 'capability_not_found']

/**
 * Waiting helps while the node starts: nothing answers (only with --wait), it says "not ready", or the model
 * is not there yet and not everything set to start by itself is ready.
 */
async function worthWaiting (ctx: VerbContext, error: CliError): Promise<boolean> {
  if (error.status === undefined) return ctx.wait !== undefined && ctx.notYet(error)
  if (ctx.notYet(error)) return true
  if (!ABSENT.includes(error.api?.reason)) return false
  return ctx.wait !== undefined || !await ctx.client.json('/readyz').then(() => true, () => false)
}
