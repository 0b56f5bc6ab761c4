import { askMembers, MemberFault } from '../../kernel/index.js'
import type { AskMemberParts, Caller, Clock, Cluster, FromSchema, NodeView } from '../../kernel/index.js'
import type { routes } from './routes.js'
import type { Decision } from './waiting.js'

type Reply = FromSchema<typeof routes.list.reply>
export type ShownBudget = FromSchema<typeof routes.budget.reply>
/** Pending approvals and budgets of one node. */
export type Listed = Pick<Reply, 'approvals' | 'budgets'>
export type Decided = FromSchema<typeof routes.decide.reply>
export type UnreachableNode = Reply['failed'][number]

interface PeerParts extends AskMemberParts { readonly cluster: Cluster, readonly clock: Clock }
interface Asking { readonly caller: Caller, readonly signal: AbortSignal }

const PEER_MS = 5000
const PEER_BYTES = 1024 * 1024

const others = (cluster: Cluster): NodeView[] => cluster.nodes().filter(({ self, live }) => !self && live)

/** Pending approvals of the other nodes, and the nodes that did not answer. */
export async function listOthers (
  parts: PeerParts, { caller, signal }: Asking
): Promise<{ listed: Listed[], failed: UnreachableNode[] }> {
  const answers = await Promise.all(askMembers(parts, others(parts.cluster), {
    path: '/v1/approvals', caller, signal, ms: PEER_MS, bytes: PEER_BYTES,
    read: (text) => JSON.parse(text) as Listed
  }))
  return {
    listed: answers.flatMap(({ value }) => value ?? []),
    failed: answers.flatMap(({ node: { name }, error }) =>
      error === null ? [] : [{ name, message: error.message }])
  }
}

/**
 * Sends the decision to all other nodes, because only the node that runs the call has the approval. `decided`
 * is null if no other node has it.
 */
export async function decideElsewhere (
  parts: PeerParts, id: string, body: Omit<Decision, 'by'>, { caller, signal }: Asking
): Promise<{ decided: Decided | null, silent: UnreachableNode[] }> {
  const answers = await Promise.all(askMembers(parts, others(parts.cluster), {
    method: 'POST', path: `/v1/approvals/${id}`, body, caller, signal, ms: PEER_MS, bytes: PEER_BYTES,
    read: (text) => JSON.parse(text) as Decided
  }))
  const decided = answers.find(({ value }) => value !== null)?.value ?? null
  const silent = answers.flatMap(({ node: { name }, error }) =>
    error === null || (error instanceof MemberFault && error.status === 404)
      ? []
      : [{ name, message: error.message }])
  return { decided, silent }
}
