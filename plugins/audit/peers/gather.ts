import { askMembers, MemberFault, openMember, SvcError } from '../../../kernel/index.js'
import { splitLines } from '../chain/files.js'
import { Verifier } from '../chain/verify.js'
import type { AskMemberParts, Caller, Clock, Cluster, NodeView } from '../../../kernel/index.js'
import type { Chain } from '../chain/chain.js'
import type { Entry, EntryFilter } from '../chain/entries.js'
import type { Checked } from '../chain/verify.js'

export interface GatherParts extends AskMemberParts {
  readonly cluster: Pick<Cluster, 'nodes' | 'request' | 'resolve'>
  readonly clock: Clock
  readonly chain: Chain
}

export interface Asking { readonly caller: Caller, readonly signal: AbortSignal }

export interface Missing { readonly node: string, readonly name: string, readonly message: string }

const ANSWER_MS = 5000
const ANSWER_BYTES = 16 * 1024 * 1024
/** Timeout in ms for the start of a node's export. */
const EXPORT_MS = 15_000

/** Matching entries from other nodes, and the nodes that did not answer. */
export async function entriesOfOthers (
  parts: GatherParts, nodes: readonly NodeView[], { since, who, limit }: EntryFilter,
  { caller, signal }: Asking
): Promise<{ entries: Entry[], failed: Missing[] }> {
  const query = new URLSearchParams({
    limit: String(limit), ...since === null ? {} : { since }, ...who === null ? {} : { who }
  })
  const answers = await Promise.all(askMembers(parts, nodes, {
    path: `/v1/audit?${query.toString()}`, caller, signal, ms: ANSWER_MS, bytes: ANSWER_BYTES,
    read: (text) => (JSON.parse(text) as { entries?: Entry[] }).entries ?? null
  }))
  const failed = answers.flatMap(({ node, error }) => error === null ? [] : [missing(node, error)])
  return { entries: answers.flatMap(({ value }) => value ?? []), failed }
}

/** The lines from another node's chain. Throws MemberFault, SvcError. */
export async function * linesOfMember (
  { cluster }: Pick<GatherParts, 'cluster'>, node: NodeView, { caller, signal }: Asking
): AsyncGenerator<string> {
  if (!node.live) throw new MemberFault('unreachable', 'gives no sign of life')
  const path = '/v1/audit/export'
  yield * splitLines(await openMember(cluster, node, { path, caller, signal, ms: EXPORT_MS }))
}

/** Verifies the nodes' chains on this node. */
export async function verifyNodes (
  parts: GatherParts, nodes: readonly NodeView[], asking: Asking
): Promise<Checked[]> {
  return await Promise.all(nodes.map(async (node): Promise<Checked> => {
    const about = { node: node.installId, name: node.name }
    const verifier = new Verifier()
    try {
      const lines = node.self ? parts.chain.lines() : linesOfMember(parts, node, asking)
      for await (const line of lines) verifier.line(line)
      const verdict = verifier.end()
      return { ...about, ...verdict, ok: verdict.fault === null, error: null }
    } catch (error) {
      const { message } = missing(node, error)
      return { ...about, ok: null, records: 0, first: null, last: null, fault: null, error: message }
    }
  }))
}

function missing ({ installId, name }: NodeView, error: unknown): Missing {
  const known = error instanceof MemberFault || error instanceof SvcError || error instanceof RangeError
  const message = known ? error.message : 'its chain could not be read'
  return { node: installId, name, message }
}
