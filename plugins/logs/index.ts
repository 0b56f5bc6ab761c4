import { randomInt } from 'node:crypto'
import {
  closedObject, ClusterService, definePlugin, LogRingService, logLevels, noSuchNode, askMembers, MemberFault,
  type Cluster, type NodeView, type Caller, type Clock, type LogRing, kernelError, openMember,
  waitForCallback, whileLive, type RouteRequest, type StreamWriter
} from '../../kernel/index.js'
import {
  pageOf, inOrder, readPage, type ClusterPage, type LogPage, type NodeRef, type ShownLine, type Gap
} from './lines.js'
import { badSince, readQuery, wantOf, pathFor, type Query, seqAt } from './query.js'
import { routes } from './routes.js'
import { ShippingService } from './service.js'
import { LogShipper } from './ship.js'
import { PAGE_BYTES, PAGE_MS, BATCH_LINES, COMMENT_MS } from './limits.js'

export default definePlugin({
  name: 'logs',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Shows the newest log lines of all nodes and their runners, and ships them to a log receiver.',
  consumes: { ring: LogRingService, cluster: ClusterService },
  provides: { shipping: ShippingService },
  routes,
  tools: {
    logs: {
      summary: 'The newest log lines of all nodes: warnings and errors, unless a level is given.',
      args: closedObject({
        node: { type: 'string', minLength: 1, maxLength: 100, description: 'Lines of this node.' },
        model: { type: 'string', minLength: 1, maxLength: 200, description: 'Lines about this model.' },
        from: {
          type: 'string', minLength: 1, maxLength: 40,
          description: 'Lines since this time (ISO-8601), or since a span ago such as 10m.'
        },
        level: { enum: [...logLevels], description: 'Lowest level.' }
      }, []),
      load: () => import('./tools/logs.js')
    }
  },
  verbs: {
    logs: {
      heading: 'Watch it',
      summary: 'show the newest log lines of all nodes, sorted by time; follow those of one node',
      options: [
        ['-f, --follow', 'print new lines of one node as they are written: of --node, or of this node'],
        ['--since <when>', 'a duration such as 10m, or a time'],
        ['--node <ref>', 'only this node: id, name or local'],
        ['--model <id>', 'only lines about this model, including the output of its runners'],
        ['--plugin <name>', 'only lines of this plugin'],
        ['--level <level>', 'lowest level: trace, debug, info, warn, error or fatal'],
        ['--grep <pattern>', 'only lines that match this regular expression, ignoring case'],
        ['--limit <n>', 'number of newest lines (200; 1000 with --since; 20 with -f)']
      ],
      examples: [
        'svc logs --since 10m --level warn', 'svc logs -f --node attic',
        'svc logs -f --model acme/chat --json', 'svc logs --grep "evict|purge"'
      ],
      load: () => import('./cli/logs.js')
    }
  }
}, (ctx) => {
  const { ring, cluster } = ctx.deps
  const { clock } = ctx
  const self = { nodeId: ctx.node.nodeId, node: ctx.node.name }
  const shipper = ring.ingestUrl === undefined ? null
    : new LogShipper({
        url: ring.ingestUrl, clock, random: () => randomInt(2 ** 32) / 2 ** 32, log: ctx.log
      })
  if (shipper !== null) ring.sendTo(shipper)
  return {
    services: { shipping: { get shipping () { return shipper?.shipping ?? null } } },
    routes: {
      here: async (request) => {
        const query = readQuery(request.query, request.headers['last-event-id'])
        if (!query.follow) return pageOf(ring, self, wantOf(query, self.nodeId))
        await follow(request.open(EVENTS), { ring, self, clock }, query, request.signal)
      },
      cluster: async (request) => {
        const { node, ...raw } = request.query
        const query = readQuery(raw, request.headers['last-event-id'])
        const nodes = nodesFor(cluster, query.follow ? node ?? 'local' : node)
        if (!query.follow) {
          if (query.position !== null) throw badSince(raw.since!, 'a time such as 2026-01-31T08:00:00Z')
          return await gather({ ring, self, cluster, clock }, nodes, query, request)
        }
        if (!nodes[0]!.self) return await followMember(request, { cluster, clock }, nodes[0]!, query)
        await follow(request.open(EVENTS), { ring, self, clock }, query, request.signal)
      }
    }
  }
})

/** The named node, or all nodes. Throws `node_not_found`. */
function nodesFor (cluster: Cluster, ref: string | undefined): readonly NodeView[] {
  if (ref === undefined) return cluster.nodes()
  const node = cluster.resolve(ref)
  if (node === undefined) throw noSuchNode(ref, cluster.nodes())
  return [node]
}

interface ClusterParts {
  ring: LogRing
  self: NodeRef
  cluster: Pick<Cluster, 'nodes' | 'request'>
  clock: Clock
}

const refOf = ({ nodeId, name }: NodeView): NodeRef => ({ nodeId, node: name })

/** The newest matching lines of all nodes, and which nodes did not send theirs. Never throws. */
export async function gather (
  parts: ClusterParts, nodes: readonly NodeView[], query: Query,
  { caller, signal }: { readonly caller: Caller, readonly signal: AbortSignal }
): Promise<ClusterPage> {
  const { ring, self, clock } = parts
  const statuses: ClusterPage['nodes'] = []
  let lines: ShownLine[] = []
  const take = (view: NodeView, page: LogPage): void => {
    statuses.push({ ...refOf(view), error: null })
    // Truncate the lines after each response, so that memory does not grow with the number of nodes.
    lines = inOrder([...lines, ...page.lines]).slice(-query.limit)
  }
  for (const view of nodes.filter((node) => node.self)) {
    take(view, pageOf(ring, self, wantOf(query, self.nodeId)))
  }
  const others = nodes.filter((node) => !node.self)
  const asked = askMembers({ cluster: parts.cluster, clock }, others, {
    path: pathFor(query), caller, signal, ms: PAGE_MS, bytes: PAGE_BYTES,
    read: (text, view) => readPage(text, refOf(view))
  })
  await Promise.all(asked.map(async (answer) => {
    const { node, value, error } = await answer
    if (error === null) return take(node, value)
    const { reason, message } = error
    const text = error instanceof MemberFault ? `It ${message}.` : message
    statuses.push({ ...refOf(node), error: { reason, message: text } })
  }))
  return { nodes: statuses.sort((a, b) => a.node < b.node ? -1 : 1), lines }
}

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
async function followMember (
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
