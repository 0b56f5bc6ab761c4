import t from 'tap'
import { card, GIB, runnersAre, startPlacement, until } from './kit.js'
import type { PlacementRig } from './kit.js'
import type { Instance } from '../../runners/service.js'

async function placed (rig: PlacementRig, modelId = 'acme/chat'): Promise<string> {
  const { status, body } = await rig.ask('POST', '/place_instance', { model_id: modelId })
  if (status !== 200) throw new Error(body.error!.message)
  return body['instance_id'] as string
}

t.test('an instance is shown and removed', async (t) => {
  const rig = await startPlacement(t)
  const id = await placed(rig)
  const shown = await rig.ask('GET', `/instance/${id}`)
  t.strictSame([shown.status, shown.body], [200, rig.state.instances[id]])
  const removed = await rig.ask('DELETE', `/instance/${id}`)
  t.equal(removed.status, 200)
  t.match(removed.body,
    { message: `Instance ${id} is removed.`, command_id: /^[0-9a-f-]{36}$/, instance_id: id })
  for (const method of ['GET', 'DELETE']) {
    const { status, body } = await rig.ask(method, `/instance/${id}`)
    t.equal(status, 404)
    t.match(body.error, { reason: 'instance_not_found', message: `No instance ${id}.` })
  }
  t.match((await rig.ask('GET', '/instance/constructor')).body.error, { reason: 'instance_not_found' })
})

t.test('the instance that would be made goes back as it is', async (t) => {
  const wide = card('acme/wide', { engine: 'wide', supportsTensor: true })
  const rig = await startPlacement(t, { nodes: { n1: 64, n2: 64 }, cards: [wide] })
  for (const sharding of ['Pipeline', 'Tensor']) {
    const query = `model_id=acme/wide&min_nodes=2&sharding=${sharding}`
    const { body: instance } = await rig.ask('GET', `/instance/placement?${query}`)
    t.strictSame(rig.state.instances, {}, 'nothing is placed')
    const { RingInstance: ring } = instance as unknown as Instance
    const back = { RingInstance: { ...ring, hostsByNode: null } }
    const { status, body } = await rig.ask('POST', '/instance', { instance: back })
    t.equal(status, 200, JSON.stringify(body))
    t.match(body, {
      message: 'acme/wide is placed on n1, n2.', instance_id: ring.instanceId,
      model_card: { modelId: 'acme/wide' }
    })
    t.strictSame(rig.state.instances[ring.instanceId], instance, 'the addresses are filled in')
    t.match((await rig.ask('POST', '/instance', { instance })).body.error,
      { reason: 'invalid_request', param: 'instance.RingInstance.instanceId' })
    delete rig.state.instances[ring.instanceId]
  }
})

type Mutable = { -readonly [K in keyof Instance['RingInstance']]: Instance['RingInstance'][K] }
type Shard = Record<string, Record<string, unknown>>
const at = (ring: Mutable, rank: number): [string, Shard] => {
  const all = Object.entries(ring.shardAssignments.runnerToShard) as unknown as [string, Shard][]
  return all.find(([, shard]) => Object.values(shard)[0]!['deviceRank'] === rank)!
}
const body = (ring: Mutable, rank: number): Record<string, unknown> => Object.values(at(ring, rank)[1])[0]!

const wrong: [string, RegExp, (ring: Mutable) => void][] = [
  ['engine', /must be wide/, (ring) => { ring.engine = 'lm' }],
  ['nodeToRunner', /each runner once/, ({ shardAssignments: { nodeToRunner } }) => {
    nodeToRunner['id-n1'] = nodeToRunner['id-n2']!
  }],
  ['runnerToShard', /on no node/, (ring) => { delete ring.shardAssignments.nodeToRunner['id-n2'] }],
  ['runnerToShard', /no shard for/, (ring) => {
    delete ring.shardAssignments.runnerToShard[at(ring, 1)[0]]
  }],
  ['modelCard.modelId', /must be acme\/wide/, (ring) => { body(ring, 0)['modelCard'] = { modelId: 'a/b' } }],
  ['worldSize', /must be 2/, (ring) => { body(ring, 0)['worldSize'] = 3 }],
  ['nLayers', /must be 10/, (ring) => { body(ring, 1)['nLayers'] = 11 }],
  ['deviceRank', /without gaps/, (ring) => { body(ring, 1)['deviceRank'] = 2 }],
  ['startLayer', /must be 5/, (ring) => { body(ring, 1)['startLayer'] = 4 }],
  ['endLayer', /above 0 and at most 10/, (ring) => { body(ring, 0)['endLayer'] = 0 }],
  ['endLayer', /must be 10/, (ring) => { body(ring, 1)['endLayer'] = 9 }],
  ['', /as the others/, (ring) => {
    const [, shard] = at(ring, 1)
    shard['TensorShardMetadata'] = shard['PipelineShardMetadata']!
    delete shard['PipelineShardMetadata']
  }]
]
t.test('an instance that is no whole is refused, naming the field', async (t) => {
  const rig = await startPlacement(t, {
    nodes: { n1: 64, n2: 64 }, cards: [card('acme/wide', { engine: 'wide' })]
  })
  const { body: good } = await rig.ask('GET', '/instance/placement?model_id=acme/wide&min_nodes=2')
  for (const [field, message, spoil] of wrong) {
    const instance = structuredClone(good) as unknown as Instance
    spoil(instance.RingInstance)
    const answer = await rig.ask('POST', '/instance', { instance })
    t.equal(answer.status, 400, String(message))
    t.match(answer.body.error, { reason: 'invalid_request', message })
    t.ok(answer.body.error!.details.issues![0]!.path.endsWith(field), answer.body.error!.message)
  }
  t.strictSame(rig.placed, [])
})

t.test('an instance that the cluster cannot run is refused as a placement is', async (t) => {
  const wide = card('acme/wide', { engine: 'wide' })
  const rig = await startPlacement(t, { nodes: { n1: 64, n2: 64, n3: 16 }, cards: [wide, card('acme/chat')] })
  const plan = async (query: string): Promise<Instance> =>
    (await rig.ask('GET', `/instance/placement?${query}`)).body as unknown as Instance
  const two = await plan('model_id=acme/wide&min_nodes=2&excluded_node_ids=n3')
  const one = await plan('model_id=acme/chat')
  const refused = async (instance: Instance, status: number, error: object): Promise<void> => {
    const answer = await rig.ask('POST', '/instance', { instance })
    t.equal(answer.status, status)
    t.match(answer.body.error, error)
  }
  const move = (instance: Instance, from: string, to: string): Instance => {
    const copy = structuredClone(instance)
    const { nodeToRunner } = copy.RingInstance.shardAssignments
    nodeToRunner[to] = nodeToRunner[from]!
    delete nodeToRunner[from]
    return copy
  }
  await refused(move(one, 'id-n1', 'id-gone'), 404, { reason: 'node_not_found', message: /id-gone is live/ })
  await refused(move(one, 'id-n1', 'id-n3'), 400,
    { reason: 'insufficient_memory', message: /n3: needs 13\.25 GiB/, details: { suggestions: [] } })
  const uneven = move(two, 'id-n2', 'id-n3')
  const bodies = Object.values(uneven.RingInstance.shardAssignments.runnerToShard)
    .map((shard) => Object.values(shard)[0] as { deviceRank: number, startLayer: number, endLayer: number })
    .sort((a, b) => a.deviceRank - b.deviceRank)
  bodies[0]!.endLayer = bodies[1]!.startLayer = 1
  await refused(uneven, 400, {
    reason: 'insufficient_memory', message: /n3 needs 11\.95 GiB for layers 1 to 10 and can use 8\.00 GiB/,
    details: { nodes: [{ name: 'n3', need: { shareBytes: 9 * GIB }, offers: [{ backend: 'cpu' }] }] }
  })
  bodies[0]!.endLayer = bodies[1]!.startLayer = 5
  t.equal((await rig.ask('POST', '/instance', { instance: uneven })).status, 200)
  const unknown = structuredClone(one)
  unknown.RingInstance.shardAssignments.modelId = 'acme/none'
  await refused(unknown, 400, { reason: 'model_unknown' })
  delete rig.state.topology.connections['id-n2']!['id-n1']
  two.RingInstance.instanceId = '00000000-0000-4000-8000-000000000000'
  await refused(two, 400, { reason: 'no_connected_cycle' })
  delete rig.state.nodeMemory['id-n1']
  await refused(one, 503, { reason: 'info_pending' })
})

t.test('three nodes in a ring that is not linked all round', async (t) => {
  const rig = await startPlacement(t, {
    nodes: { n1: 64, n2: 64, n3: 64, n4: 64 }, cards: [card('acme/wide', { engine: 'wide' })]
  })
  const { body: instance } = await rig.ask('GET', '/instance/placement?model_id=acme/wide&min_nodes=4')
  const { connections } = rig.state.topology
  delete connections['id-n2']!['id-n3']
  t.match((await rig.ask('POST', '/instance', { instance })).body.error, {
    reason: 'no_connected_cycle', message: /^n2 and n3 are next to each other/
  })
})

t.test('previews: what fits with its sums, what does not with the reason', async (t) => {
  const wide = card('acme/wide', { engine: 'wide' })
  const rig = await startPlacement(t, { nodes: { n1: 64, n2: 64, n3: 4 }, cards: [wide] })
  const ask = async (more = ''): Promise<Record<string, unknown>[]> => {
    const { status, body } = await rig.ask('GET', `/instance/previews?model_id=acme/wide${more}`)
    t.equal(status, 200, JSON.stringify(body))
    return body['previews'] as Record<string, unknown>[]
  }
  const rows = await ask()
  t.match(rows[0], {
    model_id: 'acme/wide', sharding: 'Pipeline', instance_meta: 'Ring', min_nodes: 1, error: null,
    reason: null,
    instance: { RingInstance: { shardAssignments: { nodeToRunner: { 'id-n1': String } } } },
    memory_delta_by_node: { 'id-n1': 13.25 * GIB },
    details: {
      why: String, stagedBytes: 0, ranks: [{ nodeId: 'id-n1', backend: 'cpu', usableBytes: 32 * GIB }]
    }
  })
  const tensor = rows.find(({ sharding }) => sharding === 'Tensor')
  t.match(tensor, {
    instance: null, memory_delta_by_node: null, reason: 'tensor_unsupported', error: /does not support/,
    details: { modelSupportsTensor: false }
  })
  const [only] = await ask('&node_ids=n3')
  t.match(only, { reason: 'insufficient_memory', details: { nodes: [{ name: 'n3' }] } })
  const others = await ask('&node_ids=n1&node_ids=id-n2&excluded_node_ids=install-n1&excluded_node_ids=gone')
  const shardAssignments = { nodeToRunner: { 'id-n2': String } }
  t.match(others[0], { instance: { RingInstance: { shardAssignments } } })
  const { status, body } = await rig.ask('GET', '/instance/previews?model_id=acme/none')
  t.equal(status, 400)
  t.match(body.error, { reason: 'model_unknown', details: { remedy: /svc pull/ } })
})

t.test('the node that has the files already is taken', async (t) => {
  const staged = { 'acme/chat': { 'id-n2': 10 * GIB } }
  const rig = await startPlacement(t, { nodes: { n1: 64, n2: 64 }, staged })
  await placed(rig)
  t.match(rig.placed[0]!.instance.RingInstance.shardAssignments.nodeToRunner, { 'id-n2': String })
})

t.test('GET /instance/await tells when an instance is ready, or that none is', async (t) => {
  const rig = await startPlacement(t)
  const url = await rig.listen()
  const id = await placed(rig)
  const follow = async (seconds: number): Promise<{ text: () => string, ended: Promise<string> }> => {
    const answer = await fetch(`${url}/instance/await?model_id=acme/chat&timeout_seconds=${seconds}`)
    t.equal(answer.headers.get('content-type'), 'text/event-stream')
    let text = ''
    const read = async (): Promise<string> => {
      const decoder = new TextDecoder()
      const parts = answer.body as unknown as AsyncIterable<Uint8Array>
      for await (const part of parts) text += decoder.decode(part)
      return text
    }
    return { text: () => text, ended: read() }
  }
  const patient = await follow(60)
  const hasty = await follow(1)
  for (let i = 0; i < 5; i++) await rig.clock.advance(250)
  t.equal((await hasty.ended).split('\n\n')[1], 'data: {"type":"timeout","model_id":"acme/chat"}')
  for (let i = 0; i < 60 && patient.text().split('keep-alive').length < 3; i++) {
    await rig.clock.advance(250)
    await new Promise((resolve) => setImmediate(resolve))
  }
  t.equal(patient.text(), ': keep-alive\n\n'.repeat(2))
  runnersAre(rig.state, id, { RunnerRunning: {} })
  await rig.clock.advance(250)
  const [event] = (await patient.ended).split('\n\n').filter((line) => line.startsWith('data:'))
  t.match(JSON.parse(event!.slice(5)), { type: 'ready', instance: { RingInstance: { instanceId: id } } })

  const stopped = new AbortController()
  rig.state.runners = {}
  await fetch(`${url}/instance/await?model_id=acme/chat`, { signal: stopped.signal })
  stopped.abort()
  const { reads } = rig
  await rig.clock.advance(250)
  await until(() => rig.reads >= reads)
  t.strictSame(rig.logged.filter(({ level }) => level === 'error'), [], 'a client that goes away is no error')
})
