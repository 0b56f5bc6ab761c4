/**
 * Many nodes of a cluster in one process: each has the product's cluster core and gossip, over an in-memory
 * network that encodes and counts every frame as a link does. No sockets, no TLS, no disk.
 */
import { createHash, randomUUID } from 'node:crypto'
import { source } from '../lib/paths.mjs'

const { ClusterCore } = await source('plugins/cluster/cluster.ts')
const { clusterTiming } = await source('plugins/cluster/election/timing.ts')
const { Gossip } = await source('plugins/cluster/gossip.ts')
const { encodeFrame, decodeFrame } = await source('plugins/cluster/links/frames.ts')
const { newNodeId } = await source('kernel/boot/identity.ts')

const quiet = () => {}
const log = { trace: quiet, debug: quiet, info: quiet, warn: quiet, error: quiet, fatal: quiet }

/** Vitals of about the same size as a real machine's. */
const vitals = {
  memory: { ramTotal: { inBytes: 25e9 }, ramAvailable: { inBytes: 21e9 }, swapTotal: { inBytes: 0 },
    swapAvailable: { inBytes: 0 } },
  system: { gpuUsage: 0, temp: 50.5, sysPower: null, pcpuUsage: 0.25, accelerator: null },
  disk: { total: { inBytes: 500e9 }, available: { inBytes: 300e9 } },
  network: { interfaces: [{ name: 'eth0', ipAddress: '10.0.0.7', type: 'wired' }] }
}

/** In-memory member list. */
function memoryMembers (membership) {
  let current = membership
  const listeners = new Set()
  return {
    current: () => current,
    find: (id) => current.members.find((m) => m.installId === id),
    byFingerprint: (key) => current.members.find((m) => m.fingerprint === key),
    isRemoved: () => false,
    replace (next) {
      if (JSON.stringify(next) === JSON.stringify(current)) return
      current = next
      for (const fn of listeners) fn()
    },
    onChange (fn) {
      listeners.add(fn)
      return () => { listeners.delete(fn) }
    }
  }
}

/** Creates an identity with a realistic fingerprint, because other member records are ignored. */
function personOf (n) {
  const installId = `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`
  const fingerprint = createHash('sha256').update(installId).digest('base64url')
  return { installId, fingerprint, name: `cell${n}`, addresses: [`10.0.0.${n}:52416`] }
}

const counts = () => ({ frames: 0, bytes: 0, byKind: {} })

/** A fully linked network of `count` cells on one clock. A frame arrives one clock step after it was sent. */
export function createCells ({ count, clock, heartbeatMs = 2000, electionMs = 3000, gossip = true }) {
  const joinedAt = new Date(clock.now()).toISOString()
  const members = Array.from({ length: count }, (_, n) => ({ ...personOf(n + 1), joinedAt }))
  const clusterId = randomUUID()
  const sent = counts()
  const cells = new Map()
  const apart = new Set()
  const pair = (a, b) => [a, b].sort().join()

  /** Delivers one frame, encoded once per sender and decoded by each receiver, as a real link does. */
  function deliver (from, to, kind, bytes) {
    if (apart.has(pair(from, to)) || !cells.has(to)) return false
    sent.frames++
    sent.bytes += bytes.byteLength
    sent.byKind[kind] = (sent.byKind[kind] ?? 0) + 1
    setImmediate(() => {
      const cell = cells.get(to)
      if (cell === undefined || apart.has(pair(from, to))) return
      const { body } = decodeFrame(bytes)
      if (kind === 'telemetry') cell.gossip.receive(from, body)
      else if (!cell.core.frame(from, kind, body)) throw new Error(`${to} refused a ${kind} frame`)
    })
    return true
  }

  function add (self) {
    const { installId, name } = self
    const node = { nodeId: newNodeId(), installId, name, home: '/', version: '0.0.0', configPath: null }
    const peersOf = () => [...cells.values()].filter((c) => c.id !== self.installId &&
      !apart.has(pair(c.id, self.installId)))
    const peerView = ({ id, node: { nodeId, name } }) =>
      ({ installId: id, nodeId, name, apiUrl: null, address: '10.0.0.1:1', rttMs: 1 })
    const transport = {
      send: (to, kind, body) => deliver(self.installId, to, kind, encodeFrame(kind, body)),
      broadcast (kind, body) {
        const bytes = encodeFrame(kind, body)
        return peersOf().filter(({ id }) => deliver(self.installId, id, kind, bytes)).length
      },
      peers: () => peersOf().map(peerView),
      request: async () => { throw new Error('cells have no API') },
      drop: () => {}
    }
    const core = new ClusterCore({
      node, clock, log, random: Math.random, quorum: 1, folder: null, transport,
      timing: clusterTiming({ heartbeat_ms: heartbeatMs, election_timeout_ms: electionMs }),
      members: memoryMembers({ clusterId, members, removed: [] }),
      self: () => self, apiUrl: () => null, emit: () => {}
    })
    const plane = new Gossip({
      clock, log, enabled: gossip, sample: async () => vitals,
      publish (body) {
        const peers = transport.broadcast('telemetry', body)
        return { peers, bytes: 0 }
      }
    })
    const cell = { id: self.installId, node, core, gossip: plane, peerView: () => peerView(cell) }
    cells.set(self.installId, cell)
  }
  for (const member of members) add(member)

  const link = (a, b, up) => {
    if (up) { a.core.up(b.peerView()); b.core.up(a.peerView()) } else {
      a.core.down(b.id, 'cut')
      b.core.down(a.id, 'cut')
    }
  }
  const all = () => [...cells.values()]
  const pairs = (only) => all().flatMap((a, i) => all().slice(i + 1).map((b) => [a, b]))
    .filter(([a, b]) => only === undefined || a === only || b === only)

  return {
    all, sent,
    start () {
      for (const { core, gossip: plane } of all()) { core.start(); plane.start() }
      for (const [a, b] of pairs()) link(a, b, true)
    },
    /** Closes all links to one cell. */
    isolate (cell) {
      for (const [a, b] of pairs(cell)) { apart.add(pair(a.id, b.id)); link(a, b, false) }
    },
    rejoin (cell) {
      for (const [a, b] of pairs(cell)) { apart.delete(pair(a.id, b.id)); link(a, b, true) }
    },
    /** The session on which these cells agree; undefined while they disagree. */
    session (on = all()) {
      const leaders = on.map(({ core }) => core.status().leader)
      const [first] = leaders
      if (first == null || !on.some(({ id }) => id === first.master)) return undefined
      const same = leaders.every((l) => l?.sid === first.sid && l.term === first.term)
      return same ? { sid: first.sid, master: cells.get(first.master) } : undefined
    },
    resetCounts () { Object.assign(sent, counts()) },
    stop () { for (const { core, gossip: plane } of all()) { plane.close(); core.stop() } }
  }
}

/** Advances a manual clock until `look` returns something other than undefined or false. */
export async function advanceUntil (clock, what, look, { stepMs = 100, limitMs = 120_000 } = {}) {
  for (let passed = 0; passed <= limitMs; passed += stepMs) {
    const found = look()
    if (found !== undefined && found !== false) return found
    await clock.advance(stepMs)
  }
  throw new Error(`timeout after ${limitMs / 1000} virtual seconds waiting for: ${what}`)
}

export const { manualClock } = await source('kernel/testing/index.ts')
export const { systemClock } = await source('kernel/api/clock.ts')
