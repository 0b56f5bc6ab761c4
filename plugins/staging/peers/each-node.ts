import { askMembers, MemberFault } from '../../../kernel/index.js'
import type { AskMemberParts, Clock, MemberFetch, NodeView } from '../../../kernel/index.js'

const ANSWER_BYTES = 4 * 1024 * 1024

/** What every node is to do. It goes on where the client that asked for it goes away. */
export interface EachNode<T> extends Omit<MemberFetch, 'signal'> {
  here: () => Promise<T>
  /** The part of another node's answer that counts; throws where it lacks that. */
  read: (body: unknown) => T
  failed: (node: NodeView, message: string) => T
}

/** Has every node do something; whoever does not answer in time is named, and nobody waits for it longer. */
export async function eachNode<T> (
  parts: AskMemberParts & { clock: Clock }, nodes: readonly NodeView[],
  { here, read, failed, ...question }: EachNode<T>
): Promise<T[]> {
  const other = async (node: NodeView): Promise<T> => {
    const [answer] = askMembers(parts, [node], {
      ...question, refusals: true, bytes: ANSWER_BYTES, signal: new AbortController().signal,
      read: (text) => ({ said: read(JSON.parse(text)) })
    })
    const { value, error } = await answer!
    return value === null ? failed(node, peerErrorText(error).message) : value.said
  }
  return await Promise.all(nodes.map(async (node) => node.self
    ? await here().catch((error: unknown) => failed(node, (error as Error).message))
    : await other(node)))
}

/** The one entry of `nodes` in the answer of a node that spoke for itself. Throws when there is none. */
export function onlyNode<T> (answer: unknown): T {
  const [first] = (answer as { nodes?: T[] } | null)?.nodes ?? []
  if (first === undefined) throw new Error('it said nothing of itself')
  return first
}

/** Why a node did not do what it was asked, as a sentence; in its own words where it has any. */
export function peerErrorText (error: Error): Error {
  return error instanceof MemberFault ? new Error(error.refusal?.message || `it ${error.message}`) : error
}
