import { kernelError, timed } from '../../kernel/index.js'
import { Admission, type Release } from './admission.js'
import { CallTable, type Call } from './calls.js'
import { costOf, type Cost } from './cost.js'
import { deliver, delaysHeaders, type StreamTarget, type StreamEnd } from './deliver.js'
import { invalidPayload, runStream, runUnary, type CheckedChunk, type DriveOptions } from './drive.js'
import { ChunkBuffer } from './chunk-buffer.js'
import { withId, type CallOrigin } from './origin.js'
import { serverStreams, type Capability, type Registry } from './registry.js'
import type { Commands, SvcError, Trace, Tracers } from '../../kernel/index.js'
import type { CapabilityLimits } from './limits.js'
import type { CallRequest } from './routes.js'
import type { Remote } from './remote.js'
import type { CallOutcome, CallQueue, Spending } from './service.js'

export interface InvokerOptions extends Omit<DriveOptions, 'abandonMs'> {
  commands: Commands
  limits: CapabilityLimits
  registry: Registry
  remote: Remote
  tracers: Tracers | undefined
  /** The service that approves costs; without it, calls with a cost are refused. */
  spending: () => Spending | undefined
  onOutcome: (outcome: CallOutcome) => void
}

/** Checks, runs and ends calls, independent of the transport. */
export class Invoker {
  readonly calls: CallTable
  readonly #options: InvokerOptions
  readonly #drive: DriveOptions
  /** Queues by registration, so that a capability that is registered again starts with an empty queue. */
  readonly #gates = new WeakMap<Capability, Admission>()
  /** The current queue by capability name. */
  readonly #newest = new Map<string, Admission>()

  constructor (options: InvokerOptions) {
    this.#options = options
    this.calls = new CallTable(options.clock, options.commands)
    this.#drive = { ...options, abandonMs: options.limits.abandonMs }
  }

  /** The queues of all capabilities that have been called. */
  queues (): CallQueue[] {
    return [...this.#newest].map(([capability, { active, waiting }]) =>
      ({ capability, running: active, waiting }))
  }

  /**
   * Runs a call with a single result (unary, client streaming). `accept` throws if the transport cannot serve
   * the capability. Throws an SvcError.
   */
  async unary (
    request: CallRequest, origin: CallOrigin, accept: (c: Capability) => void
  ): Promise<{ call: Call, result: unknown }> {
    return await this.#during(request, origin, accept, async (call) => {
      const release = await this.#admit(call, request)
      const result = await runUnary(call, request.payload, release, this.#drive)
      return { answer: { call, result }, terminal: { kind: 'completed', payload: result } }
    })
  }

  /**
   * Runs any call into the target that `accept` chooses. Throws an SvcError for failed checks, and for early
   * failures if the target requires that; any other outcome is sent as a frame.
   */
  async stream (
    request: CallRequest, origin: CallOrigin, accept: (c: Capability) => StreamTarget
  ): Promise<StreamEnd> {
    return await this.#during(request, origin, accept, async (call, target) => {
      const release = await this.#admit(call, request)
      const terminal = await this.#run(call, request.payload, release, target)
      return { answer: terminal, terminal }
    })
  }

  /**
   * Runs a handler as if it were a capability call, with the same slots, buffering, end, report and cost
   * for `payload`. Its chunks are not checked against a schema.
   */
  async serve (
    place: Capability, handler: Capability['handler'], origin: CallOrigin, target: StreamTarget,
    payload?: unknown
  ): Promise<StreamEnd> {
    const descriptor = { ...place.descriptor, io_mode: 'server_streaming' as const }
    const capability: Capability = { ...place, descriptor, handler, outputChunk: null, inputChunk: null }
    const timeoutMs = this.#options.limits.timeoutSeconds * 1000
    return await this.#opened({ callId: null, capability, origin, timeoutMs }, async (call) => {
      if (place.cost !== null) {
        if (payload === undefined && place.cost.parts.some(({ field }) => field !== null)) {
          throw kernelError('provider_error', `The cost of ${place.name} depends on its payload, and ` +
            'its route provides none.')
        }
        await this.#pay(call, place.cost, payload)
      }
      const release = await this.#enter(call, this.#gate(place))
      const terminal = await this.#run(call, undefined, release, target)
      return { answer: terminal, terminal }
    })
  }

  async #run (call: Call, payload: unknown, release: () => void, target: StreamTarget): Promise<StreamEnd> {
    if (!delaysHeaders(target) && target.retries !== true) call.retry = false
    const buffer = new ChunkBuffer<CheckedChunk>(target.room)
    if (serverStreams(call.capability.descriptor.io_mode)) {
      void runStream(call, payload, buffer, release, this.#drive)
    } else {
      runUnary(call, payload, release, this.#drive).then((result) => { buffer.end(result) },
        (error: unknown) => { buffer.fail(error) })
    }
    const { clock, limits } = this.#options
    const headHoldMs = call.capability.remote?.headHoldMs ?? limits.headHoldMs
    return await deliver(call, buffer, target, { clock, graceMs: limits.graceMs, headHoldMs })
  }

  /** Finds the requested capability, keeps a call open while `work` runs, and reports the call's outcome. */
  async #during<A, T> (
    request: CallRequest, origin: CallOrigin, accept: (c: Capability) => A,
    work: (call: Call, accepted: A) => Promise<{ answer: T, terminal: StreamEnd }>
  ): Promise<T> {
    const { registry, remote } = this.#options
    const { capability_id: id, version, descriptor_revision: revision } = request
    const node = remote.target(request, origin)
    const capability = node === null
      ? registry.find(id, version, revision)
      : await remote.capability(node, request, origin.signal)
    const accepted = accept(capability)
    const timeoutMs = (request.timeout_seconds ?? this.#options.limits.timeoutSeconds) * 1000
    const pinned = node === null && (request.target_node ?? null) !== null
    const fields = { callId: request.call_id ?? null, capability, origin: { ...origin, pinned }, timeoutMs }
    return await this.#opened(fields, async (call) => await work(call, accepted))
  }

  /** Keeps a call open while `work` runs, and reports the call's outcome. */
  async #opened<T> (
    fields: Parameters<CallTable['open']>[0],
    work: (call: Call) => Promise<{ answer: T, terminal: StreamEnd }>
  ): Promise<T> {
    const { call, close } = this.calls.open(fields)
    call.trace = this.#trace(call)
    try {
      const { answer, terminal } = await work(call)
      this.#report(call, terminal.kind, terminal.kind === 'completed' ? null : terminal.error)
      return answer
    } catch (error) {
      const { reason } = error as SvcError
      this.#report(call, reason === 'cancelled' ? 'cancelled' : 'failed', error as SvcError)
      throw withId(error, 'task', call.headers['x-svc-task-id'])
    } finally {
      close()
    }
  }

  /** Checks size and input schema, and takes a slot. Releases the slot on an error. */
  async #admit (call: Call, request: CallRequest): Promise<Release> {
    const { capability, signal } = call
    const { cost } = capability
    if (cost !== null) {
      // Check first, so that no approval is requested for an invalid call; no slot is held while a person
      // decides.
      this.#check(call, request)
      await this.#pay(call, cost, request.payload)
    }
    const release = await this.#enter(call, capability.remote?.slots ?? this.#gate(capability))
    try {
      this.#check(call, request)
      signal.throwIfAborted()
      return release
    } catch (error) {
      release()
      throw error
    }
  }

  #check ({ capability }: Call, request: CallRequest): void {
    this.#checkSize(request)
    const issues = capability.input(request.payload)
    if (issues !== null) throw invalidPayload(issues, 'payload')
  }

  /** Waits for approval of the cost; the wait does not count towards the call's timeout. */
  async #pay (call: Call, cost: Cost, payload: unknown): Promise<void> {
    const { capability: { name }, commandId, origin: { caller, viaMember }, signal } = call
    // The node that forwarded the call has already obtained approval.
    if (viaMember === true) return
    const spending = this.#options.spending()
    if (spending === undefined) {
      throw kernelError('approval_denied',
        `${name} has a cost, and the plugin that approves costs (\`approvals\`) is disabled.`)
    }
    call.disarm()
    await spending.allow({ capability: name, commandId, caller, amount: costOf(cost, payload), signal })
    call.arm()
  }

  async #enter (call: Call, gate: Admission): Promise<Release> {
    const { origin, signal, trace } = call
    const { clock } = this.#options
    const since = clock.mono()
    const enter = (): Promise<Release> => gate.enter(origin.caller.id, signal)
    const release = await (trace === undefined ? enter() : timed(trace, 'admission', 'queue', enter))
    call.queuedMs = clock.mono() - since
    return release
  }

  #trace ({ commandId, capability, origin }: Call): Trace | undefined {
    const { tracers } = this.#options
    const member = origin.recorded === true
    if (tracers === undefined || !(tracers.on || member)) return undefined
    const { arrivedMs, traceparent } = origin
    return tracers.begin({ commandId, name: capability.name, arrivedMs, traceparent, member })
  }

  #checkSize (request: CallRequest): void {
    const most = this.#options.limits.payloadBytes
    const bytes = request.bytes ?? Buffer.byteLength(JSON.stringify(request.payload) ?? '')
    if (bytes <= most) return
    throw kernelError('payload_too_large', `The request has ${bytes} bytes; at most ${most} are accepted.`,
      { bytes, limit_bytes: most })
  }

  #gate (capability: Capability): Admission {
    const known = this.#gates.get(capability)
    if (known !== undefined) return known
    const { clock, limits: { concurrency: usual, queue } } = this.#options
    const concurrency = Math.max(usual, capability.callsAtOnce ?? 0)
    const gate = new Admission(capability.name, clock, { concurrency, queue })
    this.#gates.set(capability, gate)
    this.#newest.set(capability.name, gate)
    return gate
  }

  #report (call: Call, kind: CallOutcome['kind'], error: SvcError | null): void {
    const reason = error?.reason ?? null
    const taskId = call.headers['x-svc-task-id'] ?? null
    call.trace?.end({ kind, reason, taskId })
    const outcome: CallOutcome = {
      callId: call.callId, commandId: call.commandId, requestId: call.origin.requestId,
      capability: call.capability.name, callerId: call.origin.caller.id, kind, reason, taskId,
      passedOn: call.capability.remote !== undefined && error?.details['begun'] !== false,
      seconds: (this.#options.clock.mono() - call.startedMs) / 1000,
      queuedSeconds: call.queuedMs === null ? null : call.queuedMs / 1000
    }
    this.#options.log.debug({ ...outcome }, `${outcome.capability} ${kind}`)
    this.#options.onOutcome(outcome)
  }
}
