import type { Clock, LogRing, StreamWriter } from '../../kernel/index.js'
import { pageOf, localSteps, type Gap, type NodeRef, type ShownLine } from './lines.js'
import { seqAt, wantOf, type Query } from './query.js'

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

/** A log line as a server-sent event, whose id is a valid `since`. */
export const lineFrame = (line: ShownLine): string =>
  `id: ${line.nodeId}:${line.seq}\ndata: ${JSON.stringify(line)}\n\n`

export const gapFrame = (gap: Gap): string => `event: gap\ndata: ${JSON.stringify(gap)}\n\n`
