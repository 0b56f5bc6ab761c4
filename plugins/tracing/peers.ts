import { SvcError } from '../../kernel/index.js'
import type { Caller, Clock, Cluster, NodeView } from '../../kernel/index.js'

/** A node that did not answer with what was asked for. */
export interface FailedPeer { nodeId: string, name: string, reason: string, message: string }

/** What the nodes answered; those that have nothing of it are in neither list. */
export interface Asked<T> { answers: { nodeId: string, value: T }[], failed: FailedPeer[] }

export interface PeersParts {
  cluster: Pick<Cluster, 'nodes' | 'request'>
  clock: Clock
}

/** In whose name the nodes are asked, and until when anybody cares. */
export interface Asker { caller: Caller, signal: AbortSignal }

/** How long one node may take for its whole answer. */
const PEER_MS = 3000
/** Longest answer of a node. */
const BODY_BYTES = 32 * 1024 * 1024

/**
 * Asks every live node but this one. `read` answers null for nonsense. A node that refuses, is late or talks
 * nonsense is named, and holds up nobody for longer than its deadline. Never throws.
 */
export async function askPeers<T> (
  parts: PeersParts, path: string, asker: Asker, read: (text: string) => T | null
): Promise<Asked<T>> {
  const peers = parts.cluster.nodes().filter(({ self, live }) => live && !self)
  const asked: Asked<T> = { answers: [], failed: [] }
  await Promise.all(peers.map(async (peer) => {
    const { nodeId, name } = peer
    try {
      const text = await askOne(parts, peer, path, asker)
      if (text === null) return
      const value = read(text)
      if (value === null) throw new PeerError('garbage', 'answered with something that is no such trace')
      asked.answers.push({ nodeId, value })
    } catch (error) {
      const known = error instanceof SvcError || error instanceof PeerError
      const reason = known ? error.reason : 'garbage'
      const message = known ? error.message : 'answered with something that cannot be read'
      asked.failed.push({ nodeId, name, reason, message })
    }
  }))
  return asked
}

class PeerError extends Error {
  readonly reason: string
  constructor (reason: string, message: string) {
    super(message)
    this.name = 'PeerError'
    this.reason = reason
  }
}

/** The text of a node's answer; null when it has no such trace. */
async function askOne (
  { cluster, clock }: PeersParts, { installId }: NodeView, path: string, { caller, signal }: Asker
): Promise<string | null> {
  const late = new AbortController()
  const timeout = new PeerError('timeout', `gave no whole answer within ${PEER_MS / 1000} s`)
  const cancel = clock.after(PEER_MS, () => { late.abort(timeout) })
  const end = AbortSignal.any([signal, late.signal])
  try {
    return await until(end, answerOf(cluster, installId, { path, caller, signal: end }))
  } finally {
    cancel()
    late.abort(timeout)
  }
}

async function answerOf (
  cluster: PeersParts['cluster'], installId: string,
  { path, caller, signal }: { path: string, caller: Caller, signal: AbortSignal }
): Promise<string | null> {
  const { status, body } = await cluster.request(installId, {
    method: 'GET', path, caller, signal, timeoutMs: PEER_MS
  })
  body.on('error', () => {})
  const destroy = (): void => { body.destroy() }
  if (signal.aborted) destroy()
  else signal.addEventListener('abort', destroy, { once: true })
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of body as AsyncIterable<Uint8Array>) {
    size += part.byteLength
    if (size > BODY_BYTES) throw new PeerError('too_large', `answered with over ${BODY_BYTES} bytes`)
    parts.push(part)
  }
  if (status === 404) return null
  if (status !== 200) throw new PeerError('refused', `answered with status ${status}`)
  return Buffer.concat(parts).toString()
}

/** What the work gives, or the signal's reason as soon as it aborts. */
async function until<T> (signal: AbortSignal, work: Promise<T>): Promise<T> {
  signal.throwIfAborted()
  return await new Promise<T>((resolve, reject) => {
    const stop = (): void => { reject(signal.reason as Error) }
    signal.addEventListener('abort', stop, { once: true })
    work.then(resolve, reject).finally(() => { signal.removeEventListener('abort', stop) })
  })
}
