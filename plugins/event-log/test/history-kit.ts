import { manualClock, type ManualClock } from '../../../kernel/testing/index.js'
import { entryAfter, type Entry } from '../log/entries.js'
import { Snapshots, stateAt, type StateAt } from '../history/lookup.js'
import { startRecorder } from '../history/recorder.js'
import { EventLog } from '../log/log.js'
import { memoryStore as nowhere } from '../store/opening.js'
import type { Logger } from '../../../kernel/index.js'
import type { EventStore } from '../store/store.js'
import type { Snapshot } from '../store/types.js'

export function chance (seed: number): () => number {
  let state = seed
  return () => {
    state = state + 0x6D2B79F5 | 0
    let mixed = Math.imul(state ^ state >>> 15, 1 | state)
    mixed = mixed + Math.imul(mixed ^ mixed >>> 7, 61 | mixed) ^ mixed
    return ((mixed ^ mixed >>> 14) >>> 0) / 2 ** 32
  }
}

/** A store that keeps everything in memory, in order of arrival. */
export function memoryStore (): EventStore & {
  readonly snapshots: Snapshot[], asked: number, gaps: [number, number][]
  /** Removes the oldest entries, up to that index. */
  drop (idx: number): void
} {
  const entries: Entry[] = []
  const snapshots: Snapshot[] = []
  return {
    reserved: 0,
    snapshots,
    asked: 0,
    gaps: [],
    drop (idx) { while (entries[0] !== undefined && entries[0].idx <= idx) entries.shift() },
    append (more) { entries.push(...more) },
    cut (after) { while ((entries.at(-1)?.idx ?? 0) > after) entries.pop() },
    record (snapshot) { snapshots.push(snapshot) },
    flushed: async () => {},
    async read ({ after, until = Infinity, limit, kinds }) {
      this.asked++
      return entries.filter(({ idx, event }) => idx > after && idx <= until &&
        (kinds === undefined || kinds.some((kind) => kind in event))).slice(0, limit)
    },
    async snapshotBefore (at) {
      return snapshots.findLast((one) => 'idx' in at ? one.idx <= at.idx : one.at <= at.ms) ?? null
    },
    status () {
      const [first] = entries
      const before = first === undefined || first.prev === 0 ? [] : [[1, first.prev] as const]
      return { mode: 'normal', counted: 0, gaps: [...before, ...this.gaps], firstIdx: first?.idx ?? null,
        bytes: 0, queued: 0, dropped: 0 }
    },
    close: async () => {}
  }
}

/** A GET /state response for an operator with these nodes; the first is master. */
export function stateWith (
  nodes: readonly string[], more: Record<string, unknown> = {}
): Record<string, unknown> {
  const identities = Object.fromEntries(nodes.map((id) =>
    [id, { friendlyName: `name-${id}`, apiUrl: `http://${id}:1` }]))
  return {
    sessionId: 's1', masterNodeId: nodes[0] ?? null, localNodeId: nodes[0] ?? null,
    cluster: { term: 1, quorum: 'ok', stale: false }, topology: { nodes, connections: {} }, instances: {},
    runners: {}, nodeIdentities: identities, node_identities: identities, nodeHealth: {}, nodeMemory: {},
    ...more
  }
}

/** An instance as GET /state returns it, on these nodes. */
export function instanceOn (instanceId: string, ...nodeIds: string[]): object {
  const nodeToRunner = Object.fromEntries(nodeIds.map((id) => [id, `${instanceId}-${id}`]))
  const shardAssignments = { modelId: 'acme/x', runnerToShard: {}, nodeToRunner }
  return { RingInstance: { instanceId, shardAssignments, hostsByNode: { n1: ['10.0.0.1'] } } }
}

/** The history of a node with a log and a state from the test. */
export interface HistoryRig {
  log: EventLog
  store: ReturnType<typeof memoryStore>
  clock: ManualClock
  /** The node's current state; null makes reading it fail. */
  state: Record<string, unknown> | null
  /** Duration of a read of the state in ms. */
  readMs: number
  inStep: boolean
  isMaster: boolean
  errors: string[]
  happen (kind: string, payload?: Record<string, unknown>, at?: number): void
  session (): void
  then (at: string | number): Promise<StateAt>
  /** `cause@idx` of each snapshot in the store. */
  taken (): string[]
}

export interface RigOptions {
  log?: EventLog
  /** Whether the store keeps events and snapshots; true by default. */
  stored?: boolean
  disk?: EventStore
  clock?: ManualClock
}

export function startHistoryRig (
  t: { teardown (fn: () => void): unknown },
  { log = new EventLog(), stored = true, disk, clock = manualClock() }: RigOptions = {}
): HistoryRig {
  const store = memoryStore()
  const errors: string[] = []
  const skip = (): void => {}
  const logger: Logger = { debug: skip, info: skip, warn: skip, fatal: skip,
    error: (_, message) => { errors.push(message) } }
  let changed = skip
  const rig: HistoryRig = {
    log, store, clock, errors, state: stateWith(['a', 'b']), readMs: 0, inStep: true, isMaster: true,
    happen (kind, payload = {}, at = clock.now()) {
      const entry = entryAfter(log.last, log.last.idx + 1, String(rig.state?.['sessionId'] ?? 's1'), {
        id: `e${log.last.idx}`, at: new Date(at).toISOString(), event: { [kind]: payload },
        origin: String(rig.state?.['masterNodeId'] ?? 'a')
      })
      log.append(entry)
      ;(disk ?? store).append([entry])
    },
    session: () => { changed() },
    then: async (at) => await stateAt({ log, store: kept, snapshots, clock }, String(at)),
    taken: () => store.snapshots.map(({ cause, idx }) => `${cause}@${idx}`)
  }
  const kept = stored ? disk ?? store : nowhere()
  const snapshots = new Snapshots(kept)
  const stop = startRecorder({
    log, snapshots, clock, logger, inStep: () => rig.inStep,
    session: {
      get isMaster () { return rig.isMaster },
      get masterNodeId () { return rig.state?.['masterNodeId'] as string | null ?? null },
      onChange (fn) { changed = fn; return skip }
    },
    state: {
      async read () {
        if (rig.readMs > 0) await new Promise<void>((resolve) => { clock.after(rig.readMs, resolve) })
        if (rig.state === null) throw new Error('no state')
        return structuredClone(rig.state)
      }
    }
  })
  t.teardown(stop)
  return rig
}
