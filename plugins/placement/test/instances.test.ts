import t from 'tap'
import { card, GIB, ID, runnersAre, startPlacement, until, type Options, type PlacementRig } from './kit.js'
import type { Planning } from '../place/planning.js'
import { remove } from '../handlers/instances.js'
import { refuse } from '../errors.js'
import type { WaitingEntry } from '../waitlist.js'
import { entry, intent } from './keeper-kit.js'
import { instanceOn } from './verb-kit.js'
import { bodyOf, type Instance, type RingInstance, type RouteQuery } from '../../runners/service.js'

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
  const drained = await rig.ask('DELETE', `/instance/${id}?drain_seconds=30`)
  t.equal(drained.status, 200)
  t.match(drained.body, {
    message: new RegExp('accepts no new requests; it is removed when its open requests have ended, ' +
      'at the latest at 1970-'),
    command_id: /^[0-9a-f-]{36}$/, instance_id: id
  })
  t.equal((await rig.ask('DELETE', `/instance/${id}?drain_seconds=3600`)).status, 200)
  t.strictSame(rig.drained, [{ instanceId: id, seconds: 30 }, { instanceId: id, seconds: 3600 }])
  for (const seconds of ['3601', '-1', 'x']) {
    t.equal((await rig.ask('DELETE', `/instance/${id}?drain_seconds=${seconds}`)).status, 400, seconds)
  }
  const removed = await rig.ask('DELETE', `/instance/${id}`)
  t.match(removed, { status: 200, body: { message: `Instance ${id} is removed.`, instance_id: id } })
  t.strictSame(rig.removed, [id])
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
    const ring = bodyOf(instance as unknown as Instance)
    // Fields that GET /state adds to an instance of an older release.
    const shown = {
      placement: { origin: 'autoplace' }, drainUntil: '2026-01-01T00:00:00Z', modelDigest: 'sha256:0'
    }
    const back = { RingInstance: { ...ring, ...shown, hostsByNode: null } }
    const { status, body } = await rig.ask('POST', '/instance', { instance: back })
    t.equal(status, 200, JSON.stringify(body))
    t.match(body, {
      message: 'acme/wide is placed on n1, n2.', instance_id: ring.instanceId,
      model_card: { modelId: 'acme/wide' }
    })
    const placement = {
      origin: 'request', sharding, instanceMeta: 'Ring', minNodes: 2, excluded: [], failedOn: [],
      ttlSeconds: null, replaces: null
    }
    t.strictSame(rig.state.instances[ring.instanceId], { RingInstance: { ...ring, placement } },
      'the addresses are filled in, and the intent is its own')
    t.match((await rig.ask('POST', '/instance', { instance })).body.error,
      { reason: 'invalid_request', param: 'instance.RingInstance.instanceId' })
    delete rig.state.instances[ring.instanceId]
  }
})

type Mutable = { -readonly [K in keyof RingInstance]: RingInstance[K] }
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
  ['', /like the others/, (ring) => {
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
    spoil(bodyOf(instance))
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
    const { nodeToRunner } = bodyOf(copy).shardAssignments
    nodeToRunner[to] = nodeToRunner[from]!
    delete nodeToRunner[from]
    return copy
  }
  await refused(move(one, 'id-n1', 'id-gone'), 404, { reason: 'node_not_found', message: /id-gone is live/ })
  await refused(move(one, 'id-n1', 'id-n3'), 400,
    { reason: 'insufficient_memory', message: /n3: needs 13\.25 GiB/, details: { suggestions: [] } })
  const uneven = move(two, 'id-n2', 'id-n3')
  const bodies = Object.values(bodyOf(uneven).shardAssignments.runnerToShard)
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
  bodyOf(unknown).shardAssignments.modelId = 'acme/none'
  await refused(unknown, 400, { reason: 'model_unknown' })
  delete rig.state.topology.connections['id-n2']!['id-n1']
  bodyOf(two).instanceId = '00000000-0000-4000-8000-000000000000'
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
  const listed = '/instance/previews?model_id=acme/wide&excluded_node_ids=gone,n1,%20n3&excluded_nodes=n9'
  const { body: told } = await rig.ask('GET', listed)
  t.strictSame(told['unknown_nodes'], ['gone', 'n9'], 'a list in one value, and names that nobody has')
  t.match(told['previews'], [{ instance: { RingInstance: { shardAssignments } } }])
  const { status, body } = await rig.ask('GET', '/instance/previews?model_id=acme/none')
  t.equal(status, 400)
  t.match(body.error, { reason: 'model_unknown', details: { remedy: /svc pull/ } })
})

t.test('the node that has the files already is taken', async (t) => {
  const staged = { 'acme/chat': { 'id-n2': 10 * GIB } }
  const rig = await startPlacement(t, { nodes: { n1: 64, n2: 64 }, staged })
  await placed(rig)
  t.match(bodyOf(rig.placed[0]!.instance).shardAssignments.nodeToRunner, { 'id-n2': String })
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

/** Options for a single live node that has too little memory for the model. */
const tooBig = (more: Options = {}): Options =>
  ({ nodes: { n1: 4 }, lost: ['n2'], isMaster: true, config: { autoplace: [] }, ...more })

/** Sends a request, and advances the clock until the commands that it causes are done. */
async function passing (
  rig: PlacementRig, ...ask: Parameters<PlacementRig['ask']>
): ReturnType<PlacementRig['ask']> {
  let done = false
  const answer = rig.ask(...ask).finally(() => { done = true })
  while (!done) await rig.clock.advance(50)
  return await answer
}

async function waiting (rig: PlacementRig): Promise<[string, Record<string, unknown>][]> {
  const { body } = await rig.ask('GET', '/state')
  return Object.entries(body['waitingInstances'] as Record<string, Record<string, unknown>>)
}

t.test('what waits for a place is shown, and ends when it is deleted', async (t) => {
  const rig = await startPlacement(t, tooBig())
  rig.state.instances[ID] = instanceOn(ID, 'acme/chat', ['id-n2'])
  await rig.clock.advance(10_000)
  t.match(await waiting(rig), [[ID, { modelId: 'acme/chat', reason: 'insufficient_memory' }]])
  t.match(rig.absence('acme/chat'),
    { problem: /^it waits for a node: .*n1.*[^.]$/, remedy: /svc place acme\/chat --dry-run/ })
  t.equal(rig.absence('acme/other'), null)
  const before = rig.removed.length
  const ended = await passing(rig, 'DELETE', `/instance/${ID}`)
  t.match(ended, { status: 200, body: { instance_id: ID, message: /no longer waits for a place/ } })
  t.strictSame([await waiting(rig), rig.drained, rig.removed.length], [[], [], before])
  t.equal(rig.absence('acme/chat'), null)
})

t.test('what the cluster places by itself stays stopped until somebody places it', async (t) => {
  const rig = await startPlacement(t, tooBig({ config: { autoplace: ['acme/chat'] } }))
  await rig.clock.advance(5000)
  const [[id]] = await waiting(rig) as [[string, object]]
  t.equal((await passing(rig, 'DELETE', `/instance/${id}`)).status, 200)
  await rig.clock.advance(5000)
  t.strictSame(await waiting(rig), [], 'it does not come back')
  t.match(rig.absence('acme/chat'), { problem: /^it was stopped at /, remedy: /svc place acme\/chat/ })
  const body = { model_id: 'acme/chat', force: true }
  const { body: placed } = await passing(rig, 'POST', '/place_instance', body)
  t.equal(rig.absence('acme/chat'), null)
  const again = placed['instance_id'] as string
  bodyOf(rig.state.instances[again]!).placement!.origin = 'autoplace'
  t.equal((await passing(rig, 'DELETE', `/instance/${again}?drain_seconds=0`)).status, 200)
  t.match(rig.absence('acme/chat'), { problem: /^it was stopped/ })
})

t.test('plugins.placement.drain_seconds is what counts when nobody says it', async (t) => {
  const rig = await startPlacement(t, { config: { drain_seconds: 7 } })
  const id = await placed(rig)
  await rig.ask('DELETE', `/instance/${id}`)
  t.strictSame([rig.removed, rig.drained], [[], [{ instanceId: id, seconds: 7 }]])
})

t.test('stopped is stopped, whoever had placed it, unless another one goes on', async (t) => {
  const rig = await startPlacement(t, { isMaster: true, config: { autoplace: ['acme/chat'] } })
  const [first, second] = [ID, ID.replace('8', '9')]
  rig.state.instances[first] = instanceOn(first, 'acme/chat', ['id-n1'])
  rig.state.instances[second] = instanceOn(second, 'acme/chat', ['id-n1'])
  for (const id of [first, second]) {
    bodyOf(rig.state.instances[id]!).placement = intent()
    runnersAre(rig.state, id, { RunnerReady: {} })
  }
  await passing(rig, 'DELETE', `/instance/${first}?drain_seconds=0`)
  t.equal(rig.absence('acme/chat'), null)
  await passing(rig, 'DELETE', `/instance/${second}?drain_seconds=0`)
  t.match(rig.absence('acme/chat'), { problem: /^it was stopped/ })
  await rig.clock.advance(5000)
  t.strictSame(rig.placed, [], 'it does not come back')
})

t.test('what nobody would bring back leaves no trace when it is stopped', async (t) => {
  const rig = await startPlacement(t, { isMaster: true, config: { autoplace: [] } })
  rig.state.instances[ID] = instanceOn(ID, 'acme/chat', ['id-n1'])
  await passing(rig, 'DELETE', `/instance/${ID}?drain_seconds=0`)
  t.equal(rig.absence('acme/chat'), null)
})

t.test('on demand: the next request does not bring back what an operator stopped', async (t) => {
  const rig = await startPlacement(t, { isMaster: true, config: { autoplace: [], on_demand: true } })
  rig.state.instances[ID] = instanceOn(ID, 'acme/chat', ['id-n1'])
  await passing(rig, 'DELETE', `/instance/${ID}?drain_seconds=0`)
  t.equal(await rig.missing!({ modelId: 'acme/chat' } as RouteQuery), false)
  t.strictSame(rig.placed, [])
})

t.test('what gets its place while it is deleted goes too', async (t) => {
  const rig = await startPlacement(t, tooBig())
  rig.state.instances[ID] = instanceOn(ID, 'acme/chat', ['id-n2'])
  await rig.clock.advance(10_000)
  t.equal((await waiting(rig)).length, 1)
  const successor = ID.replace('8', '9')
  const deleted = passing(rig, 'DELETE', `/instance/${ID}`)
  rig.state.instances[successor] = instanceOn(successor, 'acme/chat', ['id-n1'])
  bodyOf(rig.state.instances[successor]).placement = intent({ replaces: ID })
  t.equal((await deleted).status, 200)
  t.strictSame(rig.state.instances, {})
})

t.test('what is lost while it is deleted is not placed again', async (t) => {
  for (const gone of [true, false]) {
    const waiting = new Map<string, WaitingEntry>()
    const there: Record<string, Instance> = { [ID]: instanceOn(ID, 'acme/chat', ['id-n2']) }
    const instances = {
      async drain () {
        waiting.set(ID, entry())
        delete there[ID]
        if (gone) throw refuse('instance_not_found', 'No instance.')
      }
    }
    const planning = {
      facts: { now: () => ({ instances: there, waitingInstances: {} }) }, returns: () => false,
      minimum: () => 0, roles: new Map(),
      ctx: {
        config: { drain_seconds: 30 }, deps: { instances }, sections: { waiting },
        async command (name: string, { id }: { id: string }) { if (name === 'unwait') waiting.delete(id) }
      }
    } as unknown as Planning
    const request = { params: { instance_id: ID }, query: {} } as Parameters<typeof remove>[1]
    t.match(await remove(planning, request), { message: /is removed/ })
    t.equal(waiting.size, 0)
  }
})
