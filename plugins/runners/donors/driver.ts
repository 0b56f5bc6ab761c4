import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { isOwnServer, kernelError, waitForCallback, whileLive } from '../../../kernel/index.js'
import type { Logger, MemberParts, RouteRequest, Section } from '../../../kernel/index.js'
import { kindOf, serves } from '../process/states.js'
import { reasonOf } from '../process/errors.js'
import type { RunnerStatus } from '../service.js'
import type { routes } from '../routes.js'
import type { Assignment } from '../instances/shapes.js'
import type { RankRef, Role } from './role.js'
import {
  LOOPBACK, NODE_CALLER, receive, send, STALL_MS, TUNNEL_TYPE, TUNNELS_MAX, TUNNELS_PATH
} from './tunnel.js'

/** Limit in ms on the wait until a donor accepts a connection; a rank of a gang does so after its start. */
const HEAD_MS = 1_200_000

export interface DriverParts extends MemberParts {
  runners: Section<RunnerStatus>
  log: Logger
  newId (): string
  /** Called when a donor has restarted or its connection has broken: the driver must then restart too. */
  lost (assignment: Assignment, message: string): void
}

type Driver = Role & { kind: 'driver' }

/** A connection from the driver, whose bytes the donor has not fetched yet. */
export interface Feed { socket: Socket, installId: string }

/** A driver on this node: a local port per donor, and the controller that cancels the wait for donors. */
export interface Entry {
  ports: DonorPort[]
  end: AbortController
  /** Id of the driver process; each restart gets a new one. */
  run: string
}

export type RpcDrivers = ReturnType<typeof createDrivers>

/**
 * The drivers on this node. Waits for each driver's donors and opens a local port to each donor, tunnelled
 * over the link between the nodes.
 */
export function createDrivers (parts: DriverParts) {
  const feeds = new Map<string, Feed>()
  const entries = new Map<string, Entry>()
  const release = (runnerId: string): void => {
    const entry = entries.get(runnerId)
    entries.delete(runnerId)
    entry?.end.abort()
    for (const port of entry?.ports ?? []) port.close()
  }
  return {
    /**
     * Resolves when every donor is ready and has a local port, or when the runner is released. Calls `waits`
     * with the missing donors each time their list changes.
     */
    async prepare (
      assignment: Assignment, { donors }: Driver, waits: (message: string) => void = () => {}
    ): Promise<void> {
      const { runnerId, instanceId } = assignment
      const entry: Entry = { ports: [], end: new AbortController(), run: parts.newId() }
      const { signal } = entry.end
      const lost = (message: string): void => {
        if (signal.aborted) return
        release(runnerId)
        parts.lost(assignment, message)
      }
      release(runnerId)
      entries.set(runnerId, entry)
      await whileDonors(parts, donors, signal, isWaiting(parts, waits))
      for (const donor of donors) {
        if (signal.aborted) return
        const port = await openPort({ ...parts, entry, feeds, broke: lost }, instanceId, donor)
        if (signal.aborted) port.close()
        else entry.ports.push(port)
      }
      void whileDonors(parts, donors, signal, (missing) => missing.length === 0)
        .then((missing) => { lost(notReadyText(parts, missing.slice(0, 1))) })
    },
    /** The shares and addresses of the donors as engine options; null before `prepare`. */
    plan (runnerId: string, { kind: _, donors, ...own }: Driver): Record<string, unknown> | null {
      const ports = entries.get(runnerId)?.ports ?? []
      if (ports.length !== donors.length) return null
      return {
        ...own,
        donors: ports.map(({ port }, i) => {
          const { nodeId: _node, runnerId: _runner, ...share } = donors[i]!
          return { address: `${LOOPBACK}:${port}`, ...share }
        })
      }
    },
    /** Call when the driver process starts or restarts, because its donors must start a new run as well. */
    begins (runnerId: string): void {
      const entry = entries.get(runnerId)
      if (entry !== undefined) entry.run = parts.newId()
    },
    release,
    /** Opens a local port to a rank of a gang; `broke` is called if an accepted connection breaks. */
    forward: async (of: Pick<PortParts, 'entry' | 'broke'>, instanceId: string, to: RankRef) =>
      await openPort({ ...parts, ...of, feeds }, instanceId, to),
    /** Handler of GET /runners/donors/:feed_id: the bytes a driver sends to its donor. */
    async feed (request: RouteRequest<typeof routes.feed>): Promise<void> {
      const { params: { feed_id: id }, member } = request
      const feed = feeds.get(id)
      if (member === null || feed?.installId !== member) throw kernelError('not_found')
      feeds.delete(id)
      const stream = request.open({ contentType: TUNNEL_TYPE, stallMs: STALL_MS })
      await send(feed.socket, stream).catch(() => { feed.socket.destroy() })
    }
  }
}

/** True while donors are missing; calls `waits` each time their list changes. */
export function isWaiting (
  parts: MemberParts, waits: (message: string) => void
): (missing: readonly RankRef[]) => boolean {
  let lastMessage = ''
  return (missing) => {
    const message = notReadyText(parts, missing)
    if (missing.length > 0 && message !== lastMessage) waits(message)
    lastMessage = message
    return missing.length > 0
  }
}

/** Waits while `holds` is true for the donors that are not ready; returns them, also if the signal aborts. */
export async function whileDonors (
  { runners }: Pick<DriverParts, 'runners'>, donors: readonly RankRef[], signal: AbortSignal,
  holds: (missing: readonly RankRef[]) => boolean
): Promise<readonly RankRef[]> {
  for (;;) {
    const missing = donors.filter((donor) => !isReady(runners, donor))
    if (signal.aborted || !holds(missing)) return missing
    await waitForCallback((callback) => runners.observe(callback), signal)
  }
}

const notReadyText = ({ cluster }: MemberParts, donors: readonly RankRef[]): string =>
  `the rank on ${donors.map(({ nodeId }) => cluster.resolve(nodeId)?.name ?? nodeId).join(', ')} is not ready`

function isReady (runners: Section<RunnerStatus>, { nodeId, runnerId }: RankRef): boolean {
  const status = runners.get(runnerId, nodeId)
  return status !== undefined && serves(kindOf(status))
}

export interface DonorPort { port: number, close (): void }
export type PortParts = DriverParts & {
  entry: Pick<Entry, 'run'>
  feeds: Map<string, Feed>
  broke: (message: string) => void
}

async function openPort (parts: PortParts, instanceId: string, donor: RankRef): Promise<DonorPort> {
  const sockets = new Set<Socket>()
  const server = isOwnServer(createServer({ noDelay: true }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('close', () => { sockets.delete(socket) })
    void pass(parts, instanceId, donor, socket)
  }))
  server.maxConnections = TUNNELS_MAX
  await once(server.listen(0, LOOPBACK), 'listening')
  const { port } = server.address() as AddressInfo
  return {
    port,
    close () {
      server.close()
      for (const socket of sockets) socket.destroy()
    }
  }
}

/**
 * Tunnels one connection to its donor until either side or the link between the nodes closes. The driver's
 * program does not survive a lost connection, so `broke` is called for a connection that the program did not
 * close itself.
 */
async function pass (parts: PortParts, instanceId: string, donor: RankRef, socket: Socket): Promise<void> {
  const { cluster, feeds, log, broke, entry: { run } } = parts
  const { nodeId, runnerId } = donor
  const feedId = parts.newId()
  const closed = new AbortController()
  socket.once('close', () => { closed.abort() })
  let left = false
  for (const event of ['end', 'error'] as const) socket.once(event, () => { left = true })
  const installId = cluster.resolve(nodeId)?.installId
  if (installId === undefined) {
    socket.destroy()
    return
  }
  const { signal, end } = whileLive(parts, installId, closed.signal)
  // Destroy the socket first, because a broken response would be reported as if the driver had disconnected.
  signal.addEventListener('abort', () => { socket.destroy() }, { once: true })
  let carries = false
  try {
    feeds.set(feedId, { socket, installId })
    const answer = await parts.cluster.request(installId, {
      method: 'POST', path: TUNNELS_PATH, body: { instanceId, runnerId, feedId, run }, caller: NODE_CALLER,
      signal, timeoutMs: HEAD_MS
    })
    if (answer.status !== 200) throw new Error(`it answered ${answer.status}`)
    carries = true
    await receive(answer.body, socket)
  } catch (error) {
    if (!signal.aborted) {
      log.warn({ instanceId, runnerId, nodeId, error: reasonOf(error) }, 'the connection to a donor failed')
    }
  } finally {
    end()
    feeds.delete(feedId)
    if (carries && !left) broke(`the connection to the rank on ${nodeId} broke`)
  }
}
