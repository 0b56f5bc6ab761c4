import { SvcError } from '../../kernel/index.js'
import type { Caller, Clock, Cluster, NodeView } from '../../kernel/index.js'

/** How long one node may take for its whole answer, ms. */
export const PEER_MS = 3000
/** Longest answer of a node that is read, bytes. */
export const PEER_BYTES = 8 * 1024 ** 2

/** Why there is nothing of a node. */
export interface PeerFault {
  reason: 'no_sign_of_life' | 'timeout' | 'too_large' | 'garbage' | 'refused' | 'unreachable'
  message: string
}

/** How far the clock of a node is ahead of this one's, and by how much that may be off; ms. */
export interface ClockOffset { aheadMs: number, uncertaintyMs: number }

/** A node of the cluster and what it answered. */
export interface PeerAnswer<T> {
  node: NodeView
  value: T | null
  error: PeerFault | null
  /** Null for this node itself, and where nothing was answered. */
  tookMs: number | null
  clock: ClockOffset | null
}

export interface FanOutParts {
  cluster: Pick<Cluster, 'nodes' | 'request'>
  clock: Clock
}

/** What every node is asked, in whose name, and until when anybody cares. */
export interface Question<T> {
  path: string
  caller: Caller
  signal: AbortSignal
  /** This node's own answer. */
  own: () => T | Promise<T>
  /** The answer in what a node sent; null for anything else. */
  read: (sent: unknown) => T | null
  /** The node's own time in its answer, ISO-8601. */
  timeOf: (value: T) => string
}

class Fault extends Error {
  readonly reason: PeerFault['reason']
  constructor (reason: PeerFault['reason'], message: string) {
    super(message)
    this.name = 'Fault'
    this.reason = reason
  }
}

/**
 * Asks all members at once; the order is that of `cluster.nodes()`. One that is silent, refuses or talks
 * nonsense is named with what was wrong, and holds nobody up for longer than its deadline.
 */
export async function askMembers<T> (parts: FanOutParts, question: Question<T>): Promise<PeerAnswer<T>[]> {
  return await Promise.all(parts.cluster.nodes().map(async (node): Promise<PeerAnswer<T>> => {
    const nothing = { node, value: null, error: null, tookMs: null, clock: null }
    if (node.self) return { ...nothing, value: await question.own() }
    if (!node.live) {
      return { ...nothing, error: { reason: 'no_sign_of_life', message: 'The node gives no sign of life.' } }
    }
    return await askOne(parts, node, question)
  }))
}

async function askOne<T> (
  parts: FanOutParts, node: NodeView, question: Question<T>
): Promise<PeerAnswer<T>> {
  const { clock } = parts
  const [sentAt, since] = [clock.now(), clock.mono()]
  try {
    const text = await inTime(clock, question.signal, (signal) => answerOf(parts, node, question, signal))
    const tookMs = clock.mono() - since
    const value = readAs(text, question.read)
    const middle = sentAt + tookMs / 2
    const aheadMs = Date.parse(question.timeOf(value)) - middle
    if (Number.isNaN(aheadMs)) throw new Fault('garbage', 'The answer says no time.')
    return { node, value, error: null, tookMs, clock: { aheadMs, uncertaintyMs: tookMs / 2 } }
  } catch (error) {
    return { node, value: null, error: faultOf(error), tookMs: null, clock: null }
  }
}

function faultOf (error: unknown): PeerFault {
  if (error instanceof Fault) return { reason: error.reason, message: error.message }
  const message = error instanceof SvcError ? error.message : 'The connection broke off.'
  return { reason: 'unreachable', message: message.slice(0, 500) }
}

function readAs<T> (text: string, read: (sent: unknown) => T | null): T {
  let value: T | null = null
  try {
    value = read(JSON.parse(text))
  } catch { /* Told below. */ }
  if (value === null) throw new Fault('garbage', 'The node answered with something else than was asked for.')
  return value
}

/** The work within the deadline; whatever still goes on after it is given up. */
async function inTime (
  clock: Clock, outer: AbortSignal, work: (signal: AbortSignal) => Promise<string>
): Promise<string> {
  const over = new AbortController()
  const late = new Fault('timeout', `The node gave no whole answer within ${PEER_MS / 1000} s.`)
  const cancel = clock.after(PEER_MS, () => { over.abort(late) })
  const signal = AbortSignal.any([outer, over.signal])
  try {
    return await new Promise<string>((resolve, reject) => {
      const stop = (): void => { reject(signal.reason as Error) }
      if (signal.aborted) stop()
      signal.addEventListener('abort', stop, { once: true })
      work(signal).then(resolve, reject)
    })
  } finally {
    cancel()
    over.abort(late)
  }
}

async function answerOf (
  { cluster }: FanOutParts, { installId }: NodeView,
  { path, caller }: Pick<Question<unknown>, 'path' | 'caller'>, signal: AbortSignal
): Promise<string> {
  const { status, body } = await cluster.request(installId, {
    method: 'GET', path, caller, signal, timeoutMs: PEER_MS
  })
  body.on('error', () => {})
  signal.addEventListener('abort', () => { body.destroy() }, { once: true })
  if (status !== 200) {
    body.destroy()
    throw new Fault('refused', `The node answered with status ${status}.`)
  }
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of body as AsyncIterable<Uint8Array>) {
    size += part.byteLength
    if (size > PEER_BYTES) throw new Fault('too_large', `The node answered with over ${PEER_BYTES} bytes.`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString()
}
