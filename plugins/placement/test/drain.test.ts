// Draining a node: each of its instances moves to another node before it ends.
import t from 'tap'
import { bodyOf } from '../../runners/service.js'
import { GIB, runnersAre } from './kit.js'
import { intent, passes, placedOn, put, startKeeper, waiting, type Waiting } from './keeper-kit.js'
import { instanceOn, nodeOf, quickPace, seenState, sendJson } from './verb-kit.js'

t.test('a drained node: another instance comes first, and nothing is placed there', async (t) => {
  const rig = await startKeeper(t)
  put(rig, 'a', ['id-n2'], { placement: intent({ ttlSeconds: 60 }) })
  const answer = await rig.ask('PUT', '/nodes/n2/drain')
  t.match(answer, { status: 200, body: { node_id: 'id-n2', changed: true, instances: ['a'] } })
  t.match((await rig.ask('PUT', '/nodes/install-n2/drain')).body, { changed: false })
  await passes(rig, 'another one', () => rig.placed.length === 1, 3000)
  t.strictSame([placedOn(rig), rig.removed, rig.drained], [['id-n1'], [], []])
  const { instanceId, placement } = bodyOf(rig.placed[0]!.instance)
  t.match(placement, { moves: 'a', ttlSeconds: 60 })
  await rig.clock.advance(3000)
  t.strictSame(rig.drained, [], 'it is not ready yet')
  runnersAre(rig.state, instanceId, { RunnerReady: {} })
  await passes(rig, 'the end of the first', () => rig.drained.length > 0, 3000)
  t.match(rig.drained[0], { instanceId: 'a', seconds: 30 })
  const state = (await rig.inject({ url: '/state' })).json() as { drainedNodes: object }
  t.match(state.drainedNodes, { 'install-n2': { by: String } })
  const preview = await rig.ask('GET', '/instance/previews?model_id=acme/chat&node_ids=n2')
  t.match(preview.body['previews'], [{ reason: 'nodes_drained' }])
  t.match((await rig.ask('DELETE', '/nodes/n2/drain')).body, { changed: true, drained: false })
  t.match((await rig.ask('PUT', '/nodes/nobody/drain')).body.error, { reason: 'node_not_found' })
  t.strictSame(rig.events.map(({ kind }) => kind).filter((kind) => kind.startsWith('Node')),
    ['NodeDrained', 'NodeUndrained'])
})

t.test('what is to take over from an instance that somebody stops is not wanted either', async (t) => {
  const rig = await startKeeper(t, { nodes: { n1: 64, n2: 64 } })
  rig.state.nodeMemory['id-n1']!.ramAvailable.inBytes = GIB
  put(rig, 'a', ['id-n2'])
  await rig.ask('PUT', '/nodes/n2/drain')
  let all: Waiting = {}
  for (let i = 0; i < 100 && Object.values(all)[0]?.reason !== 'insufficient_memory'; i++) {
    await rig.clock.advance(50)
    all = await waiting(rig)
  }
  t.match(Object.values(all), [{ modelId: 'acme/chat', reason: 'insufficient_memory' }])
  const stopped = rig.ask('DELETE', '/instance/a')
  await rig.clock.advance(500)
  t.equal((await stopped).status, 200)
  t.strictSame([await waiting(rig), rig.placed], [{}, []])
})

t.test('svc drain waits until the node runs nothing, and svc undrain', async (t) => {
  const state = seenState()
  state.instances = { a: instanceOn('a', 'acme/chat', ['id-n1']), b: instanceOn('b', 'acme/x', ['id-n2']) }
  const said = (message: string) => (response: Parameters<typeof sendJson>[0]): void => {
    sendJson(response, { message, node_id: 'id-n1', drained: true, changed: true, instances: ['a'] })
  }
  const node = await nodeOf(t, {
    'GET /state': (response) => { sendJson(response, state) },
    'PUT /nodes/n1/drain': said('n1 is drained.'), 'DELETE /nodes/n1/drain': said('n1 runs models again.')
  })
  t.match(await node.run(['drain', 'n1']), { status: 0, out: 'n1 is drained.\n' })
  t.match(await node.run(['drain', 'n1', '--wait=2']),
    { status: 4, err: /1 instance left there; `svc ps`/ })
  const gone = await node.run(['drain', 'n1', '--wait'], {
    pace: quickPace((pauses) => { if (pauses === 3) delete state.instances['a'] })
  })
  t.match(gone, { status: 0, err: '' })
  t.match(await node.run(['undrain', 'n1']), { status: 0, out: 'n1 runs models again.\n' })
})
