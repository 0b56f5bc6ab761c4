import { randomUUID } from 'node:crypto'
import { TICK_MS } from './limits.js'
import { createReplication } from './replication.js'
import { reportLife } from './liveness.js'
import type { Clock, Cluster, EventTap, Logger, Session } from '../../kernel/index.js'
import type { Found } from './catchup.js'
import type { Position } from './entries.js'
import type { EventLog } from './log.js'
import type { Outgoing } from './messages.js'
import type { Input, Output, Replication } from './steps.js'

export interface FeedOptions {
  log: EventLog
  tap: EventTap
  cluster: Cluster
  session: Session
  clock: Clock
  logger: Logger
  /** Node id of this node, new at each start: the origin of its events. */
  nodeId: string
  /** Events of this node between two indices were dropped. */
  dropped: (gap: { from: number, to: number, count: number }) => void
  /** Finds entries that are no longer in memory. Without it they count as gone. */
  find?: (have: readonly Position[]) => Promise<Found>
  /** Resolves when the store has room for more entries; null when it has room now. */
  room?: () => Promise<void> | null
  /** New events get indices above this one; 0 when absent. */
  reserved?: number
}

/**
 * Connects the replication to the kernel: durable events of this node and messages of other nodes go in,
 * messages go out.
 */
export function startFeed (options: FeedOptions): { replication: Replication, stop: () => void } {
  const { log, tap, cluster, session, clock, nodeId } = options
  const replication = createReplication(log, options.reserved)
  const channel = cluster.channel<Outgoing>('event-log', (from, message) => {
    push({ type: 'message', from, message })
  })
  const waking = earliest(clock, () => { push({ type: 'tick' }) })
  const effect = (output: Output): void => {
    switch (output.type) {
      // A message that is lost is asked for, or sent, again.
      case 'send': send(output.to, output.message); break
      case 'feed':
        push({ type: 'fed', to: output.to, ok: channel.send(output.to, output.message) })
        break
      case 'find': find(output.to, output.have); break
      case 'wake': waking.within(output.ms); break
      case 'dropped': {
        const { from, to, count } = output
        options.logger.warn({ from, to, count }, 'events were dropped: too many at once, or too large')
        options.dropped({ from, to, count })
      }
    }
  }
  const send = (to: string, message: Outgoing): void => {
    const asks = message.type === 'want' || message.type === 'took'
    const room = asks ? options.room?.() ?? null : null
    if (room === null) channel.send(to, message)
    else void room.then(() => { channel.send(to, message) })
  }
  const find = (to: string, have: readonly Position[]): void => {
    const { find: look = async () => NOTHING } = options
    void look(have).catch(() => NOTHING).then(({ base, entries }) => {
      push({ type: 'found', to, base, entries })
    })
  }
  const push = queued((input: Input) => {
    for (const output of replication.step(input, clock.mono())) effect(output)
  })
  const look = (): void => {
    const { sessionId: sid, isMaster, masterNodeId } = session
    const master = masterNodeId === null ? null : cluster.masterInstallId
    push({ type: 'session', sid, isMaster, master })
  }
  for (const node of cluster.nodes()) {
    if (!node.self && node.live) push({ type: 'peerUp', peer: node.installId })
  }
  look()
  const stops = [
    tap.onDurable(({ kind, payload }) => {
      const at = new Date(clock.now()).toISOString()
      const submission = { id: randomUUID(), at, origin: nodeId, event: { [kind]: payload } }
      push({ type: 'local', submission })
    }),
    cluster.onPeers(({ installId, up }) => { push({ type: up ? 'peerUp' : 'peerDown', peer: installId }) }),
    session.onChange(look),
    reportLife(log, cluster, clock, nodeId),
    clock.every(TICK_MS, () => {
      look()
      push({ type: 'tick' })
    }),
    // At the stop: entries that wait to be sent in one message leave now.
    () => { push({ type: 'tick' }) },
    () => { channel.close() },
    waking.cancel
  ]
  return { replication, stop: () => { for (const stop of stops) stop() } }
}

/** Calls `fn` once, at the earliest of the times that were asked for. */
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

/** What is found in a store that does not answer. */
const NOTHING: Found = { base: null, entries: [] }

/** Handles one input at a time: those that come up meanwhile wait for their turn. */
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
