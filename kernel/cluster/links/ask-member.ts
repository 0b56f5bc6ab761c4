import { raceAbort } from '../../calls/drive.js'
import type { Clock } from '../../api/clock.js'
import type { Caller } from '../../api/plugin.js'
import type { Cluster, NodeView } from '../../api/services.js'

/** Why there is nothing of a node. The message goes on after the node's name: "answered with status 500". */
export class MemberFault extends Error {
  override readonly name = 'MemberFault'
  readonly reason: 'timeout' | 'too_large' | 'garbage' | 'refused' | 'unreachable'
  /** Of an answer that was refused. */
  readonly status: number | null
  constructor (reason: MemberFault['reason'], message: string, status: number | null = null) {
    super(message)
    this.reason = reason
    this.status = status
  }
}

/** What a node is asked, in whose name, and until when anybody cares. */
export interface MemberQuestion {
  /** Path and query of a GET on its API. */
  readonly path: string
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

async function readText (
  cluster: AskMemberParts['cluster'], node: NodeView, question: MemberQuestion, most: number
): Promise<string> {
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of await openMember(cluster, node, question)) {
    size += part.byteLength
    if (size > most) throw new MemberFault('too_large', `answered with over ${most} bytes`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString()
}

/**
 * The bytes of another node's answer as they come, until the signal aborts. Throws MemberFault when its
 * status is another than 200, and what `Cluster.request` throws.
 */
export async function openMember (
  cluster: AskMemberParts['cluster'], { installId }: NodeView, { path, caller, signal, ms }: MemberQuestion
): Promise<AsyncIterable<Uint8Array>> {
  signal.throwIfAborted()
  const { status, body } = await cluster.request(installId, {
    method: 'GET', path, caller, signal, timeoutMs: ms
  })
  body.on('error', () => {})
  const destroy = (): void => { body.destroy(signal.reason as Error) }
  if (signal.aborted) destroy()
  else signal.addEventListener('abort', destroy, { once: true })
  if (status === 200) return body as AsyncIterable<Uint8Array>
  body.destroy()
  throw new MemberFault('refused', `answered with status ${status}`, status)
}
