import { raceAbort, type Clock } from '../api/clock.js'
import { SvcError } from '../api/errors.js'
import { isObject, parseJson } from '../api/schema.js'
import type { Cluster, MemberRequest, NodeView } from '../api/services.js'

/** A failed request to a node. The message continues a sentence: "answered with status 500". */
export class MemberFault extends Error {
  override readonly name = 'MemberFault'
  readonly reason: 'timeout' | 'too_large' | 'garbage' | 'refused' | 'unreachable'
  /** HTTP status of a refusal; its error body is read only if the request set `refusals`. */
  readonly status: number | null
  readonly refusal: Refusal | null
  constructor (
    reason: MemberFault['reason'], message: string,
    status: number | null = null, refusal: Refusal | null = null
  ) {
    super(message)
    this.reason = reason
    this.status = status
    this.refusal = refusal
  }
}

/** The fields of an error body; `message` is empty if it has none. */
export interface Refusal {
  reason: string
  message: string
  details: Record<string, unknown>
  /** Unlike the fields above, these were not validated. */
  code?: unknown
  retryable?: unknown
}

/** A request to a node's API on behalf of a caller. */
export type MemberFetch = Omit<MemberRequest, 'method' | 'signal' | 'timeoutMs'> & {
  /** Default: GET. */
  readonly method?: 'GET' | 'POST' | 'DELETE'
  /** True to read the error body of a refusal as well. */
  readonly refusals?: boolean
  readonly signal: AbortSignal
  /** Time limit in ms for the response head, or for the whole answer if it is read completely. */
  readonly ms: number
}

export interface AskMemberParts {
  readonly cluster: Pick<Cluster, 'request'>
  readonly clock: Pick<Clock, 'after'>
}

/**
 * Returns the complete text of another node's answer. Throws MemberFault if the node refuses, is late or
 * sends more than `bytes`; also throws errors from `Cluster.request` and the signal's reason.
 */
export async function askMember (
  { cluster, clock }: AskMemberParts, node: NodeView,
  { bytes, ...question }: MemberFetch & { readonly bytes: number }
): Promise<string> {
  const over = new AbortController()
  const late = new MemberFault('timeout', `did not answer completely within ${question.ms / 1000} s`)
  const cancel = clock.after(question.ms, () => { over.abort(late) })
  const signal = AbortSignal.any([question.signal, over.signal])
  try {
    const read = async (): Promise<string> =>
      await textOf(await openMember(cluster, node, { ...question, signal }), bytes)
    return await raceAbort(read(), signal)
  } finally {
    cancel()
    // Aborts the rest of the request.
    over.abort(late)
  }
}

/** One node's answer or error, the Unix time in ms of the request, and the request's duration in ms. */
export type MemberAnswer<T> =
  { readonly node: NodeView, readonly sentAt: number, readonly tookMs: number } &
  ({ readonly value: T, readonly error: null } |
    { readonly value: null, readonly error: MemberFault | SvcError })

/** A request for several nodes; `read` returns null or throws if a node's answer is invalid. */
export interface MembersFetch<T> extends MemberFetch {
  /** Maximum size of one node's answer in bytes. */
  readonly bytes: number
  read (text: string, node: NodeView): T | null
}

/**
 * Asks several nodes in parallel; returns one promise per node. If a node is away, refuses, is late or sends
 * an invalid answer, its promise resolves within the time limit to a result with the error; none rejects.
 */
export function askMembers<T> (
  parts: AskMemberParts & { readonly clock: Pick<Clock, 'after' | 'now' | 'mono'> },
  nodes: readonly NodeView[], { read, ...question }: MembersFetch<T>
): Promise<MemberAnswer<T>>[] {
  const { clock } = parts
  return nodes.map(async (node): Promise<MemberAnswer<T>> => {
    const [sentAt, since] = [clock.now(), clock.mono()]
    const answered = (): Pick<MemberAnswer<T>, 'node' | 'sentAt' | 'tookMs'> =>
      ({ node, sentAt, tookMs: clock.mono() - since })
    try {
      if (!node.live) throw new MemberFault('unreachable', 'gives no sign of life')
      const text = await askMember(parts, node, question)
      const about = answered()
      return { ...about, value: readAs(text, node, read), error: null }
    } catch (error) {
      const known = error instanceof MemberFault || error instanceof SvcError
      const fault = known ? error : new MemberFault('unreachable', 'closed the connection')
      return { ...answered(), value: null, error: fault }
    }
  })
}

function readAs<T> (text: string, node: NodeView, read: (text: string, node: NodeView) => T | null): T {
  let value: T | null = null
  try {
    value = read(text, node)
  } catch { /* The error is reported below. */ }
  if (value === null) throw new MemberFault('garbage', 'sent an unexpected answer')
  return value
}

/** Reads text of at most `most` bytes. Throws MemberFault `too_large`. */
export async function textOf (body: AsyncIterable<Uint8Array>, most: number): Promise<string> {
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of body) {
    size += part.byteLength
    if (size > most) throw new MemberFault('too_large', `answered with more than ${most} bytes`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString()
}

/** Size limit in bytes for reading an error body. */
const REFUSAL_BYTES = 1024 * 1024

/** Reads another node's error body; null if it is invalid, cut off, or longer than 1 MiB. */
export async function readRefusal (body: AsyncIterable<Uint8Array>): Promise<Refusal | null> {
  const text = await textOf(body, REFUSAL_BYTES).catch(() => '')
  const answer = parseJson(text)
  return isObject(answer) ? refusalIn(answer['error']) : null
}

export function refusalIn (error: unknown): Refusal | null {
  const { reason, message = '', details, code, retryable } = (error ?? {}) as Partial<Refusal>
  if (typeof reason !== 'string' || !/^[a-z][a-z0-9_]{0,63}$/.test(reason)) return null
  if (typeof message !== 'string') return null
  return { reason, message, details: isObject(details) ? details : {}, code, retryable }
}

/**
 * Recreates another node's error with the node's name in its details; null if it has no error. Keeps a
 * node name that is already there, which belongs to the node behind a forwarded request.
 */
export function errorFrom (
  refusal: Refusal | null, { name: node }: Pick<NodeView, 'name'>, retryAfter?: string
): SvcError | null {
  if (refusal === null || !Number.isInteger(refusal.code)) return null
  const { reason, message, details, retryable } = refusal
  const [status, seconds] = [refusal.code as number, Number(retryAfter)]
  if (status < 400 || status > 599) return null
  return new SvcError(reason, {
    status, retryable: retryable === true, message, remedy: '',
    ...(seconds > 0 ? { retryAfterSeconds: seconds } : {})
  }, message, { node, ...details })
}

/**
 * Yields the bytes of another node's answer until the signal aborts. Throws MemberFault for a status
 * other than 200, and errors from `Cluster.request`.
 */
export async function openMember (
  cluster: Pick<Cluster, 'request'>, { installId }: NodeView,
  { ms, refusals, ...question }: MemberFetch
): Promise<AsyncIterable<Uint8Array>> {
  const { signal } = question
  signal.throwIfAborted()
  const { status, body } = await cluster.request(installId, { method: 'GET', timeoutMs: ms, ...question })
  body.on('error', () => {})
  const destroy = (): void => { body.destroy(signal.reason as Error) }
  if (signal.aborted) destroy()
  else signal.addEventListener('abort', destroy, { once: true })
  if (status === 200) return body
  const refusal = refusals === true ? await readRefusal(body) : null
  body.destroy()
  throw new MemberFault('refused', `answered with status ${status}`, status, refusal)
}

export interface MemberParts { cluster: Pick<Cluster, 'request' | 'resolve'>, clock: Clock }

/** Milliseconds between checks that the other node is live. */
const LOOK_MS = 1_000

/**
 * A signal for a stream with another node. Aborts with `signal`, by `end` (which the caller must call), and
 * when the cluster loses the node, which also calls `gone`; TCP notices a cut path only later.
 */
export function whileLive (
  { cluster, clock }: { cluster: Pick<Cluster, 'resolve'>, clock: Pick<Clock, 'every'> }, installId: string,
  signal: AbortSignal, gone: () => void = () => {}
): { signal: AbortSignal, end: () => void } {
  const over = new AbortController()
  const end = (): void => {
    stopLooking()
    over.abort()
  }
  const stopLooking = clock.every(LOOK_MS, () => {
    if (cluster.resolve(installId)?.live === true) return
    end()
    gone()
  })
  return { signal: AbortSignal.any([signal, over.signal]), end }
}
