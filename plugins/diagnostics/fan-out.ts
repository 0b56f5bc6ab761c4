import { askMember, MemberFault, SvcError } from '../../kernel/index.js'
import type { Caller, Clock, Cluster, NodeView } from '../../kernel/index.js'

/** How long one node may take for its whole answer, ms. */
export const PEER_MS = 3000
/** Longest answer of a node that is read, bytes. */
export const PEER_BYTES = 8 * 1024 ** 2

/** Why there is nothing of a node. */
export interface PeerFault {
  reason: 'no_sign_of_life' | MemberFault['reason']
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
  parts: FanOutParts, node: NodeView, { path, caller, signal, read, timeOf }: Question<T>
): Promise<PeerAnswer<T>> {
  const { clock } = parts
  const nothing = { node, value: null, tookMs: null, clock: null }
  const [sentAt, since] = [clock.now(), clock.mono()]
  try {
    const text = await askMember(parts, node, { path, caller, signal, ms: PEER_MS, bytes: PEER_BYTES })
    const tookMs = clock.mono() - since
    const value = readAs(text, read)
    const middle = sentAt + tookMs / 2
    const aheadMs = Date.parse(timeOf(value)) - middle
    if (Number.isNaN(aheadMs)) {
      return { ...nothing, error: { reason: 'garbage', message: 'The answer says no time.' } }
    }
    return { node, value, error: null, tookMs, clock: { aheadMs, uncertaintyMs: tookMs / 2 } }
  } catch (error) {
    return { ...nothing, error: faultOf(error) }
  }
}

function faultOf (error: unknown): PeerFault {
  if (error instanceof MemberFault) return { reason: error.reason, message: `The node ${error.message}.` }
  const message = error instanceof SvcError ? error.message : 'The connection broke off.'
  return { reason: 'unreachable', message: message.slice(0, 500) }
}

function readAs<T> (text: string, read: (sent: unknown) => T | null): T {
  let value: T | null = null
  try {
    value = read(JSON.parse(text))
  } catch { /* Told below. */ }
  if (value === null) throw new MemberFault('garbage', 'answered with something else than was asked for')
  return value
}
