import { randomUUID } from 'node:crypto'
import { kernelError, SvcError } from '../../kernel/index.js'
import type { Caller, Clock, Commands, Trace } from '../../kernel/index.js'
import type { CallOrigin } from './origin.js'
import type { Capability } from './registry.js'

export class Call {
  readonly callId: string
  readonly commandId: string
  readonly capability: Capability
  readonly origin: CallOrigin
  readonly timeoutMs: number
  readonly startedMs: number
  readonly headers: Record<string, string> = {}
  /** Whether another instance may retry the call; only possible before any output has reached the client. */
  retry: boolean
  /** Undefined unless calls are traced. */
  trace: Trace | undefined
  /** Milliseconds in the queue; null before the call has a slot. */
  queuedMs: number | null = null
  readonly #clock: Clock
  readonly #controller = new AbortController()
  /** Monotonic ms at which the current wait for the handler began; null if it is not waiting. */
  #armedMs: number | null = null
  #stopDeadline: (() => void) | null = null

  constructor (
    clock: Clock, fields: Pick<Call, 'callId' | 'commandId' | 'capability' | 'origin' | 'timeoutMs'>
  ) {
    this.#clock = clock
    this.callId = fields.callId
    this.commandId = fields.commandId
    this.capability = fields.capability
    this.origin = fields.origin
    this.timeoutMs = fields.timeoutMs
    this.startedMs = clock.mono()
    this.retry = fields.origin.retry === true
  }

  get signal (): AbortSignal { return this.#controller.signal }

  /** Aborts the call; only the first error counts. */
  fail (error: SvcError): void {
    this.close()
    this.#controller.abort(error)
  }

  /** Restarts the timeout for the handler. */
  arm (): void {
    if (this.signal.aborted) return
    this.#armedMs = this.#clock.mono()
    if (this.#stopDeadline === null) this.#check(this.timeoutMs)
  }

  disarm (): void { this.#armedMs = null }

  /** Restarts a running timeout after client activity. */
  touch (): void {
    if (this.#armedMs !== null) this.arm()
  }

  close (): void {
    this.disarm()
    this.#stopDeadline?.()
    this.#stopDeadline = null
  }

  /** Uses one timer per call, renewed only when it fires, since every token restarts the timeout. */
  #check (afterMs: number): void {
    this.#stopDeadline = this.#clock.after(afterMs, () => {
      this.#stopDeadline = null
      if (this.#armedMs === null) return
      const left = this.#armedMs + this.timeoutMs - this.#clock.mono()
      if (left > 0) { this.#check(left); return }
      const seconds = this.timeoutMs / 1000
      this.fail(kernelError('timeout', `${this.capability.name} returned nothing within ${seconds} s.`,
        { timeout_seconds: seconds }))
    })
  }

  setHeader (name: string, value: string): void {
    const key = name.toLowerCase()
    if (!/^x-[a-z0-9-]+$/.test(key)) {
      throw new TypeError(`a capability may only set x-… headers, not "${name}"`)
    }
    // Values may contain names from requests; the transport encodes characters that HTTP headers forbid.
    this.headers[key] = value.slice(0, 1024)
  }
}

export class CallTable {
  readonly #clock: Clock
  readonly #commands: Commands
  /** By caller and call id; different callers may use the same call id. */
  readonly #open = new Map<string, Call>()
  /** Callbacks to run when a call ends, by call. */
  readonly #watched = new Map<Call, () => void>()

  constructor (clock: Clock, commands: Commands) {
    this.#clock = clock
    this.#commands = commands
  }

  get size (): number { return this.#open.size }

  /**
   * Opens a call and starts its timeout; `close` ends both. Throws `invalid_request` if the caller has an
   * open call with this id, and `shutting_down`.
   */
  open (fields: { callId: string | null, capability: Capability, origin: CallOrigin, timeoutMs: number }):
  { call: Call, close: () => void } {
    const { capability, origin, timeoutMs } = fields
    const callId = fields.callId ?? randomUUID()
    const key = keyOf(origin.caller, callId)
    if (this.#open.has(key)) {
      throw kernelError('invalid_request', `call_id "${callId}" is in use by another open call.`,
        { param: 'call_id', issues: [{ path: 'call_id', message: 'is in use by another open call' }] })
    }
    const commandId = origin.commandId ?? randomUUID()
    const call = new Call(this.#clock, { callId, commandId, capability, origin, timeoutMs })
    const untrack = this.#commands.track({
      commandId, caller: origin.caller, abort: (reason) => { call.fail(kernelError(reason)) }
    })
    this.#open.set(key, call)
    const unlink = linkSignal(call)
    call.arm()
    let open = true
    return {
      call,
      close: () => {
        if (!open) return
        open = false
        call.close()
        unlink()
        untrack()
        this.#open.delete(key)
        this.#watched.get(call)?.()
        this.#watched.delete(call)
      }
    }
  }

  /**
   * Cancels the call; false if it does not exist. Throws `missing_grant` for another caller's call without
   * `cluster:write`.
   */
  cancel (callId: string, caller: Caller): boolean {
    const own = this.#open.get(keyOf(caller, callId))
    const hit = own !== undefined ? [own] : [...this.#open.values()].filter((call) => call.callId === callId)
    if (own === undefined && hit.length > 0 && !caller.authorities.has('cluster:write')) {
      throw kernelError('missing_grant', 'Cancelling another caller\'s call requires cluster:write.',
        { authority: 'cluster:write' })
    }
    for (const call of hit) call.fail(kernelError('cancelled'))
    return hit.length > 0
  }

  /** Aborts the calls of a plugin's capabilities; resolves once all have ended. */
  async endOf (owner: string, why: () => SvcError): Promise<void> {
    const open = [...this.#open.values()]
      .filter(({ capability }) => capability.owner === owner && capability.remote === undefined)
    await Promise.all(open.map((call) => new Promise<void>((resolve) => {
      this.#watched.set(call, resolve)
      call.fail(why())
    })))
  }
}

const keyOf = ({ id }: Caller, callId: string): string => JSON.stringify([id, callId])

/** Aborts the call when the client disconnects. Returns a function that removes the listener. */
function linkSignal (call: Call): () => void {
  const { signal } = call.origin
  const onAbort = (): void => {
    const known = signal.reason instanceof SvcError
    call.fail(known ? signal.reason : kernelError('cancelled', 'The client disconnected.'))
  }
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort)
  return () => { signal.removeEventListener('abort', onAbort) }
}
