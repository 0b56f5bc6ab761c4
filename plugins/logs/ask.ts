import { MemberFault, openMember, serverEvents, SvcError } from '../../kernel/index.js'
import type { Caller, Clock, Cluster, NodeView, ServerEvent } from '../../kernel/index.js'
import { EVENT_CHARS, PAGE_MS, NODE_TIMEOUT_MS } from './limits.js'
import { readLine } from './lines.js'
import type { Gap, NodeRef, NodeStatus, Step } from './lines.js'

export interface AskParts { cluster: Pick<Cluster, 'request'>, clock: Clock }

/** The caller whose credentials other nodes get, and the signal that aborts the requests. */
export interface LogRequester { readonly caller: Caller, readonly signal: AbortSignal }

export const refOf = ({ nodeId, name }: NodeView): NodeRef => ({ nodeId, node: name })

/** The status of a node whose log could not be read. */
export function statusOf (node: NodeRef, error: unknown): NodeStatus {
  if (error instanceof SvcError) {
    return { ...node, error: { reason: error.reason, message: error.message } }
  }
  const { reason, message } = error instanceof MemberFault
    ? error
    : { reason: 'garbage', message: 'sent an invalid response' }
  return { ...node, error: { reason, message: `It ${message}.` } }
}

/**
 * Follows another node's log until its response ends. Throws an Error when the node leaves, sends nothing for
 * NODE_TIMEOUT_MS or sends invalid data.
 */
export async function * remoteSteps (
  parts: AskParts, node: NodeView, path: string, requester: LogRequester
): AsyncGenerator<Step> {
  const silent = new AbortController()
  let lastEventAt = parts.clock.mono()
  const stopWatching = parts.clock.every(NODE_TIMEOUT_MS / 3, () => {
    if (parts.clock.mono() - lastEventAt < NODE_TIMEOUT_MS) return
    silent.abort(new MemberFault('timeout', `has sent nothing for ${NODE_TIMEOUT_MS / 1000} s`))
  })
  try {
    const signal = AbortSignal.any([requester.signal, silent.signal])
    if (!node.live) throw new MemberFault('unreachable', 'gives no sign of life')
    const { caller } = requester
    const bytes = await openMember(parts.cluster, node, { path, caller, signal, ms: PAGE_MS })
    for await (const event of serverEvents(bytes, EVENT_CHARS)) {
      lastEventAt = parts.clock.mono()
      yield stepOf(event, refOf(node))
      // Do not count the time that the consumer took to process the event as silence.
      lastEventAt = parts.clock.mono()
    }
  } catch (error) {
    throw silent.signal.aborted ? silent.signal.reason : error
  } finally {
    stopWatching()
  }
}

function stepOf (event: ServerEvent, node: NodeRef): Step {
  if (event.kind === 'comment') return { lines: [], lost: 0 }
  const value = JSON.parse(event.data) as unknown
  if (event.type === 'gap') {
    return { lines: [], lost: Math.max(0, Math.floor(Number((value as Gap).lost)) || 0) }
  }
  const line = readLine(value, node)
  if (line === null) throw new MemberFault('garbage', 'sent an invalid log line')
  return { lines: [line], lost: 0 }
}
