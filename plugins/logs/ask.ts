import { MemberFault, openMember, serverEvents, SvcError } from '../../kernel/index.js'
import type { Caller, Clock, Cluster, NodeView, ServerEvent } from '../../kernel/index.js'
import { EVENT_CHARS, PAGE_MS, NODE_TIMEOUT_MS } from './limits.js'
import { readLine } from './lines.js'
import type { Gap, NodeRef, NodeStatus } from './lines.js'
import type { Step } from './steps.js'

export interface AskParts { cluster: Pick<Cluster, 'request'>, clock: Clock }

/** In whose name a node is asked, and until when anybody cares. */
export interface LogRequester { readonly caller: Caller, readonly signal: AbortSignal }

export const refOf = ({ nodeId, name }: NodeView): NodeRef => ({ nodeId, node: name })

/** What to say of a node that gave no lines. */
export function wordOf (node: NodeRef, error: unknown): NodeStatus {
  if (error instanceof SvcError) {
    return { ...node, error: { reason: error.reason, message: error.message } }
  }
  const { reason, message } = error instanceof MemberFault
    ? error
    : { reason: 'garbage', message: 'answered with something that cannot be read' }
  return { ...node, error: { reason, message: `It ${message}.` } }
}

/**
 * The steps of another node's log. Throws an Error when the node leaves, is silent for too long or sends
 * invalid data; ends with its stream.
 */
export async function * remoteSteps (
  parts: AskParts, node: NodeView, path: string, asker: LogRequester
): AsyncGenerator<Step> {
  const silent = new AbortController()
  let heardAt = parts.clock.mono()
  const stopWatching = parts.clock.every(NODE_TIMEOUT_MS / 3, () => {
    if (parts.clock.mono() - heardAt < NODE_TIMEOUT_MS) return
    silent.abort(new MemberFault('timeout', `has said nothing for ${NODE_TIMEOUT_MS / 1000} s`))
  })
  try {
    const signal = AbortSignal.any([asker.signal, silent.signal])
    if (!node.live) throw new MemberFault('unreachable', 'gives no sign of life')
    const bytes = await openMember(parts.cluster, node, { path, caller: asker.caller, signal, ms: PAGE_MS })
    for await (const event of serverEvents(bytes, EVENT_CHARS)) {
      heardAt = parts.clock.mono()
      yield stepOf(event, refOf(node))
      // The reader was busy, so silence until now proves no fault.
      heardAt = parts.clock.mono()
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
  if (line === null) throw new MemberFault('garbage', 'sent something that is no line of a log')
  return { lines: [line], lost: 0 }
}
