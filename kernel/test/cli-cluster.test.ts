import t from 'tap'
import { readFileSync } from 'node:fs'
import { cli, sendError, sendJson, standIn } from './cli-helpers.js'
import { freePorts } from '../../test/node/ports.js'
import { definePlugin } from '../api/plugin.js'
import { readSpan, showBytes, showSpan } from '../cli/text.js'
import { parseSmi } from '../machine/gpu.js'
import type { StatusPart } from '../cli/check.js'
import type { Test } from 'tap'

const { version: own } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as
  { version: string }
const gib = (n: number): { inBytes: number } => ({ inBytes: n * 2 ** 30 })

/** A cluster of three: n1 answers, n2 is master, n3 was lost a while ago. */
function threeNodes (more: object = {}): object {
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

const member = (name: string, more: object = {}): object => ({
  installId: `${name}-install`, nodeId: null, name, fingerprint: 'f', addresses: [`10.0.0.7:52416`],
  live: true, master: false, self: false, version: own, rttMs: 0.42, joinedAt: '2026-01-01T00:00:00Z',
  ...more
})

function memberList (more: object = {}): object {
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

/** The second GET /state and those after it answer with `later`. */
async function node (
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

t.test('bytes and spans, as people write them', async (t) => {
  const check = (found: unknown, expected: unknown): void => { t.equal(found, expected) }
  check(showBytes(0), '0 B')
  check(showBytes(1536), '1.5 KiB')
  check(showBytes(200 * 2 ** 30), '200 GiB')
  check(showSpan(0), '0s')
  check(showSpan(72), '1m12s')
  check(showSpan(3600), '1h')
  check(showSpan(90_000), '1d1h')
  check(readSpan('90'), 90)
  check(readSpan('15m'), 900)
  check(readSpan('1d'), 86_400)
  for (const wrong of ['', 'm', '1w', '-1', '1.5h']) check(readSpan(wrong), undefined)
})

t.test('nodes: who is master, live or lost, and for how long', async (t) => {
  const url = await node(t)
  const { status, out } = await cli(['nodes', '--url', url])
  t.equal(status, 0)
  t.match(out, /^NAME +NODE +URL +VERSION +MASTER +LIVE +MEMORY +HEALTH\n/)
  t.match(out, /\nattic +n1 +http:\/\/attic\.test:52415 +\S+ +- +live +4\.0 GiB free of 16\.0 GiB +ok/)
  t.match(out, /\nbarn +n3 +\S+ +\S+ +- +lost 1m12s +- +-/)
  t.match(out, /\ncellar +n2 +\S+ +\S+ +yes +live +- +warn/)
  t.match(out, /\nshed +- +- +- +- +lost +- +-/)
  const { nodes } = JSON.parse((await cli(['nodes', '--json', '--url', url])).out)
  t.match(nodes, [
    { name: 'attic', nodeId: 'n1', installId: 'attic-install', isLocal: true, isMaster: false, live: true,
      drained: false,
      lostForSeconds: null, memoryTotalBytes: 16 * 2 ** 30, memoryAvailableBytes: 4 * 2 ** 30,
      version: own, health: { level: 'ok' } },
    { name: 'barn', live: false, lostForSeconds: 72 },
    { name: 'cellar', isMaster: true, live: true, health: { level: 'warn' } },
    { name: 'shed', nodeId: null, installId: 'shed-install', live: false, lostForSeconds: null }
  ])
})

t.test('nodes: GPUs, as nvidia-smi tells of them', async (t) => {
  const accelerators = parseSmi('NVIDIA H200, 50, 143771, 131464, 78.77, 38\n' +
    'NVIDIA GB10, [N/A], [N/A], [N/A], 4, 40\n')
  const url = await node(t, { state: { nodeSystem: { n1: { accelerators }, n2: null } } })
  const { out } = await cli(['nodes', '--url', url])
  t.match(out, /^NAME .* MEMORY +GPUS +HEALTH\n/)
  t.match(out, / NVIDIA H200: 128 GiB of 140 GiB, 50 %, 38 °C, 79 W; NVIDIA GB10: 40 °C, 4 W +ok/)
  t.match(out, /\ncellar .* - +- +warn/)
})

t.test('nodes: without the right to list members the topology decides', async (t) => {
  const seen = (barn: string | null): object =>
    ({ n1: '2026-01-01T00:02:00Z', n2: '2026-01-01T00:01:59Z', ...barn === null ? {} : { n3: barn } })
  const rows: [status: number, state: object, lost: number | null][] = [
    [401, {}, 72], [403, {}, 72], [404, { lastSeen: seen('2026-01-01T00:01:58Z') }, 2],
    [401, { lastSeen: seen(null) }, null]
  ]
  for (const [status, state, lostForSeconds] of rows) {
    const url = await node(t, { members: status, state })
    const { nodes } = JSON.parse((await cli(['nodes', '--json', '--url', url])).out)
    t.match(nodes, [{ name: 'attic', live: true }, { name: 'barn', live: false, lostForSeconds },
      { name: 'cellar', live: true }])
    t.equal(nodes.length, 3)
  }
})

/** A plugin with a part of its own in `svc status`. */
const part: StatusPart = {
  async run ({ state }) {
    const counted = Object.keys(state.nodeIdentities).length
    const above = [`Nodes that a plugin counts: ${counted}`]
    return { json: { counted }, above, below: ['A line of a plugin.'] }
  }
}
const counting = definePlugin({
  name: 'counting', version: '1.0.0', kernel: '^1.0.0', summary: 'Counts nodes.',
  status: { count: { summary: 'How many.', load: async () => ({ default: part }) } }
}, () => ({}))

t.test('status: master, quorum, nodes, what plugins add, and what to do', async (t) => {
  const { out } = await cli(['status', '--url', await node(t)], { plugins: [counting] })
  t.match(out, /^2 of 3 nodes live, master cellar, term 4, quorum ok\n/)
  t.match(out, /\nNodes that a plugin counts: 3\nNAME /)
  t.match(out, /\nA line of a plugin\.\n/)
  t.match(out, /cellar: Little is free\. \[disk_low\]\n {2}Free some\./)
  t.match(out, /barn: .*lost for 72 s\. \[node_lost\]\n {2}Start it .*`svc members remove barn-install`/)
  const cluster = { term: 4, quorum: 'lost', stale: true, partition: true, knownNodes: 3, liveNodes: 1 }
  const url = await node(t, { state: { masterNodeId: null, cluster } })
  const alone = JSON.parse((await cli(['status', '--json', '--url', url], { plugins: [counting] })).out)
  t.match(alone.cluster, { sessionId: 's1', masterNodeId: null, quorum: 'lost', liveNodes: 1 })
  t.equal(alone.counted, 3)
  t.same(alone.warnings.map((warning: { code: string }) => warning.code),
    ['no_quorum', 'node_lost', 'node_lost', 'disk_low'])
  t.match(alone.warnings[0], { node: null, message: /1 of 3/, remedy: /svc members remove barn-install/ })
  const headless = await cli(['status', '--url', await node(t, { state: { masterNodeId: null } })])
  t.match(headless.out, /cluster: No master is known at the moment\. \[no_master\]\n {2}.*svc doctor/)
})

t.test('status: two live nodes that disagree are a split; a removal hides what follows', async (t) => {
  const links = (...ids: string[]): object => Object.fromEntries(ids.map((id) => [id, [{}]]))
  const health = (code: string): object =>
    ({ n1: { level: 'error', reasons: [{ code, severity: 'error', message: 'm', remediation: 'r' }] } })
  const live = { nodes: ['n1', 'n2', 'n3'],
    connections: { n1: links('n2', 'n3'), n2: links('n1'), n3: links('n1') } }
  const two = { nodes: ['n1', 'n2'], connections: { n2: links('n1', 'n3') } }
  const seen = (seconds: string): string => `2026-01-01T00:0${seconds}Z`
  const back = { lastSeen: { n1: seen('2:00'), n2: seen('1:59'), n3: seen('2:00') } }
  const rows: [what: string, state: object, codes: string[], split?: RegExp | undefined, later?: object][] = [
    ['a node that crashed', { cluster: { partition: true } }, ['node_lost']],
    ['what others said just before', { topology: two, lastSeen: { ...back.lastSeen, n3: seen('1:57') } },
      ['node_lost']],
    ['one still reaches it', { topology: two }, ['partition', 'node_lost'],
      /attic misses barn, which cellar reaches/],
    ['two that do not meet', { topology: live, ...back }, ['partition'],
      /cellar and barn do not reach each other/],
    ['two that had just joined', { topology: live, ...back }, [], undefined,
      { topology: { ...live, connections: {} }, ...back }],
    ['one of two has not said it yet',
      { topology: { ...live, connections: { n1: links('n2', 'n3') } }, ...back }, []],
    ['removed', { nodeHealth: health('node_removed'), cluster: { quorum: 'lost', partition: true } },
      ['node_removed']]
  ]
  await Promise.all(rows.map(async ([what, state, codes, split, then]) => {
    const later = then === undefined ? undefined : { nodeHealth: {}, ...then }
    const url = await node(t, { members: 403, state: { nodeHealth: {}, ...state }, later })
    const { warnings } = JSON.parse((await cli(['status', '--json', '--url', url])).out)
    t.same(warnings.map(({ code }: { code: string }) => code), codes, what)
    if (split !== undefined) t.match(warnings[0].message, split)
  }))
})

t.test('members: the list, and removal by id, name or the beginning of an id', async (t) => {
  const list = memberList()
  const { url, asked } = await standIn(t, {
    'GET /cluster/members': (response) => { sendJson(response, list) },
    'DELETE /cluster/members/barn-install': (response) => {
      const admitted = [{ installId: 'shed-install', name: 'shed' }]
      sendJson(response, { installId: 'barn-install', removed: true, admitted })
    },
    'DELETE /cluster/members/attic-install': (response) => {
      sendError(response, 409, 'member_self', { remedy: 'Ask another node.' })
    }
  })
  t.same(JSON.parse((await cli(['members', '--json', '--url', url])).out), list)
  const { out } = await cli(['members', '--url', url])
  t.match(out, /\nattic \(this node\) +attic-install +n1 +yes +- +\S+ +- +127\.0\.0\.1:52416/)
  t.match(out, /\ncellar +cellar-install +n2 +yes +yes +\S+ +0\.4 ms .* app_2 at attic\n/)
  t.match(out, /\nno connection to 10\.0\.0\.9:52416 after 7 attempts: ECONNREFUSED/)
  for (const ref of ['barn-install', 'n3', 'barn', 'barn-in']) {
    const ran = await cli(['members', 'remove', ref, '--url', url])
    t.equal(ran.status, 0, ref)
    t.match(ran.out, /removed barn \(barn-install\).*svc join-token/)
    t.match(ran.err, /it admitted shed, .*svc members remove shed-install/)
    t.equal(asked.at(-1)?.url, '/cluster/members/barn-install')
  }
  const check = async (words: string[], status: number, message: RegExp): Promise<void> => {
    const ran = await cli(['members', ...words, '--url', url])
    t.equal(ran.status, status, words.join(' '))
    t.match(ran.err, message)
  }
  await check(['remove', 'brn'], 3, /no member "brn"; did you mean barn\?\n {2}`svc members` lists them/)
  await check(['remove', 'attic'], 1, /409 member_self\)\n {2}Ask another node/)
  await check(['remove'], 2, /expected `svc members` or `svc members remove ID`/)
  await check(['delete', 'barn'], 2, /expected `svc members`/)
  Object.assign(list, { members: [member('twin'), member('twin', { installId: 'other' })] })
  await check(['remove', 'twin'], 2, /"twin" names 2 members; .*twin-install, other/)
})

t.test('join-token: the token on stdout, the line to paste beside it', async (t) => {
  const made = { token: 'svcjoin1_abc_def', expires: '2026-01-01T01:00:00Z',
    command: 'SVC_JOIN=svcjoin1_abc_def ./svc up' }
  const node = await standIn(t, { 'POST /cluster/join-tokens': (response) => { sendJson(response, made) } })
  const { out, err } = await cli(['join-token', '--url', node.url])
  t.equal(out, 'svcjoin1_abc_def\n')
  t.match(err, /within 15m \(until 2026-01-01T01:00:00Z\), once:\n {2}SVC_JOIN=svcjoin1_abc_def \.\/svc up/)
  t.same(node.asked[0]?.body, { ttl_seconds: 900 })
  t.same(JSON.parse((await cli(['join-token', '--ttl', '2h', '--json', '--url', node.url])).out), made)
  t.same(node.asked[1]?.body, { ttl_seconds: 7200 })
  for (const ttl of ['soon', '0', '']) {
    const wrong = await cli(['join-token', `--ttl=${ttl}`, '--url', node.url])
    t.equal(wrong.status, 2, ttl)
    t.match(wrong.err, /--ttl .*: expected a span such as 90s, 15m/)
  }
  const closed = await standIn(t, { 'POST /cluster/join-tokens': (response) => {
    sendError(response, 409, 'loopback_only', { remedy: 'Set cluster.host in svc.yaml.' })
  } })
  const ran = await cli(['join-token', '--url', closed.url])
  t.strictSame([ran.status, ran.out], [1, ''])
  t.match(ran.err, /409 loopback_only\)\n {2}Set cluster\.host/)
})

t.test('join-token ls and revoke', async (t) => {
  const tokens = [{ id: 'abc', expires: '2026-01-01T01:00:00Z', by: 'app_1' }]
  const node = await standIn(t, {
    'GET /cluster/join-tokens': (response) => { sendJson(response, { tokens }) },
    'DELETE /cluster/join-tokens/abc': (response) => { sendJson(response, { id: 'abc', revoked: true }) }
  })
  const run = async (...words: string[]): ReturnType<typeof cli> =>
    await cli(['join-token', ...words, '--url', node.url])
  t.match((await run('ls')).out, /abc +2026-01-01T01:00:00Z +app_1/)
  t.same(JSON.parse((await run('ls', '--json')).out), { tokens })
  t.match((await run('revoke', 'abc')).out, /^abc lets nobody in/)
  for (const words of [['revoke'], ['rm', 'abc'], ['ls', 'abc']]) {
    t.equal((await run(...words)).status, 2, words.join())
  }
})

interface Checked { name: string, result: string, message: string, remedy: string | null }

t.test('doctor: every check with its numbers and the next command', async (t) => {
  const home = t.testdir({})
  const url = await node(t)
  const ran = await cli(['doctor', '--json', '--url', url, '--home', home])
  t.equal(ran.status, 1, 'two members are missing')
  const { checks } = JSON.parse(ran.out) as { checks: Checked[] }
  const check = (name: string, result: string, message: RegExp, remedy: RegExp | null): void => {
    const found = checks.find((one) => one.name === name)
    t.match(found, { result, message, ...(remedy === null ? {} : { remedy }) }, name)
    if (remedy === null) t.equal(found?.remedy, null, name)
  }
  check('node version', 'ok', /^Node \d+\.\d+\.\d+ \(needs >=/, null)
  check('home', 'ok', /can be written/, null)
  t.match(checks.find((one) => one.name === 'disk')?.message, /free of/)
  check('answers', 'ok', /answered in \d+ ms/, null)
  check('ready', 'ok', /ready/, null)
  check('master', 'ok', /cellar in term 4/, null)
  check('quorum', 'ok', /2 of 3 nodes live/, null)
  check('members listener', 'ok', /127\.0\.0\.1:52416: only nodes on this machine.*svc join-token/, null)
  check('member cellar', 'ok', /live, 0\.4 ms away/, null)
  check('member barn', 'fail', /^lost for 1m12s$/, /svc members remove barn-install/)
  check('member shed', 'fail', /not seen in this session; 10\.0\.0\.9:52416: ECONNREFUSED \(7 attempts\)/,
    /svc up/)
  check('address 10.0.0.99:1', 'warn', /wrong_key \(2 attempts\)/, /cluster\.peers/)
  check('versions', 'ok', new RegExp(`${own} on all 3 nodes`), null)
  check('clocks', 'ok', /only one node/, null)
  check('health of cellar', 'warn', /Little is free\. \[disk_low\]/, /Free some/)
  check('discovery', 'ok', /off \(cluster\.discovery\)/, null)
  const text = (await cli(['doctor', '--url', url, '--home', home])).out
  t.match(text, /\nfail +member barn +lost for 1m12s\n {6}Start it/)
  t.match(text, /\d+ checks: 2 failures, \d warnings\n$/)
})

t.test('doctor: all is well', async (t) => {
  const members = { ...memberList(), dials: [], members: [member('attic', { nodeId: 'n1', self: true })] }
  const only = (threeNodes() as { nodeIdentities: Record<string, unknown> }).nodeIdentities['n1']
  const url = await node(t, { members, state: { masterNodeId: 'n1', nodeIdentities: { n1: only },
    nodeHealth: {},
    cluster: { term: 1, quorum: 'ok', stale: false, partition: false, knownNodes: 1, liveNodes: 1 } } })
  const { status, out } = await cli(['doctor', '--url', url, '--home', t.testdir({})])
  t.equal(status, 0, out)
  t.match(out, /ok +health +1 live nodes report nothing/)
})

t.test('doctor: no quorum, no rights, no node, no home', async (t) => {
  const check = async (args: string[], expected: Record<string, [string, RegExp]>): Promise<void> => {
    const ran = await cli(['doctor', '--json', ...args])
    t.equal(ran.status, Object.values(expected).some(([result]) => result === 'fail') ? 1 : 0)
    const { checks } = JSON.parse(ran.out) as { checks: Checked[] }
    for (const [name, [result, words]] of Object.entries(expected)) {
      const found = checks.find((one) => one.name === name)
      t.equal(found?.result, result, name)
      t.match(`${found?.message ?? ''} ${found?.remedy ?? ''}`, words, name)
    }
  }
  const lost = { masterNodeId: null,
    cluster: { term: 4, quorum: 'lost', stale: true, partition: false, knownNodes: 3, liveNodes: 1 } }
  await check(['--url', await node(t, { state: lost, members: 403 }), '--home', t.testdir({})], {
    quorum: ['fail', /1 of 3 nodes live.*svc members remove/],
    master: ['fail', /no master is known/],
    members: ['warn', /authority "operator"/]
  })
  const { url } = await standIn(t, {
    'GET /state': (response) => { sendError(response, 401, 'unauthenticated') }
  })
  await check(['--url', url], { answers: ['fail', /401 unauthenticated.*--token/] })
  const [api] = await freePorts(1) as [number]
  const home = t.testdir({ file: '' })
  await check(['--url', `http://127.0.0.1:${api}`, '--home', home], {
    answers: ['fail', /no node answers at .*svc up --home/],
    ports: ['ok', /are free/]
  })
  const taken = await standIn(t, { 'GET /state': (response) => { response.destroy() } })
  await check(['--url', taken.url, '--home', `${home}/file/home`], {
    home: ['fail', /cannot be written: ENOTDIR|EACCES.*--home/],
    answers: ['fail', /svc up/],
    ports: ['fail', new RegExp(`process ${process.pid} `)]
  })
  await check(['--url', 'http://node.invalid:1'], { answers: ['fail', /Start it there with `svc up`/] })
})
