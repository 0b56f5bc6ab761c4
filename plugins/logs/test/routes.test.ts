import t from 'tap'
import { kernelError } from '../../../kernel/index.js'
import type { LogPage, ClusterPage, ShownLine } from '../lines.js'
import { followed, json, lineAt, say, startLogs, stream, until, viewOf } from './kit.js'

const messages = (lines: readonly unknown[]): string[] => (lines as ShownLine[]).map(({ message }) => message)

t.test('GET /v1/logs: a page of this node', async (t) => {
  const rig = await startLogs(t)
  say(rig.ring, 'one', { modelId: 'acme/chat', level: 50 })
  await rig.clock.advance(60_000)
  say(rig.ring, 'two')
  rig.ring.output({ runnerId: 'r1', instanceId: 'i1', modelId: 'acme/chat' }, 'stdout', 'three')
  const page = async (query = ''): Promise<LogPage> =>
    (await rig.inject({ url: `/v1/logs${query}` })).json() as LogPage
  const all = await page()
  t.match(all, { node: 'test', firstSeq: 1, nextSeq: 4 })
  t.match(all.lines[0], { nodeId: all.nodeId, node: 'test', seq: 1, level: 'error', message: 'one' })
  const rows: [string, string[]][] = [
    ['', ['one', 'two', 'three']], ['?limit=1', ['three']], ['?level=error', ['one']],
    ['?model=acme/chat', ['one', 'three']], ['?plugin=chat', ['one', 'two']],
    ['?since=2026-01-01T00:00:30Z', ['two', 'three']], [`?since=${all.nodeId}:1`, ['two', 'three']],
    [`?since=${all.nodeId}:1&limit=1`, ['two']], ['?since=other:3', ['one', 'two', 'three']]
  ]
  for (const [query, expect] of rows) t.same(messages((await page(query)).lines), expect, query)
  for (const query of ['?since=soon', '?limit=0', '?limit=1001', '?level=loud', '?until=5', '?node=me']) {
    const answer = await rig.inject({ url: `/v1/logs${query}` })
    t.match(answer.json(), { error: { reason: 'invalid_request' } }, query)
  }
})

t.test('only operators may look', async (t) => {
  const rig = await startLogs(t, { allow: ['operator'] })
  const other = await startLogs(t, { allow: ['read', 'invoke', 'cluster:write'] })
  for (const url of ['/v1/logs', '/v1/logs/cluster', '/v1/logs?follow=1&limit=1']) {
    if (!url.includes('follow')) t.equal((await rig.inject({ url })).statusCode, 200, url)
    t.equal((await other.inject({ url })).statusCode, 401, url)
  }
})

t.test('followed: from where one was, with gaps told and comments in silence', async (t) => {
  const rig = await startLogs(t)
  say(rig.ring, 'old')
  const all = await followed(rig, '/v1/logs?follow=1&limit=5')
  await until(rig, 'what there is', () => all.events().length === 1)
  say(rig.ring, 'new')
  await until(rig, 'the next', () => all.events().length === 2)
  t.same(messages(all.events().map(({ data }) => data)), ['old', 'new'])
  const [, last] = all.events()
  t.match(last!.id, /^\w+:2$/)
  await until(rig, 'a comment', () => all.text().includes(': keep-alive'), 5000)
  all.stop()
  for (let i = 0; i < 600; i++) say(rig.ring, `m${i}`)
  const url = await (async () => rig.app.server.address())() as { port: number }
  const again = await fetch(`http://127.0.0.1:${url.port}/v1/logs?follow=1`, {
    headers: { 'last-event-id': last!.id! }
  })
  const reader = again.body!.getReader()
  let text = ''
  while (!text.includes('"m599"')) text += Buffer.from((await reader.read()).value).toString()
  await reader.cancel()
  t.match(text, /event: gap\ndata: \{"nodeId":"\w+","node":"test","lost":100\}/)
  t.equal(text.match(/^id: /gm)!.length, 500, 'all that is left')
})

t.test('GET /v1/logs/cluster: all nodes in order of time, and who did not answer', async (t) => {
  const rig = await startLogs(t)
  const add = (name: string, answer: Parameters<typeof rig.peers.set>[1]['answer'], live = true): void => {
    rig.peers.set(`in-${name}`, { view: viewOf(name, { live }), answer })
  }
  say(rig.ring, 'mine')
  const page = { firstSeq: 1, nextSeq: 3, lines: [
    lineAt(1, '2025-12-31T23:59:59.000Z'), lineAt(2, '2026-01-01T00:00:01.000Z')
  ] }
  add('attic', () => json(page))
  add('gone', () => json(page), false)
  add('liar', () => json('{"lines":'))
  add('old', () => json({ error: {} }, 404))
  add('away', () => { throw kernelError('unreachable', 'No link.') })
  add('never', async ({ signal }) => await new Promise((_, reject) => {
    signal!.addEventListener('abort', () => { reject(signal!.reason as Error) })
  }))
  add('endless', () => stream().response)
  const asking = rig.inject({ url: '/v1/logs/cluster?limit=2&model=a/b&level=info' })
  const mine = rig.inject({ url: '/v1/logs/cluster?limit=2' })
  await until(rig, 'the questions', () => rig.asked.length >= 12, 0)
  await rig.clock.advance(3000)
  t.match(rig.asked[0], { installId: 'in-attic', path: '/v1/logs?level=info&model=a%2Fb&limit=2' })
  const { nodes, lines } = (await mine).json() as ClusterPage
  t.same(messages(lines), ['mine', 'm2'], 'the newest of all')
  t.match(lines[1], { node: 'attic', nodeId: 'id-attic' }, 'whose it is')
  const reasons = Object.fromEntries(nodes.map(({ node, error }) => [node, error?.reason ?? null]))
  t.same(reasons, {
    me: null, attic: null, gone: 'unreachable', liar: 'garbage', old: 'refused', away: 'unreachable',
    never: 'timeout', endless: 'timeout'
  })
  t.equal(((await asking).json() as ClusterPage).nodes.length, 8)

  rig.asked.length = 0
  const one = (await rig.inject({ url: '/v1/logs/cluster?node=attic' })).json() as ClusterPage
  t.same(one.nodes, [{ nodeId: 'id-attic', node: 'attic', error: null }])
  t.equal(rig.asked.length, 1)
  const nobody = await rig.inject({ url: '/v1/logs/cluster?node=nobody' })
  t.match([nobody.statusCode, nobody.json()], [404, { error: { reason: 'node_not_found' } }])
  const place = await rig.inject({ url: '/v1/logs/cluster?since=me:5' })
  t.match(place.json(), { error: { reason: 'invalid_request', message: /a time such as/ } })
})

t.test('one node of the cluster is followed: this one, or the named one as long as it is live', async (t) => {
  const rig = await startLogs(t)
  say(rig.ring, 'mine')
  const own = await followed(rig, '/v1/logs/cluster?follow=1&limit=5')
  await until(rig, 'the line of this node', () => own.events().length === 1)
  own.stop()
  const there = stream()
  rig.peers.set('in-attic', { view: viewOf('attic'), answer: () => there.response })
  rig.peers.set('in-old', { view: viewOf('old'), answer: () => json({ error: {} }, 404) })
  const seen = await followed(rig,
    '/v1/logs/cluster?follow=1&node=attic&since=id-attic%3A5&level=warn')
  t.equal(rig.asked.at(-1)!.path, '/v1/logs?level=warn&since=id-attic%3A5&follow=1')
  there.send(lineAt(6, '2026-01-01T00:00:00.000Z'))
  await until(rig, 'its line', () => seen.events().length === 1)
  t.match(await rig.inject({ url: '/v1/logs/cluster?follow=1&node=old' }),
    { statusCode: 502, body: /The node .*old.* answered with status 404/ })
  t.equal((await rig.inject({ url: '/v1/logs/cluster?follow=1&node=none' })).statusCode, 404)
  rig.peers.delete('in-attic')
  await until(rig, 'the end at a node that is gone', () => there.body.destroyed)
  seen.stop()
})
