import { randomUUID } from 'node:crypto'
import { kernelError, SvcError } from '../../kernel/index.js'
import type { Caller, Clock, Commands, Trace } from '../../kernel/index.js'
import type { CallOrigin } from './origin.js'
import type { Capability } from './registry.js'

/** One open call: its one abort signal, its deadline and the headers its handler set. */
export class Call {
  readonly callId: string
  readonly commandId: string
  readonly capability: Capability
  readonly origin: CallOrigin
  readonly timeoutMs: number
  readonly startedMs: number
  readonly headers: Record<string, string> = {}
  /** It may be tried again elsewhere: nothing of the first try can have reached the client. */
  retry: boolean
  /** Takes the spans of its work; undefined while calls are not traced. */
  trace: Trace | undefined
  /** How long it waited for its place; null while it has none. */
  queuedMs: number | null = null
  readonly #clock: Clock
  readonly #controller = new AbortController()
  /** Since when it waits for its handler; null while it does not. */
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

  /** Ends the call with this error; the first one counts. */
  fail (error: SvcError): void {
    this.close()
    this.#controller.abort(error)
  }

  /** Starts the wait for the handler anew. */
  arm (): void {
    if (this.signal.aborted) return
    this.#armedMs = this.#clock.mono()
    if (this.#stopDeadline === null) this.#check(this.timeoutMs)
  }

  disarm (): void { this.#armedMs = null }

  /** A sign of life from the client: a running wait starts anew. */
  touch (): void {
    if (this.#armedMs !== null) this.arm()
  }

  close (): void {
    this.disarm()
    this.#stopDeadline?.()
    this.#stopDeadline = null
  }

  /** One timer for all waits: there is one for each token. */
  #check (afterMs: number): void {
    this.#stopDeadline = this.#clock.after(afterMs, () => {
      this.#stopDeadline = null
      if (this.#armedMs === null) return
      const left = this.#armedMs + this.timeoutMs - this.#clock.mono()
      if (left > 0) { this.#check(left); return }
      const seconds = this.timeoutMs / 1000
      this.fail(kernelError('timeout', `${this.capability.name} gave nothing within ${seconds} s.`,
        { timeout_seconds: seconds }))
    })
  }

  setHeader (name: string, value: string): void {
    const key = name.toLowerCase()
    if (!/^x-[a-z0-9-]+$/.test(key)) {
      throw new TypeError(`a capability may only set x-… headers, not "${name}"`)
    }
    // Names come from requests; what a header cannot hold is encoded where it is sent.
    this.headers[key] = value.slice(0, 1024)
  }
}

export class CallTable {
  readonly #clock: Clock
  readonly #commands: Commands
  readonly #open = new Map<string, Map<string, Call>>()
  /** Who waits for the end of single calls. */
  readonly #watched = new Map<Call, () => void>()
  #count = 0

  constructor (clock: Clock, commands: Commands) {
    this.#clock = clock
    this.#commands = commands
  }

  get size (): number { return this.#count }

  /**
   * Opens a call, with its deadline running; `close` forgets it. Throws `invalid_request` when the caller
   * has an open call of that id, and `shutting_down`.
   */
  open (fields: { callId: string | null, capability: Capability, origin: CallOrigin, timeoutMs: number }):
  { call: Call, close: () => void } {
    const { capability, origin, timeoutMs } = fields
    const callId = fields.callId ?? randomUUID()
    const own = this.#open.get(origin.caller.id) ?? new Map<string, Call>()
    if (own.has(callId)) {
      throw kernelError('invalid_request', `call_id "${callId}" is in use by another open call of yours.`,
        { param: 'call_id', issues: [{ path: 'call_id', message: 'is in use by another open call' }] })
    }
    const commandId = origin.commandId ?? randomUUID()
    const call = new Call(this.#clock, { callId, commandId, capability, origin, timeoutMs })
    const untrack = this.#commands.track({
      commandId,
      caller: origin.caller,
      summary: capability.name,
      abort: (reason) => { call.fail(kernelError(reason)) }
    })
    this.#open.set(origin.caller.id, own.set(callId, call))
    this.#count++
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
        this.#forget(own, call)
      }
    }
  }

  /**
   * Cancels the caller's call of that id. False when there is none. Throws `missing_grant` when the call is
   * somebody else's and the caller lacks `cluster:write`.
   */
  cancel (callId: string, caller: Caller): boolean {
    const own = this.#open.get(caller.id)?.get(callId)
    const hit = own !== undefined
      ? [own]
      : [...this.#open.values()].flatMap((calls) => calls.get(callId) ?? [])
    if (own === undefined && hit.length > 0 && !caller.authorities.has('cluster:write')) {
      throw kernelError('missing_grant', 'Cancelling another caller\'s call needs cluster:write.',
        { authority: 'cluster:write' })
    }
    for (const call of hit) call.fail(kernelError('cancelled'))
    return hit.length > 0
  }

  /** Ends the calls that a plugin serves, each with an error of its own; resolves when all have ended. */
  async endOf (owner: string, why: () => SvcError): Promise<void> {
    const open = [...this.#open.values()].flatMap((calls) => [...calls.values()])
      .filter(({ capability }) => capability.owner === owner && capability.remote === undefined)
    await Promise.all(open.map((call) => new Promise<void>((resolve) => {
      this.#watched.set(call, resolve)
      call.fail(why())
    })))
  }

  #forget (own: Map<string, Call>, call: Call): void {
    own.delete(call.callId)
    this.#watched.get(call)?.()
    this.#watched.delete(call)
    const { id } = call.origin.caller
    if (own.size === 0 && this.#open.get(id) === own) this.#open.delete(id)
    this.#count--
  }
}

/** Ends the call when the client goes away; returns what unlinks the two. */
function linkSignal (call: Call): () => void {
  const { signal } = call.origin
  const onAbort = (): void => {
    const known = signal.reason instanceof SvcError
    call.fail(known ? signal.reason : kernelError('cancelled', 'The client went away.'))
  }
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort)
  return () => { signal.removeEventListener('abort', onAbort) }
}
