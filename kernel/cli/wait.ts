import { setTimeout as sleep } from 'node:timers/promises'
import { CliError, exitCodes, interrupted } from './errors.js'

/** Pause between two attempts, ms. */
const PAUSE_MS = 250

export interface WaitOptions {
  /** Longest time to go on trying, seconds. */
  seconds: number
  signal: AbortSignal
  /** Whether trying again makes sense. */
  again (error: CliError): boolean | Promise<boolean>
  /** Called before each new attempt with what the last one said. */
  onWait? (error: CliError): void
}

/** Tries until it works, the time is up or the error is final; then throws the last error. */
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

/** True for answers that say the node is starting or busy, and for no answer at all. */
export function notYet (error: CliError): boolean {
  const silent = error.exitCode === exitCodes.unreachable && error.status === undefined
  return silent || error.exitCode === exitCodes.notReady
}
