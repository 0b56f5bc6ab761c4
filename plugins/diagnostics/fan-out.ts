import { askMembers, boundsOf, clockOffset, MemberFault } from '../../kernel/index.js'
import type {
  Caller, Clock, ClockOffset, Cluster, MemberAnswer, NodeView, SvcError
} from '../../kernel/index.js'

/** Deadline in ms for one node's complete answer. */
export const PEER_MS = 3000
/** Largest accepted answer from a node, in bytes. */
export const PEER_BYTES = 8 * 1024 ** 2

export interface PeerFault { reason: 'no_sign_of_life' | MemberFault['reason'], message: string }

export interface PeerAnswer<T> {
  node: NodeView
  value: T | null
  error: PeerFault | null
  /** Response time in ms; null for this node itself, and for nodes that did not answer. */
  tookMs: number | null
  clock: ClockOffset | null
}

export interface FanOutParts { cluster: Pick<Cluster, 'nodes' | 'request'>, clock: Clock }

/** A request to send to every node, its caller, and the signal that aborts it; `own` answers locally. */
export interface Question<T> {
  path: string
  /** Deadline of each node in ms; PEER_MS by default. */
  ms?: number
  caller: Caller
  signal: AbortSignal
  own: () => T | Promise<T>
  read: (sent: unknown) => T | null
  /** The node's own time in its answer, ISO-8601. */
  timeOf: (value: T) => string
}

/**
 * Asks all nodes in parallel, each with a deadline; the result has the order of `cluster.nodes()` and
 * includes nodes that timed out, refused or sent an invalid answer.
 */
export async function askAll<T> (
  parts: FanOutParts, { path, ms = PEER_MS, caller, signal, own, read, timeOf }: Question<T>
): Promise<PeerAnswer<T>[]> {
  const nodes = parts.cluster.nodes()
  const asked = askMembers(parts, nodes.filter(({ self }) => !self), {
    path, caller, signal, ms, bytes: PEER_BYTES, read: (text) => read(JSON.parse(text))
  })
  const self = async (node: NodeView): Promise<PeerAnswer<T>> =>
    ({ node, value: await own(), error: null, tookMs: null, clock: null })
  const others = asked.map(async (answer) => peerAnswer(await answer, timeOf))
  return await Promise.all([...nodes.filter((node) => node.self).map(self), ...others])
}

function peerAnswer<T> (answer: MemberAnswer<T>, timeOf: (value: T) => string): PeerAnswer<T> {
  const { node, sentAt, tookMs, value, error } = answer
  const nothing = { node, value: null, tookMs: null, clock: null }
  if (error !== null) return { ...nothing, error: faultOf(node, error) }
  const arrivedMs = Date.parse(timeOf(value))
  if (Number.isNaN(arrivedMs)) {
    return { ...nothing, error: { reason: 'garbage', message: 'The answer has no time.' } }
  }
  const clock = clockOffset(boundsOf({ sentMs: sentAt, arrivedMs, backMs: sentAt + tookMs }))
  return { node, value, error: null, tookMs, clock }
}

function faultOf ({ live }: NodeView, error: MemberFault | SvcError): PeerFault {
  if (!live) return { reason: 'no_sign_of_life', message: 'The node gives no sign of life.' }
  if (error instanceof MemberFault) return { reason: error.reason, message: `The node ${error.message}.` }
  return { reason: 'unreachable', message: error.message.slice(0, 500) }
}
