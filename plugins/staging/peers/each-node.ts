import { askMembers, MemberFault } from '../../../kernel/index.js'
import type { AskMemberParts, Clock, MemberFetch, NodeView } from '../../../kernel/index.js'

const ANSWER_BYTES = 4 * 1024 * 1024

/** A request to several nodes. It has no abort signal, so it continues if the client disconnects. */
export interface EachNode<T> extends Omit<MemberFetch, 'signal'> {
  here: () => Promise<T>
  /** Extracts the result from another node's answer; throws if it is missing. */
  read: (body: unknown) => T
  failed: (node: NodeView, message: string) => T
}

/** Runs `here` on this node and the request on the others; calls `failed` for a node that does not answer. */
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

export function onlyNode<T> (answer: unknown): T {
  const [first] = (answer as { nodes?: T[] } | null)?.nodes ?? []
  if (first === undefined) throw new Error('its response has no result')
  return first
}

export function peerErrorText (error: Error): Error {
  return error instanceof MemberFault ? new Error(error.refusal?.message || `it ${error.message}`) : error
}
