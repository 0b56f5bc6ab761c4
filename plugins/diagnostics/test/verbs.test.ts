import t from 'tap'
import { definePlugin } from '../../../kernel/index.js'
import { member, memberList, node, own, threeNodes } from '../../cluster/test/verbs-kit.js'
import { cli as run, sendError, sendJson, standIn } from '../../../kernel/test/cli-helpers.js'
import { freePorts } from '../../../test/node/ports.js'
import diagnostics from '../index.js'
import type { StatusPart } from '../../../kernel/cli/index.js'

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

const cli = async (argv: readonly string[]): ReturnType<typeof run> =>
  await run(argv, { plugins: [diagnostics, counting] })

t.test('status: master, quorum, nodes, what plugins add, and what to do', async (t) => {
  const { out } = await cli(['status', '--url', await node(t)])
  t.match(out, /^2 of 3 nodes live, master cellar, term 4, quorum ok\n/)
  t.match(out, /\nNodes that a plugin counts: 3\nNAME /)
  t.match(out, /\nA line of a plugin\.\n/)
  t.match(out, /cellar: Little is free\. \[disk_low\]\n {2}Free some\./)
  t.match(out, /barn: lost for 1m12s \[node_lost\]\n {2}Start it .*`svc members remove barn-install`/)
  const cluster = { term: 4, quorum: 'lost', stale: true, partition: true, knownNodes: 3, liveNodes: 1 }
  const url = await node(t, { state: { masterNodeId: null, cluster } })
  const alone = JSON.parse((await cli(['status', '--json', '--url', url])).out)
  t.match(alone.cluster, { sessionId: 's1', masterNodeId: null, quorum: 'lost', liveNodes: 1 })
  t.equal(alone.counted, 3)
  t.same(alone.warnings.map((warning: { code: string }) => warning.code),
    ['no_quorum', 'node_lost', 'node_lost', 'disk_low'])
  t.match(alone.warnings[0], { node: null, message: /1 of 3/, remedy: /svc members remove barn-install/ })
  const headless = await cli(['status', '--url', await node(t, { state: { masterNodeId: null } })])
  t.match(headless.out, /cluster: no master is known \[no_master\]\n {2}.*svc doctor/)
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
      /cellar and barn cannot reach each other/],
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

t.test('status joins the nodes and names what is not ready', async (t) => {
  const state = {
    masterNodeId: 'n1', localNodeId: 'n1', nodeCapabilities: { n1: ['tts'] }, runners: {},
    nodeIdentities: { n1: { friendlyName: 'attic', svcVersion: '0.1.0', apiUrl: null } },
    nodeHealth: { n1: { level: 'warn', reasons: [
      { code: 'disk_low', message: 'Little is free.', remediation: 'Free some.' }] } }
  }
  let ready = 0
  const { url } = await standIn(t, {
    'GET /state': (response) => { sendJson(response, state) },
    'GET /readyz': (response) => {
      const checks = [{ name: 'voice', ok: false, detail: 'warming up' }]
      if (ready++ < 2) sendError(response, 503, 'not_ready', { checks })
      else sendJson(response, { ready: true, checks: [] })
    }
  })
  const { status, out } = await cli(['status', '--url', url])
  t.equal(status, 0)
  t.match(out, /NAME +HEALTH +MASTER +SERVES +VERSION +URL +NODE\nattic +warn +yes +tts +0\.1\.0 +\S+ +n1/)
  t.match(out, /attic: Little is free\. \[disk_low\]\n {2}Free some\./)
  t.match(out, /not ready: voice: warming up/)
  t.equal((await cli(['status', '--url', url, '--wait=0'])).status, 4)
  const waited = await cli(['status', '--url', url, '--wait=10', '--json'])
  t.equal(waited.status, 0)
  t.match(JSON.parse(waited.out),
    { nodes: [{ nodeId: 'n1', name: 'attic', isMaster: true, capabilities: ['tts'] }] })
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
  t.match(out, /ok +health +no problem at 1 live node\n/)
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
