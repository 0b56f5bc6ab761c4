import { delay, kernelError } from '../../../kernel/index.js'
import type {
  Caller, Clock, Cluster, MemberRequest, MemberResponse, NodeView
} from '../../../kernel/index.js'

/** Longest answer that is read, bytes: a manifest of 16,384 files and their chunks. */
const ANSWER_BYTES = 64 * 1024 * 1024

/** What another node answered. */
export interface JsonAnswer { status: number, body: unknown, headers: Readonly<Record<string, string>> }

/** Asks another node and reads its JSON answer. Throws `unreachable`, `timeout`, Error. */
export async function askNode (
  cluster: Cluster, installId: string, request: MemberRequest
): Promise<JsonAnswer> {
  const response = await cluster.request(installId, request)
  const { status, headers } = response
  return { status, headers, body: JSON.parse(await readText(response)) as unknown }
}

async function readText ({ body }: MemberResponse): Promise<string> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of body as AsyncIterable<Buffer>) {
    size += part.byteLength
    if (size > ANSWER_BYTES) throw new Error(`the answer has more than ${ANSWER_BYTES} bytes`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}

/** The sentence in an error body of a node; its status when it has none. */
export function messageOf ({ status, body }: Pick<JsonAnswer, 'status' | 'body'>): string {
  const message = (body as { error?: { message?: unknown } } | null)?.error?.message
  return typeof message === 'string' ? message : `it answered ${status}`
}

/** The one entry of `nodes` in the answer of a node that spoke for itself. Throws when there is none. */
export function onlyNode<T> (answer: unknown): T {
  const [first] = (answer as { nodes?: T[] } | null)?.nodes ?? []
  if (first === undefined) throw new Error('it said nothing of itself')
  return first
}

export interface EachNode<T> {
  cluster: Cluster
  clock: Clock
  nodes: readonly NodeView[]
  /** What this node does itself. */
  here: () => Promise<T>
  /** What another one is asked. */
  request: Pick<MemberRequest, 'method' | 'path' | 'body' | 'headers'>
  caller: Caller
  /** How long one may take. */
  deadlineMs: number
  read: (body: unknown, node: NodeView) => T
  /** What is said of a node that did not answer, or refused. */
  failed: (node: NodeView, message: string) => T
}

/** Has every node do something; whoever does not answer in time is named, and nobody waits for it longer. */
export async function eachNode<T> (options: EachNode<T>): Promise<T[]> {
  return await Promise.all(options.nodes.map(async (node) => {
    try {
      return await withDeadline(options, (signal) => one(options, node, signal))
    } catch (error) {
      return options.failed(node, error instanceof Error ? error.message : String(error))
    }
  }))
}

async function one<T> (options: EachNode<T>, node: NodeView, signal: AbortSignal): Promise<T> {
  if (node.self) return await options.here()
  if (!node.live) throw kernelError('unreachable', `${node.name} cannot be reached.`)
  const { cluster, request, caller, deadlineMs } = options
  const answer = await askNode(cluster, node.installId, { ...request, caller, signal, timeoutMs: deadlineMs })
  if (answer.status !== 200) throw new Error(messageOf(answer))
  return options.read(answer.body, node)
}

async function withDeadline<T> (
  { clock, deadlineMs }: EachNode<T>, work: (signal: AbortSignal) => Promise<T>
): Promise<T> {
  const over = new AbortController()
  const done = new AbortController()
  const late = delay(clock, deadlineMs, done.signal).then(() => {
    over.abort()
    throw kernelError('timeout', `It did not answer within ${deadlineMs / 1000} s.`)
  })
  // When the work was faster, nobody waits for this one any more.
  late.catch(() => {})
  try {
    return await Promise.race([work(over.signal), late])
  } finally {
    done.abort()
  }
}
