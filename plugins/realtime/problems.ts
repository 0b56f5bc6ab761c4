/** Errors in the form of OpenAI's events, and calls that outlive a lost instance. */
import { delay, EngineError, kernelError, SvcError } from '../../kernel/index.js'
import type { Caller, CapabilityCall, Clock, Logger, Trace } from '../../kernel/index.js'

/** Error for a part of svc that is switched off. */
export const pluginOff = (what: string, plugin: string): SvcError => kernelError('plugin_disabled',
  `${what} needs the plugin ${plugin}, which is off.`, { remedy: `\`svc plugin enable ${plugin}\`.` })

interface ErrorFields { type: string, code: string, message: string, param: string | null }

/** An error in the form of OpenAI's events; an unexpected cause is only logged. */
export function errorFields (error: unknown, log: Logger): ErrorFields {
  if (!(error instanceof SvcError || error instanceof EngineError)) {
    log.error({ err: error }, 'a part of a realtime session failed')
    return { type: 'server_error', code: 'provider_error', param: null,
      message: 'A part of the session failed; the node\'s log has the cause.' }
  }
  const { reason, message, details } = error
  const isBad = error instanceof SvcError ? error.status < 500 : true
  const { remedy: then, code = reason } = details as { remedy?: string, code?: string }
  // The remedy of bad fields names details, which events do not have.
  const remedy = then === undefined || reason === 'invalid_request' ? '' : ` ${then}`
  return {
    type: isBad ? 'invalid_request_error' : 'server_error', code, message: message + remedy,
    param: typeof details['param'] === 'string' ? details['param'] : null
  }
}

/** Milliseconds that a part which was lost gets to be replaced, and between two attempts. */
const PATIENCE_MS = 20_000
const PAUSE_MS = 300

/** True if an instance was lost, or is being replaced. */
export const isReplaceable = (error: unknown): boolean => error instanceof SvcError && error.retryable &&
  ['instance_lost', 'no_instance', 'not_ready', 'unreachable'].includes(error.reason)

/** Runs `work` again while its instance is being replaced. `work` must be repeatable until it throws. */
export async function patiently<T> (
  clock: Clock, signal: AbortSignal, work: () => Promise<T>, isRepeatable = (): boolean => true
): Promise<T> {
  const until = clock.mono() + PATIENCE_MS
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (signal.aborted || !isReplaceable(error) || !isRepeatable() || clock.mono() > until) throw error
      await delay(clock, PAUSE_MS, signal)
    }
  }
}

/** A call of another plugin's service for a client of the socket. */
export const callOf = (
  caller: Caller, signal: AbortSignal, commandId: string, trace?: Trace
): CapabilityCall => ({
  callId: commandId, commandId, caller, signal, retry: true, chunks: NONE, input: NONE, setHeader () {}, trace
})
const NONE = { async * [Symbol.asyncIterator] (): AsyncGenerator<never> {} }
