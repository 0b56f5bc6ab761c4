import { randomUUID } from 'node:crypto'
import { backoffMs, delay, kernelError, SvcError } from '../../kernel/cluster.js'
import type { Clock, ClusterCommands, Logger } from '../../kernel/cluster.js'
import type { Outcome, CommandReceipt, Refusal } from './election/protocol.js'

type CommandHandler = Parameters<ClusterCommands['handle']>[1]

export interface CommandAnswer { readonly result: unknown, readonly receipt: CommandReceipt }

export interface CommandRouterOptions {
  clock: Clock
  log: Logger
  submit: (id: string, payload: unknown) => Promise<Outcome>
  /** Whether too few nodes are reachable for a quorum. */
  quorumLost: () => boolean
}

interface Payload { readonly name: string, readonly args: unknown }
interface ErrorParts {
  code?: string, reason: string | undefined, status: number, retryable: boolean, message: string
  details: Record<string, unknown>
}
type Result = { readonly value: unknown } | { readonly error: ErrorParts }

/** Time limit in ms for retries of a command under the same id. */
const TRY_MS = 10_000
/** Backoff between attempts, because immediate refusals would otherwise cause a busy loop. */
const PAUSE = { minMs: 20, maxMs: 1000 }
/** Refusals after which the command may be retried with the same id: it runs at most once. */
const AGAIN: ReadonlySet<Refusal> = new Set(['session_changed', 'stale_session', 'no_answer'])

/** Commands that any node can send; the master runs each once and applies all its writes atomically. */
export class CommandRouter implements ClusterCommands {
  readonly #handlers = new Map<string, CommandHandler>()
  readonly #options: CommandRouterOptions
  #writes: Map<string, unknown> | null = null

  constructor (options: CommandRouterOptions) { this.#options = options }

  /** Throws if the name has a handler already. */
  handle (name: string, handler: CommandHandler): () => void {
    if (this.#handlers.has(name)) throw new Error(`the command "${name}" has a handler already`)
    this.#handlers.set(name, handler)
    return () => { this.#handlers.delete(name) }
  }

  async run (name: string, args: unknown, id: string = randomUUID()): Promise<CommandAnswer> {
    const { clock } = this.#options
    const deadline = clock.mono() + TRY_MS
    for (let tries = 1; ; tries++) {
      const outcome = await this.#options.submit(id, { name, args } satisfies Payload)
      if (outcome.ok) return { receipt: outcome, result: valueOf(outcome.result as Result | undefined) }
      // Do not retry: without a quorum, no master can accept the command before the caller times out.
      if (this.#options.quorumLost()) throw kernelError('no_quorum')
      const over = clock.mono() >= deadline
      if (over || !AGAIN.has(outcome.code)) throw this.#refused(outcome.code)
      await delay(clock, backoffMs(tries, PAUSE, 1))
    }
  }

  execute (payload: unknown, from?: string): { writes: { key: string, value: unknown }[], result: unknown } {
    const { name, args } = payload as Payload
    this.#writes = new Map()
    try {
      const handler = this.#handlers.get(name)
      if (handler === undefined) {
        throw kernelError('internal', `The master does not know the command "${name}".`,
          { remedy: 'Enable the same plugins on every node, in the same version.' })
      }
      const value = handler(args, from)
      const writes = [...this.#writes].map(([key, written]) => ({ key, value: written }))
      return { writes, result: { value } satisfies Result }
    } catch (error) {
      if (!(error instanceof SvcError)) {
        this.#options.log.error({ err: error, command: name }, 'a command failed')
      }
      return { writes: [], result: { error: partsOf(error) } satisfies Result }
    } finally { this.#writes = null }
  }

  /** Writes a key of the control document; undefined removes it. Throws `not_master` outside a command. */
  write (key: string, value: unknown): void {
    if (this.#writes === null) {
      throw kernelError('not_master', `Only commands, which run on the master, can write "${key}".`)
    }
    this.#writes.set(key, value)
  }

  /** Writes of the running command by key; reads see them before the document's values. */
  get pending (): ReadonlyMap<string, unknown> | null { return this.#writes }

  #refused (code: Refusal): SvcError {
    if (code === 'no_master' || code === 'no_answer') {
      return kernelError(this.#options.quorumLost() ? 'no_quorum' : 'no_master')
    }
    if (code === 'session_changed' || code === 'stale_session') return kernelError('session_changed')
    return kernelError('no_master', `The master could not enter the command: ${code}.`)
  }
}

function partsOf (error: unknown): ErrorParts {
  const { reason, status, retryable, message, details } =
    error instanceof SvcError ? error : kernelError('internal')
  return { reason, status, retryable, message, details }
}

function valueOf (result: Result | undefined): unknown {
  if (result === undefined) return undefined
  // JSON omits an undefined `value`, so test for `error` instead.
  if (!('error' in result)) return result.value
  const { code, reason, status, retryable, message, details } = result.error
  // Errors raised by the control document, such as `control_full`, have a code but no reason.
  if (reason === undefined) {
    throw kernelError(code === 'control_full' ? 'payload_too_large' : 'internal', message)
  }
  throw new SvcError(reason, { status, retryable, message, remedy: String(details['remedy'] ?? '') },
    message, details)
}
