import { readFileSync } from 'node:fs'
import { sendError, sendJson, standIn } from '../../../kernel/test/cli-helpers.js'
import type { Test } from 'tap'

const packageFile = new URL('../../../package.json', import.meta.url)
export const { version: own } = JSON.parse(readFileSync(packageFile, 'utf8')) as
  { version: string }
const gib = (n: number): { inBytes: number } => ({ inBytes: n * 2 ** 30 })

/** State of a three-node cluster: n1 answers, n2 is master, n3 was lost earlier. */
export function threeNodes (more: object = {}): object {
  const identity = (name: string): object => ({ friendlyName: name, svcVersion: own,
    apiUrl: `http://${name}.test:52415`, nodeInstallId: `${name}-install` })
  return {
    sessionId: 's1', masterNodeId: 'n2', localNodeId: 'n1',
    nodeIdentities: { n1: identity('attic'), n2: identity('cellar'), n3: identity('barn') },
    nodeHealth: { n2: { level: 'warn', reasons: [{ code: 'disk_low', severity: 'warn',
      message: 'Little is free.', remediation: 'Free some.' }] } },
    nodeCapabilities: { n1: ['tts'] },
    nodeMemory: { n1: { ramTotal: gib(16), ramAvailable: gib(4) } },
    lastSeen: { n1: '2026-01-01T00:02:00Z', n2: '2026-01-01T00:01:59Z', n3: '2026-01-01T00:00:48Z' },
    instances: {
      i1: { RingInstance: { shardAssignments: { modelId: 'svc/voice-en', runnerToShard: { r1: {} } } } },
      i2: { RingInstance: { shardAssignments: { modelId: 'svc/big', runnerToShard: { r1: {}, r2: {} } } } }
    },
    runners: { r1: { RunnerReady: {} }, r2: { RunnerLoading: { layersLoaded: 1, totalLayers: 2 } } },
    topology: { nodes: ['n1', 'n2'], connections: {} },
    cluster: { term: 4, quorum: 'ok', stale: false, partition: false, knownNodes: 3, liveNodes: 2 },
    ...more
  }
}

export const member = (name: string, more: object = {}): object => ({
  installId: `${name}-install`, nodeId: null, name, fingerprint: 'f', addresses: [`10.0.0.7:52416`],
  live: true, master: false, self: false, version: own, rttMs: 0.42, joinedAt: '2026-01-01T00:00:00Z',
  ...more
})

export function memberList (more: object = {}): object {
  return {
    clusterId: 'c1',
    members: [
      member('attic', { nodeId: 'n1', self: true, rttMs: null, addresses: ['127.0.0.1:52416'] }),
      member('cellar', { nodeId: 'n2', master: true,
        admitted: { node: 'attic-install', by: ['app_2', 'app_1'], authorities: ['read'] } }),
      member('barn', { nodeId: 'n3', live: false }),
      member('shed', { live: false, version: null, addresses: ['10.0.0.9:52416'] })
    ],
    dials: [
      { address: '10.0.0.9:52416', installId: null, state: 'waiting', reason: 'ECONNREFUSED', attempts: 7,
        nextInMs: 4000 },
      { address: '10.0.0.99:1', installId: null, state: 'waiting', reason: 'wrong_key', attempts: 2,
        nextInMs: 4000 }
    ],
    removed: [],
    ...more
  }
}

/** A stub node that answers the first GET /state with `state` and later ones with `later`. */
export async function node (
  t: Test, more: { state?: object, later?: object | undefined, members?: object | number } = {}
): Promise<string> {
  let looks = 0
  const { url } = await standIn(t, {
    'GET /state': (response) => {
      sendJson(response, threeNodes(looks++ === 0 ? more.state : more.later ?? more.state))
    },
    'GET /readyz': (response) => { sendJson(response, { ready: true, checks: [] }) },
    'GET /healthz': (response) => { sendJson(response, { ok: true }) },
    'GET /config': (response) => {
      sendJson(response, { entries: [{ path: 'cluster.discovery', value: false }] })
    },
    'GET /cluster/members': (response) => {
      if (typeof more.members === 'number') sendError(response, more.members, 'missing_grant')
      else sendJson(response, more.members ?? memberList())
    }
  })
  return url
}
