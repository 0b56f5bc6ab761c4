import { raceAbort } from '../api/clock.js'
import { SvcError } from '../api/errors.js'
import { isObject, parseJson } from '../api/schema.js'
import type { Clock } from '../api/clock.js'
import type { Cluster, MemberRequest, NodeView } from '../api/services.js'

/**
 * A failed request to a node. The message continues a sentence about the node: "answered with status 500".
 */
export class MemberFault extends Error {
  override readonly name = 'MemberFault'
  readonly reason: 'timeout' | 'too_large' | 'garbage' | 'refused' | 'unreachable'
  /** Of a refusal; with its error body if `refusals` is set. */
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
  /** Unchecked. */
  code?: unknown
  retryable?: unknown
}

/** A request to a node's API, on behalf of a caller. */
export type MemberFetch = Omit<MemberRequest, 'method' | 'signal' | 'timeoutMs'> & {
  /** Default: GET. */
  readonly method?: 'GET' | 'POST' | 'DELETE'
  /** Also reads the error body of a refusal. */
  readonly refusals?: boolean
  readonly signal: AbortSignal
  /** Deadline, ms: for the head of the answer, or for its end if the whole answer is read. */
  readonly ms: number
}

export interface AskMemberParts {
  readonly cluster: Pick<Cluster, 'request'>
  readonly clock: Pick<Clock, 'after'>
}

/**
 * The complete text of another node's answer. Throws MemberFault if it refuses, is late or sends more than
 * `bytes`, the errors of `Cluster.request`, and the reason of the signal.
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
    // Abandons the rest of the work.
    over.abort(late)
  }
}

/** The result of asking one node, the wall time of the request, and its duration, ms. */
export type MemberAnswer<T> =
  { readonly node: NodeView, readonly sentAt: number, readonly tookMs: number } &
  ({ readonly value: T, readonly error: null } |
    { readonly value: null, readonly error: MemberFault | SvcError })

/** The same request to several nodes; `read` returns null, or throws, for an unreadable answer. */
export interface MembersFetch<T> extends MemberFetch {
  /** Longest answer of one node, bytes. */
  readonly bytes: number
  read (text: string, node: NodeView): T | null
}

/**
 * Asks several nodes at once; returns a promise for each. If a node is away, refuses, is late or sends an
 * invalid answer, its result has the error, within the deadline; the promises never reject.
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
  } catch { /* Told below. */ }
  if (value === null) throw new MemberFault('garbage', 'sent an unexpected answer')
  return value
}

/** Throws MemberFault `too_large`. */
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

/** Longest error body that is read, bytes. */
const REFUSAL_BYTES = 1024 * 1024

/** Reads another node's error body; null if it is none, is cut off, or is longer than 1 MiB. */
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
 * The error of another node as thrown there, with the name of that node in its details; null if it is none.
 * A node that the error already names stays: it forwarded the request.
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
 * The bytes of another node's answer as they arrive, until the signal aborts. Throws MemberFault for a status
 * other than 200, and the errors of `Cluster.request`.
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

export interface MemberParts {
  cluster: Pick<Cluster, 'request' | 'resolve'>
  clock: Clock
}

/** Interval between two checks that the other node is live, ms. */
const LOOK_MS = 1_000

/**
 * A signal for a stream with another node. It aborts with `signal`, by `end`, which the caller has to call,
 * and once the cluster considers that node lost; then it calls `gone`. TCP would report a cut path later.
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
