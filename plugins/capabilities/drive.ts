import {
  AbortableWaits, EngineError, kernelError, kernelErrorDecl, raceAbort, SvcError, toSvcError,
  type CapabilityCall, type CapabilityChunk, type Check, type ClientChunk, type Clock, type ErrorDecl,
  type Issue, type Logger
} from '../../kernel/index.js'
import { mediaOf, type FrameMedia } from './frames/frames.js'
import type { Call } from './calls.js'
import type { ChunkBuffer } from './chunk-buffer.js'

export interface CheckedChunk { payload: unknown, media: FrameMedia | null, bytes: Uint8Array | null }

export interface DriveOptions {
  clock: Clock
  log: Logger
  abandonMs: number
  /** Finds a plugin's declaration of an error reason; only declared engine errors reach the caller. */
  errorDecl: (reason: string) => ErrorDecl | undefined
}

/**
 * Runs the handler of a unary or client-streaming capability and checks its result. Throws an SvcError.
 * `release` is called when the handler is done or has ignored its abort for `abandonMs`.
 */
export async function runUnary (
  call: Call, input: unknown, release: () => void, options: DriveOptions
): Promise<unknown> {
  const work = (async () => {
    call.signal.throwIfAborted()
    return await call.capability.handler(input, handlerView(call))
  })()
  try {
    const result = await raceAbort(work, call.signal) ?? null
    checkValue(call.capability.output, result, 'result', call, options)
    return result
  } catch (error) {
    throw knownError(error, call, options)
  } finally {
    call.disarm()
    void abandon(work, call, release, options)
  }
}

/**
 * Runs the handler of a streaming capability into the buffer. Requests a chunk only while the buffer has
 * space, and checks each chunk. Never throws, but ends or fails the buffer. `release` as in runUnary.
 */
export async function runStream (
  call: Call, input: unknown, buffer: ChunkBuffer<CheckedChunk>, release: () => void, options: DriveOptions
): Promise<void> {
  let iterator: AsyncIterator<unknown> | null = null
  let over = false
  const waits = new AbortableWaits(call.signal)
  try {
    call.signal.throwIfAborted()
    iterator = openIterator(call.capability.handler(input, handlerView(call)))
    for (let first = true; ; first = false) {
      if (!buffer.hasRoom || call.signal.aborted) await buffer.room(call.signal)
      if (!first) call.arm()
      over = true
      const step = await waits.wait(iterator.next())
      over = false
      call.disarm()
      if (step.done === true) { over = true; break }
      const { chunk, bytes } = checkChunk(step.value, call, options)
      buffer.push(chunk, bytes)
    }
    buffer.end(null)
  } catch (error) {
    over &&= !call.signal.aborted
    buffer.fail(knownError(error, call, options))
  } finally {
    call.disarm()
    waits.end()
    const closing = over || iterator === null ? Promise.resolve() : (async () => await iterator.return?.())()
    void abandon(closing, call, release, options)
  }
}

/** Calls `release` when the handler has ended, or after `abandonMs`. */
async function abandon (
  work: Promise<unknown>, call: Call, release: () => void, options: DriveOptions
): Promise<void> {
  let settled = false
  const stop = options.clock.after(options.abandonMs, () => {
    if (settled) return
    options.log.warn(logFields(call), `${call.capability.name} is still running ${options.abandonMs} ` +
    'ms after its call ended; its handler must observe call.signal')
    release()
  })
  await work.catch(() => {})
  settled = true
  stop()
  release()
}

function openIterator (made: unknown): AsyncIterator<unknown> {
  const open = (made as AsyncIterable<unknown> | null | undefined)?.[Symbol.asyncIterator]
  if (typeof open !== 'function') {
    throw new TypeError('the handler of a streaming capability must return an async iterable')
  }
  return open.call(made)
}

function handlerView (call: Call): CapabilityCall {
  const chunks = checkedChunks(call)
  return {
    callId: call.callId, commandId: call.commandId, caller: call.origin.caller, signal: call.signal,
    retry: call.retry, pinned: call.origin.pinned === true, hops: call.origin.hops, chunks,
    input: payloadsOf(chunks), setHeader: (name, value) => { call.setHeader(name, value) },
    trace: call.trace
  }
}

function logFields (call: Call): Record<string, unknown> {
  return { requestId: call.origin.requestId, commandId: call.commandId, plugin: call.capability.owner }
}

async function * payloadsOf (chunks: AsyncIterable<ClientChunk>): AsyncGenerator {
  for await (const { payload } of chunks) yield payload
}

/** Client chunks, each checked; an invalid one ends the call with `invalid_payload`. */
async function * checkedChunks (call: Call): AsyncGenerator<ClientChunk> {
  const { origin, capability } = call
  if (origin.input === undefined || capability.inputChunk === null) return
  const iterator = origin.input[Symbol.asyncIterator]()
  const failed = (error: unknown): Error => {
    call.fail(toSvcError(error))
    return call.signal.reason as Error
  }
  for (;;) {
    const step = await raceAbort(iterator.next(), call.signal)
      .catch((error: unknown) => { throw failed(error) })
    if (step.done === true) return
    const issues = capability.inputChunk(step.value.payload)
    if (issues !== null) throw failed(invalidPayload(issues, 'chunk'))
    call.touch()
    yield step.value
  }
}

export function invalidPayload (issues: readonly Issue[], part: 'payload' | 'chunk'): SvcError {
  const field = issues[0]?.path || part
  return kernelError('invalid_payload', `${field} ${issues[0]?.message ?? 'is not valid'}`,
    { param: field, issues })
}

function checkChunk (
  value: unknown, call: Call, options: DriveOptions
): { chunk: CheckedChunk, bytes: number } {
  const { payload, media } = (value ?? {}) as Partial<CapabilityChunk>
  const size = checkValue(call.capability.outputChunk, payload, 'chunk', call, options)
  if (media === undefined) return { chunk: { payload, media: null, bytes: null }, bytes: size }
  const numbers = [media.sampleRate, media.channels, media.timestampSeconds, media.durationSeconds]
  if (!(media.bytes instanceof Uint8Array) || typeof media.mediaType !== 'string' ||
    typeof media.codec !== 'string' ||
    !numbers.every((n) => Number.isFinite(n))) {
    throw invalidResult([{ path: 'media', message: 'is incomplete' }], 'chunk', call, options)
  }
  const { bytes } = media
  return { chunk: { payload, media: mediaOf(media), bytes }, bytes: size + bytes.byteLength }
}

/**
 * Checks a value; returns its JSON length. Throws `invalid_result` if the value does not match its schema or
 * is not JSON.
 */
function checkValue (
  check: Check | null, value: unknown, part: 'result' | 'chunk', call: Call, options: DriveOptions
): number {
  const issues = check?.(value) ?? null
  if (issues !== null) throw invalidResult(issues, part, call, options)
  // A string is sent as is, so don't serialize each token just to get its length.
  if (typeof value === 'string') return value.length
  try {
    const text = JSON.stringify(value) as string | undefined
    if (text !== undefined) return text.length
  } catch { /* reported below */ }
  throw invalidResult([{ path: '', message: 'is not JSON' }], part, call, options)
}

function invalidResult (issues: readonly Issue[], part: string, call: Call, options: DriveOptions): SvcError {
  const field = issues[0]?.path || part
  const what = `${call.capability.name} returned a ${part} that its schema does not allow`
  options.log.error({ ...logFields(call), issues }, what)
  const message = issues[0]?.message ?? 'is not valid'
  return kernelError('invalid_result', `${what}: ${field} ${message}`, { issues })
}

/** Keeps errors with a declared reason; logs all others and replaces them with a bare `provider_error`. */
function knownError (error: unknown, call: Call, options: DriveOptions): SvcError {
  if (call.signal.aborted) return call.signal.reason as SvcError
  if (error instanceof SvcError) return error
  if (error instanceof EngineError) {
    const decl = kernelErrorDecl(error.reason) ?? options.errorDecl(error.reason)
    if (decl !== undefined) return new SvcError(error.reason, decl, error.message, error.details)
  }
  options.log.error({ ...logFields(call), err: error }, `${call.capability.name} failed`)
  return kernelError('provider_error', `${call.capability.name} failed; the node's log has the cause.`)
}
