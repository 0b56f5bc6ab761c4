import { randomBytes } from 'node:crypto'
import { kernelError, type Clock, type FromSchema } from '../../kernel/index.js'
import { showAmount } from './money.js'
import type { Expense } from '../capabilities/service.js'
import type { routes } from './routes.js'

/** `cost`: formatted, such as `0.02 EUR`; `until`: time at which the approval request expires. */
export type Approval = Omit<FromSchema<typeof routes.decide.reply>['approval'], 'node'>

export interface Decision {
  readonly decision: 'approve' | 'deny'
  readonly reason: string | null
  readonly by: string
}

export interface WaitingOptions {
  readonly clock: Clock
  readonly waitMs: number
  readonly asked: (approval: Approval) => void
  readonly expired: (approval: Approval) => void
}

/** Limits: pending calls in total and per caller, and requests per caller per minute. */
export const WAITING_MOST = 64
export const MAX_PENDING_PER_CALLER = 8
export const ASKED_A_MINUTE = 30
const MINUTE_MS = 60_000

interface Waiter { readonly approval: Approval, readonly settle: (error: Error | null) => void }

export class PendingCalls {
  readonly #options: WaitingOptions
  readonly #waiting = new Map<string, Waiter>()
  /** Times of each caller's requests in the last minute, monotonic ms. */
  readonly #recent = new Map<string, number[]>()

  constructor (options: WaitingOptions) { this.#options = options }

  list (): Approval[] { return [...this.#waiting.values()].map(({ approval }) => approval) }

  /**
   * Resolves on approval. Throws `approval_denied`, `approval_timeout`, `overloaded`, `plugin_disabled`, and
   * the call signal's abort reason.
   */
  async ask (expense: Expense): Promise<void> {
    const { signal, caller } = expense
    signal.throwIfAborted()
    this.#bound(caller.id)
    const { clock, waitMs, asked, expired } = this.#options
    const approval = approvalOf(expense, clock.now(), waitMs)
    await new Promise<void>((resolve, reject) => {
      const settle = (error: Error | null): void => {
        this.#waiting.delete(approval.id)
        cancel()
        signal.removeEventListener('abort', leave)
        if (error === null) resolve()
        else reject(error)
      }
      const leave = (): void => { settle(signal.reason as Error) }
      const cancel = clock.after(waitMs, () => {
        expired(approval)
        settle(kernelError('approval_timeout',
          `${approval.cost} for ${approval.capability} was not approved within ${waitMs / 1000} s.`,
          { approval_id: approval.id, cost: approval.cost }))
      })
      this.#waiting.set(approval.id, { approval, settle })
      signal.addEventListener('abort', leave)
      asked(approval)
    })
  }

  /** Returns the decided approval, or null if this node does not know the id. */
  decide (id: string, { decision, reason }: Decision): Approval | null {
    const waiter = this.#waiting.get(id)
    if (waiter === undefined) return null
    const { capability, cost } = waiter.approval
    waiter.settle(decision === 'approve' ? null : kernelError('approval_denied',
      `${cost} for ${capability} was denied${reason === null ? '' : `: ${reason}`}.`,
      { approval_id: id, cost, ...reason === null ? {} : { denied_because: reason } }))
    return waiter.approval
  }

  /** Rejects all pending calls, since they can no longer be approved without the plugin. */
  close (): void {
    for (const { approval: { id, cost, capability }, settle } of [...this.#waiting.values()]) {
      settle(kernelError('plugin_disabled',
        `${cost} for ${capability} was waiting for approval when the plugin \`approvals\` stopped.`,
        { plugin: 'approvals', approval_id: id, cost }))
    }
  }

  /** Throws `overloaded` if the caller or the node has too many pending or recent requests. */
  #bound (caller: string): void {
    const of = this.list().filter(({ by }) => by === caller).length
    if (this.#waiting.size >= WAITING_MOST || of >= MAX_PENDING_PER_CALLER) {
      const held = `${of} calls of this credential and ${this.#waiting.size} in total wait for approval`
      throw kernelError('overloaded', `${held}; the limits are ${MAX_PENDING_PER_CALLER} ` +
        `and ${WAITING_MOST}.`,
      { retryAfterSeconds: 10 })
    }
    const now = this.#options.clock.mono()
    for (const [id, times] of this.#recent) {
      const left = times.filter((at) => now - at < MINUTE_MS)
      if (left.length === 0) this.#recent.delete(id)
      else this.#recent.set(id, left)
    }
    const recent = this.#recent.get(caller) ?? []
    if (recent.length >= ASKED_A_MINUTE) {
      throw kernelError('overloaded',
        `${recent.length} calls of this credential requested approval in the last minute.`,
        { retryAfterSeconds: 60 })
    }
    this.#recent.set(caller, [...recent, now])
  }
}

function approvalOf (
  { capability, commandId, caller, amount }: Expense, nowMs: number, waitMs: number
): Approval {
  return {
    id: `apr_${randomBytes(6).toString('hex')}`, capability, command_id: commandId, by: caller.id,
    cost: showAmount(amount),
    asked: new Date(nowMs).toISOString(), until: new Date(nowMs + waitMs).toISOString()
  }
}
