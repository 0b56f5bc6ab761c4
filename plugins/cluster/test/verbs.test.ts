import t from 'tap'
import { cli as run, sendError, sendJson, standIn, type Ran } from '../../../kernel/test/cli-helpers.js'
import { parseSmi } from '../../runners/machine/gpu.js'
import cluster from '../index.js'
import { member, memberList, node, own } from './verbs-kit.js'

const cli = async (words: string[]): Promise<Ran> => await run(words, { plugins: [cluster] })

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
  await check(['remove', 'twin'], 2, /"twin" matches 2 members; .*twin-install, other/)
})

t.test('join-token: the token on stdout, the line to paste beside it', async (t) => {
  const made = { token: 'svcjoin1_abc_def', expires: '2026-01-01T01:00:00Z',
    command: 'SVC_JOIN=svcjoin1_abc_def ./svc up' }
  const node = await standIn(t, { 'POST /cluster/join-tokens': (response) => { sendJson(response, made) } })
  const { out, err } = await cli(['join-token', '--url', node.url])
  t.equal(out, 'svcjoin1_abc_def\n')
  t.match(err, /within 15m \(until 2026-01-01T01:00:00Z\):\n {2}SVC_JOIN=svcjoin1_abc_def \.\/svc up/)
  t.same(node.asked[0]?.body, { ttl_seconds: 900 })
  t.same(JSON.parse((await cli(['join-token', '--ttl', '2h', '--json', '--url', node.url])).out), made)
  t.same(node.asked[1]?.body, { ttl_seconds: 7200 })
  for (const ttl of ['soon', '0', '']) {
    const wrong = await cli(['join-token', `--ttl=${ttl}`, '--url', node.url])
    t.equal(wrong.status, 2, ttl)
    t.match(wrong.err, /--ttl .*: expected a duration such as 90s, 15m/)
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
  const tokenVerb = async (...words: string[]): Promise<Ran> =>
    await cli(['join-token', ...words, '--url', node.url])
  t.match((await tokenVerb('ls')).out, /abc +2026-01-01T01:00:00Z +app_1/)
  t.same(JSON.parse((await tokenVerb('ls', '--json')).out), { tokens })
  t.match((await tokenVerb('revoke', 'abc')).out, /^the join token abc is revoked/)
  for (const words of [['revoke'], ['rm', 'abc'], ['ls', 'abc']]) {
    t.equal((await tokenVerb(...words)).status, 2, words.join())
  }
})
