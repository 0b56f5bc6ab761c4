import { kernelError, MemberFault, openMember, whileLive } from '../../kernel/index.js'
import { PAGE_MS } from './limits.js'
import type { Clock, Cluster, LogRing, NodeView, RouteRequest, StreamWriter } from '../../kernel/index.js'
import { pageOf, localSteps, type Gap, type NodeRef, type ShownLine } from './lines.js'
import { pathFor, seqAt, wantOf, type Query } from './query.js'

export const EVENTS = { contentType: 'text/event-stream' }

export interface FollowParts { ring: LogRing, self: NodeRef, clock: Clock }

/**
 * Writes this node's log as server-sent events until the client leaves or the node stops. Lines that the ring
 * dropped while the client was slow become an event `gap`.
 */
export async function follow (
  stream: StreamWriter, { ring, self, clock }: FollowParts, query: Query, signal: AbortSignal
): Promise<void> {
  const { want, position } = query
  await stream.write(': following\n\n')
  let afterSeq = position === null ? 0 : seqAt(position, self.nodeId)
  if (position === null) {
    const page = pageOf(ring, self, wantOf(query, self.nodeId))
    afterSeq = page.nextSeq - 1
    await stream.write(page.lines.map(lineFrame).join(''))
  }
  for await (const { lines, lost } of localSteps({ ring, self, clock, want, afterSeq, signal })) {
    if (lost > 0) await stream.write(gapFrame({ ...self, lost }))
    await stream.write(lines.length > 0 ? lines.map(lineFrame).join('') : ': keep-alive\n\n')
  }
}

/** Passes on another node's stream until either end leaves. Throws `unreachable` if it does not begin. */
export async function followMember (
  request: Pick<RouteRequest, 'caller' | 'signal' | 'open'>,
  { cluster, clock }: { cluster: Pick<Cluster, 'request' | 'resolve'>, clock: Clock }, node: NodeView,
  query: Query
): Promise<void> {
  const { signal, end } = whileLive({ cluster, clock }, node.installId, request.signal)
  try {
    const asked = { path: pathFor(query), caller: request.caller, signal, ms: PAGE_MS }
    const bytes = await openMember(cluster, node, asked).catch((error: unknown) => {
      if (!(error instanceof MemberFault)) throw error
      throw kernelError('unreachable', `The node "${node.name}" ${error.message}.`)
    })
    const stream = request.open(EVENTS)
    for await (const part of bytes) await stream.write(part)
  } finally {
    end()
  }
}

/** A log line as a server-sent event, whose id is a valid `since`. */
const lineFrame = (line: ShownLine): string =>
  `id: ${line.nodeId}:${line.seq}\ndata: ${JSON.stringify(line)}\n\n`

const gapFrame = (gap: Gap): string => `event: gap\ndata: ${JSON.stringify(gap)}\n\n`
