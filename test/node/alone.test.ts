/** A node whose cluster plugin is switched off. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ask, streamed } from './http.js'
import { does, ready, TTS } from './engine.js'
import { instancesConfig, instancesOf, place, removing } from './instances-kit.js'
import { folder, startNode, svc, until } from './kit.js'

const MODEL = 'test/ok'

t.test('a cluster of one keeps its decisions', { timeout: 120_000 }, async (t) => {
  const home = join(folder(t), 'home')
  const config = instancesConfig({ cluster: { enabled: false } })
  const first = await startNode(t, { home, config })
  await place(first, MODEL)
  t.equal((await streamed(first, TTS, does(MODEL, 'count', { chunks: 1 }))).last?.header.kind, 'completed')
  const stored = readFileSync(join(home, 'state/alone.json'), 'utf8')
  t.match(stored, new RegExp(MODEL), 'its placement is on the disk')
  t.notOk(existsSync(join(home, 'state/members.json')), 'the cluster has not been opened')
  await first.kill()

  const node = await startNode(t, { home })
  await ready(node, MODEL)
  t.equal((await instancesOf(node, MODEL)).length, 1, 'what was placed is there after a restart')
  t.equal((await streamed(node, TTS, does(MODEL, 'count', { chunks: 1 }))).last?.header.kind, 'completed')
  const state = (await ask(node, '/state')).json as Record<string, unknown>
  t.match(state, {
    masterNodeId: node.nodeId, localNodeId: node.nodeId, topology: { nodes: [node.nodeId] },
    cluster: { term: 2, quorum: 'ok', stale: false, partition: false, knownNodes: 1, liveNodes: 1 }
  })
  const at = ['--home', home, '--url', node.url]
  const nodes = await svc(['nodes', '--json', ...at])
  t.equal(nodes.status, 0, nodes.stderr)
  t.match(JSON.parse(nodes.stdout), { nodes: [{ nodeId: node.nodeId, isMaster: true, live: true }] })
  const doctor = await svc(['doctor', '--json', ...at])
  const { checks } = JSON.parse(doctor.stdout) as
    { checks: { name: string, result: string, message: string }[] }
  t.strictSame(checks.filter(({ result }) => result === 'fail'), [])
  t.match(checks.find(({ name }) => name === 'members'), { result: 'ok', message: /cluster of one/ })
  t.notOk(checks.some(({ name }) => name === 'discovery'), 'it looks for no others')
  const invited = await svc(['join-token', ...at])
  t.not(invited.status, 0)
  t.match(invited.stderr, /svc plugin enable cluster/)

  const [instance] = await instancesOf(node, MODEL)
  t.equal((await removing(node, instance!.instanceId)).status, 200)
  await until('its end', async () => (await instancesOf(node, MODEL)).length === 0)
  t.notMatch(readFileSync(join(home, 'state/alone.json'), 'utf8'), /RingInstance/)
})

t.test('a node with the cluster off cannot join', { timeout: 60_000 }, async (t) => {
  const home = join(folder(t), 'home')
  await t.rejects(startNode(t, {
    home, config: { plugins: { cluster: { enabled: false } } }, args: ['--join', '127.0.0.1:1']
  }), /cannot join a cluster.*svc plugin enable cluster/s)
})
