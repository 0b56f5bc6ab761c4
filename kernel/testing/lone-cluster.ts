import { ClusterCore } from '../cluster/cluster.js'
import { timingWith } from '../cluster/election/timing.js'
import { Gossip } from '../cluster/gossip.js'
import { createIdentity } from '../cluster/identity/identity.js'
import { fingerprintOfRaw, newKeyPair } from '../signing/keys.js'
import { systemClock } from '../api/clock.js'
import { kernelError } from '../api/errors.js'
import type { Members } from '../cluster/members/file.js'
import type { MemberList } from '../cluster/members/member.js'
import type { Network } from '../cluster/routes.js'
import { createMachine } from '../machine/vitals.js'
import type { Clock } from '../api/clock.js'
import type { Identity } from '../api/identity.js'
import type { Logger, NodeInfo } from '../api/plugin.js'
import type { MachineReader } from '../machine/vitals.js'

/** The real cluster of a node that is alone, all of it in memory. */
export interface LoneCluster {
  cluster: ClusterCore
  network: Network
  gossip: Gossip
  machine: MachineReader
  identity: Identity
}

/** A cluster of one: its own master from the start. */
export function loneCluster (node: NodeInfo, clock: Clock, log: Logger): LoneCluster {
  const { privateKey, publicKey } = newKeyPair('Ed25519')
  const fingerprint = fingerprintOfRaw(publicKey)
  const privateKeyPem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  const self = { installId: node.installId, fingerprint, name: node.name, addresses: [] }
  const members = memoryMembers({
    clusterId: 'test', members: [{ ...self, joinedAt: '2026-01-01T00:00:00.000Z' }], removed: []
  })
  const cluster = new ClusterCore({
    node, clock, log, members,
    random: () => 0.5,
    quorum: 1,
    timing: timingWith(),
    folder: null,
    self: () => self,
    apiUrl: () => null,
    transport: {
      send: () => false,
      broadcast: () => 0,
      peers: () => [],
      request: async () => { throw kernelError('unreachable') },
      drop: () => {}
    },
    emit: () => {}
  })
  cluster.start()
  // In real time: what the machine says does not wait for a test's clock.
  const machine = createMachine({ home: node.home, clock: systemClock, log })
  return {
    cluster,
    machine,
    identity: createIdentity({ privateKeyPem }, members),
    gossip: new Gossip({
      clock, log, enabled: true, sample: machine.vitals, publish: () => ({ peers: 0, bytes: 0 })
    }),
    network: {
      members,
      peers: () => [],
      dials: () => [],
      links: () => [],
      copies: () => [],
      quorum: '1',
      addresses: () => [],
      joinTokens: { list: () => [], revoke: () => false },
      openOutside: async () => {},
      invite: () => { throw new Error('nobody joins this rig') },
      bytesPerSecond: () => null
    }
  }
}

function memoryMembers (first: MemberList): Members {
  let current = first
  const listeners = new Set<() => void>()
  const find = (id: string): MemberList['members'][number] | undefined =>
    current.members.find((m) => m.installId === id)
  return {
    current: () => current,
    find,
    byFingerprint: (fingerprint) => current.members.find((m) => m.fingerprint === fingerprint),
    isRemoved: (fingerprint) => current.removed.some((r) => r.fingerprint === fingerprint),
    replace (next) {
      current = next
      for (const fn of listeners) fn()
    },
    onChange (fn) {
      listeners.add(fn)
      return () => { listeners.delete(fn) }
    }
  }
}
