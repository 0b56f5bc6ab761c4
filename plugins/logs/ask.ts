import { MemberFault, SvcError } from '../../kernel/index.js'
import type { Caller, NodeView } from '../../kernel/index.js'
import type { NodeRef, NodeStatus } from './lines.js'

/** The caller whose credentials other nodes get, and the signal that aborts the requests. */
export interface LogRequester { readonly caller: Caller, readonly signal: AbortSignal }

export const refOf = ({ nodeId, name }: NodeView): NodeRef => ({ nodeId, node: name })

/** The status of a node whose log could not be read. */
export function statusOf (node: NodeRef, error: unknown): NodeStatus {
  if (error instanceof SvcError) return { ...node, error: { reason: error.reason, message: error.message } }
  const { reason, message } = error instanceof MemberFault ? error
    : { reason: 'garbage', message: 'sent an invalid response' }
  return { ...node, error: { reason, message: `It ${message}.` } }
}
