import { randomUUID } from 'node:crypto'
import { jsonBytes, samePosition, type Entry, type Position } from '../log/entries.js'
import { fitting, PAGE_ENTRIES, type EventLog } from '../log/log.js'
import { messageReader } from './messages.js'
import { Replication } from './replication.js'
import type { Clock, Cluster, Context, EventTap, Logger, Session } from '../../../kernel/index.js'
import type { Gap } from '../store/gaps.js'
import type { EventStore } from '../store/store.js'
import type { Found, Input, Outgoing, ReplicationHost } from './messages.js'

const TICK_MS = 1_000

/** Number of entries queued for the disk above which a node that catches up delays its next request. */
const MAX_QUEUED = 5_000

/** Maximum ms for which a request waits for the disk; below a new master's timeout for a page. */
const QUEUE_WAIT_MS = 2_000

/** Maximum age in ms of an event that shows its node is alive, and minimum ms between such reports. */
const SIGN_MS = 1_000
const SIGNS_MAX = 256

export interface ReplicationOptions extends Pick<Context, 'checker'> {
  log: EventLog
  store: Pick<EventStore, 'read' | 'flushed' | 'status' | 'reserved'>
  tap: EventTap
  cluster: Cluster
  session: Session
  clock: Clock
  logger: Logger
  /** This node's id, new on each start; the origin of its events. */
  nodeId: string
  /** Called when events from this node between two indices have been dropped. */
  dropped: (gap: Gap) => void
}

/** Feeds the replication with local durable events and messages from other nodes, and sends its messages. */
export function startReplication (
  options: ReplicationOptions
): { replication: Replication, stop: () => void } {
  const { log, store, tap, cluster, session, clock, nodeId } = options
  const read = messageReader(options)
  const channel = cluster.channel<Outgoing>('event-log', (from, raw) => {
    const message = read(raw)
    if (message !== null) push({ type: 'message', from, message })
    return message !== null
  })
  const waking = earliest(clock, () => { push({ type: 'tick' }) })
  const world: ReplicationHost = {
    send (to, message) {
      const pause = message.type === 'want' ? waitForQueue(store, clock) : null
      if (pause === null) return channel.send(to, message)
      void pause.then(() => { channel.send(to, message) })
      return true
    },
    find (search) {
      void findInStore(store, search.want.have).catch(() => NOTHING)
        .then((found) => { push({ type: 'found', search, found }) })
    },
    wake: waking.within,
    dropped (gap) {
      options.logger.warn({ ...gap }, 'events were dropped: too many at once, or too large')
      options.dropped(gap)
    }
  }
  const replication = new Replication(log, world, store.reserved)
  const push = queued((input: Input) => { replication.step(input, clock.mono()) })
  const updateSession = (): void => {
    const { sessionId: sid, isMaster, masterNodeId } = session
    const master = masterNodeId === null ? null : cluster.masterInstallId
    push({ type: 'session', sid, isMaster, master })
  }
  for (const node of cluster.nodes()) {
    if (!node.self && node.live) push({ type: 'peerUp', peer: node.installId })
  }
  updateSession()
  const stops = [
    tap.onDurable(({ kind, payload }) => {
      const at = new Date(clock.now()).toISOString()
      const submission = { id: randomUUID(), at, origin: nodeId, event: { [kind]: payload } }
      push({ type: 'local', submission })
    }),
    cluster.onPeers(({ installId, up }) => { push({ type: up ? 'peerUp' : 'peerDown', peer: installId }) }),
    session.onChange(updateSession),
    reportLife(log, cluster, clock, nodeId),
    clock.every(TICK_MS, () => {
      updateSession()
      push({ type: 'tick' })
    }),
    // The last tick sends entries that still wait to share a message.
    () => { push({ type: 'tick' }) },
    () => { channel.close() },
    waking.cancel
  ]
  return { replication, stop: () => { for (const stop of stops) stop() } }
}

/** Calls `fn` once, at the earliest of the requested times. */
function earliest (clock: Clock, fn: () => void): { within: (ms: number) => void, cancel: () => void } {
  let at = Infinity
  let cancel = (): void => {}
  return {
    within (ms) {
      if (clock.mono() + ms >= at) return
      cancel()
      at = clock.mono() + ms
      cancel = clock.after(ms, () => {
        at = Infinity
        fn()
      })
    },
    cancel: () => { cancel() }
  }
}

/** Handles one input at a time; inputs that arrive during a step are queued. */
function queued (handle: (input: Input) => void): (input: Input) => void {
  const inputs: Input[] = []
  let busy = false
  return (input) => {
    inputs.push(input)
    if (busy) return
    busy = true
    try {
      for (let next = inputs.shift(); next !== undefined; next = inputs.shift()) handle(next)
    } finally {
      busy = false
    }
  }
}

const NOTHING: Found = { base: null, entries: [] }

/** Finds the newest of these positions in the store, and the page after it. Rejects if the disk fails. */
export async function findInStore (
  store: Pick<EventStore, 'read'>, have: readonly Position[]
): Promise<Found> {
  for (const position of have) {
    const [first, ...rest] = await store.read({ after: position.idx - 1, limit: PAGE_ENTRIES + 1 })
    if (first === undefined) continue
    if (position.idx === 0 && first.prev === 0) {
      return { base: position, entries: unbroken(position, [first, ...rest]) }
    }
    if (samePosition(first, position)) return { base: position, entries: unbroken(position, rest) }
  }
  return NOTHING
}

/** The entries after the position without a gap, as many as fit into one message. */
function unbroken (base: Position, entries: readonly Entry[]): Entry[] {
  const end = entries.findIndex(({ prev }, i) => prev !== (entries[i - 1] ?? base).idx)
  return fitting(end < 0 ? entries : entries.slice(0, end), jsonBytes)
}

/** Waits up to 2 s for a long queue, so that catching up is no faster than the disk; null if it is short. */
export function waitForQueue (store: Pick<EventStore, 'status' | 'flushed'>,
  clock: Clock): Promise<void> | null {
  if (store.status().queued < MAX_QUEUED) return null
  return new Promise((resolve) => {
    const cancel = clock.after(QUEUE_WAIT_MS, resolve)
    void store.flushed().then(() => {
      cancel()
      resolve()
    })
  })
}

/** Reports recent events as signs of life of their nodes. Returns a function that stops it. */
function reportLife (log: EventLog, cluster: Pick<Cluster, 'lives'>, clock: Clock, self: string): () => void {
  const reported = new Map<string, number>()
  return log.onChange((change) => {
    if (change.type !== 'append') return
    const { origin, at } = change.entry
    const now = clock.mono()
    if (origin === self || now - (reported.get(origin) ?? -Infinity) < SIGN_MS) return
    // `at` is by the origin's clock; if the clocks differ, only heartbeats show that the node is alive.
    if (!(Math.abs(clock.now() - Date.parse(at)) < SIGN_MS)) return
    // Node ids change with each start, so drop old ones when the map is full.
    if (reported.size >= SIGNS_MAX) reported.clear()
    reported.set(origin, now)
    cluster.lives(origin)
  })
}
