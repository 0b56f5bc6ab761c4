import { kernelError, MemberFault, openMember, waitForCallback, whileLive } from '../../kernel/index.js'
import { BATCH_LINES, COMMENT_MS, PAGE_MS } from './limits.js'
import type { Clock, Cluster, LogRing, NodeView, RouteRequest, StreamWriter } from '../../kernel/index.js'
import { pageOf, type Gap, type NodeRef, type ShownLine } from './lines.js'
import { pathFor, seqAt, wantOf, type Query } from './query.js'

export const EVENTS = { contentType: 'text/event-stream' }

/** Writes this node's log as server-sent events; an event `gap` counts lines that the ring dropped. */
export async function follow (
  stream: StreamWriter, { ring, self, clock }: { ring: LogRing, self: NodeRef, clock: Clock }, query: Query,
  signal: AbortSignal
): Promise<void> {
  const { want, position: given } = query
  await stream.write(': following\n\n')
  let position = given === null ? ring.nextSeq - 1 : Math.min(seqAt(given, self.nodeId), ring.nextSeq - 1)
  if (given === null) {
    const { lines } = pageOf(ring, self, wantOf(query, self.nodeId))
    await stream.write(lines.map(lineFrame).join(''))
  }
  let writtenAt = clock.mono()
  while (!signal.aborted) {
    const lost = Math.max(0, ring.firstSeq - 1 - position)
    const { nextSeq } = ring
    const found = ring.lines({ ...want, afterSeq: position, limit: BATCH_LINES })
    position = found.length < BATCH_LINES ? nextSeq - 1 : found.at(-1)!.seq
    if (found.length === 0 && lost === 0 && clock.mono() - writtenAt < COMMENT_MS) {
      await waitForCallback((fn) => ring.onLine(fn), signal, { clock, ms: COMMENT_MS })
      continue
    }
    if (lost > 0) await stream.write(gapFrame({ ...self, lost }))
    const lines = found.map((line) => lineFrame({ ...self, ...line })).join('')
    await stream.write(found.length > 0 ? lines : ': keep-alive\n\n')
    writtenAt = clock.mono()
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
