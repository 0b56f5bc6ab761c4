import { raceAbort } from '../../api/clock.js'
import { SvcError } from '../../api/errors.js'
import type { Clock } from '../../api/clock.js'
import type { Caller } from '../../api/plugin.js'
import type { Cluster, NodeView } from '../../api/services.js'

/** Why a node gave no answer. The message continues a sentence about the node: "answered with status 500". */
export class MemberFault extends Error {
  override readonly name = 'MemberFault'
  readonly reason: 'timeout' | 'too_large' | 'garbage' | 'refused' | 'unreachable'
  /** Of an answer that was refused, with what its body says where that was asked for. */
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

/** The fields of an error body; `message` is empty where it has none. */
export interface Refusal { reason: string, message: string, details: Record<string, unknown> }

/** A request to a node's API, in a caller's name. */
export interface MemberQuestion {
  /** GET where it is left out. */
  readonly method?: 'GET' | 'POST' | 'DELETE'
  /** Path and query on its API. */
  readonly path: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** Also reads the error body of a refusal. */
  readonly refusals?: boolean
  readonly caller: Caller
  readonly signal: AbortSignal
  /** How long it may take, ms: to the head of its answer, or to the end where the whole is asked for. */
  readonly ms: number
}

export interface AskMemberParts {
  readonly cluster: Pick<Cluster, 'request'>
  readonly clock: Pick<Clock, 'after'>
}

/**
 * The whole text of another node's answer. Throws MemberFault when it refuses, is late or sends more than
 * `bytes`, what `Cluster.request` throws, and the reason of the signal.
 */
export async function askMember (
  { cluster, clock }: AskMemberParts, node: NodeView,
  { bytes, ...question }: MemberQuestion & { readonly bytes: number }
): Promise<string> {
  const over = new AbortController()
  const late = new MemberFault('timeout', `gave no whole answer within ${question.ms / 1000} s`)
  const cancel = clock.after(question.ms, () => { over.abort(late) })
  const signal = AbortSignal.any([question.signal, over.signal])
  try {
    return await raceAbort(readText(cluster, node, { ...question, signal }, bytes), signal)
  } finally {
    cancel()
    // Whatever still goes on is given up.
    over.abort(late)
  }
}

/** What came of asking one node, the wall time at which it was asked, and how long it took, ms. */
export type MemberAnswer<T> =
  { readonly node: NodeView, readonly sentAt: number, readonly tookMs: number } &
  ({ readonly value: T, readonly error: null } |
    { readonly value: null, readonly error: MemberFault | SvcError })

/** The same question to several nodes; `read` answers null, or throws, for what it cannot read. */
export interface MembersQuestion<T> extends MemberQuestion {
  /** Longest answer of one node. */
  readonly bytes: number
  read (text: string, node: NodeView): T | null
}

/**
 * Asks several nodes at once; returns a promise for each. A node that is away, refuses, is late or answers
 * nonsense has its error in its answer, within its deadline; none of the promises rejects.
 */
export function askMembers<T> (
  parts: AskMemberParts & { readonly clock: Pick<Clock, 'after' | 'now' | 'mono'> },
  nodes: readonly NodeView[], { read, ...question }: MembersQuestion<T>
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
      const fault = known ? error : new MemberFault('unreachable', 'broke off the connection')
      return { ...answered(), value: null, error: fault }
    }
  })
}

function readAs<T> (text: string, node: NodeView, read: (text: string, node: NodeView) => T | null): T {
  let value: T | null = null
  try {
    value = read(text, node)
  } catch { /* Told below. */ }
  if (value === null) throw new MemberFault('garbage', 'answered with something else than was asked for')
  return value
}

async function readText (
  cluster: AskMemberParts['cluster'], node: NodeView, question: MemberQuestion, most: number
): Promise<string> {
  return await textOf(await openMember(cluster, node, question), most)
}

/** Throws MemberFault `too_large`. */
async function textOf (body: AsyncIterable<Uint8Array>, most: number): Promise<string> {
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of body) {
    size += part.byteLength
    if (size > most) throw new MemberFault('too_large', `answered with over ${most} bytes`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString()
}

/** Longest error body that is read. */
const REFUSAL_BYTES = 64 * 1024

/** What an error body of another node says; null when it is none, breaks off, or is longer than 64 KiB. */
export async function readRefusal (body: AsyncIterable<Uint8Array>): Promise<Refusal | null> {
  try {
    const { error } = JSON.parse(await textOf(body, REFUSAL_BYTES)) as { error: Partial<Refusal> }
    const { reason, message = '', details } = error
    if (typeof reason !== 'string' || !/^[a-z][a-z0-9_]{0,63}$/.test(reason)) return null
    if (typeof message !== 'string') return null
    return { reason, message, details: typeof details === 'object' ? { ...details } : {} }
  } catch {
    return null
  }
}

/**
 * The bytes of another node's answer as they come, until the signal aborts. Throws MemberFault when its
 * status is another than 200, and what `Cluster.request` throws.
 */
export async function openMember (
  cluster: AskMemberParts['cluster'], { installId }: NodeView,
  { method = 'GET', ms, signal, path, caller, body: sent, headers, refusals }: MemberQuestion
): Promise<AsyncIterable<Uint8Array>> {
  signal.throwIfAborted()
  const { status, body } = await cluster.request(installId, {
    method, path, caller, signal, timeoutMs: ms,
    ...(sent === undefined ? {} : { body: sent }), ...(headers === undefined ? {} : { headers })
  })
  body.on('error', () => {})
  const destroy = (): void => { body.destroy(signal.reason as Error) }
  if (signal.aborted) destroy()
  else signal.addEventListener('abort', destroy, { once: true })
  if (status === 200) return body as AsyncIterable<Uint8Array>
  const refusal = refusals === true ? await readRefusal(body as AsyncIterable<Uint8Array>) : null
  body.destroy()
  throw new MemberFault('refused', `answered with status ${status}`, status, refusal)
}
