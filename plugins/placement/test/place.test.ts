import t from 'tap'
import { kernelError } from '../../../kernel/index.js'
import { card, GIB, runnersAre, startPlacement, until, type Options } from './kit.js'
import { refuse } from '../errors.js'
import { bodyOf } from '../../runners/service.js'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

t.test('a model is placed on the node that holds it', async (t) => {
  const rig = await startPlacement(t, { nodes: { n1: 8, n2: 64 } })
  const { status, body } = await rig.ask('POST', '/place_instance', { model_id: 'acme/chat' })
  t.equal(status, 200, JSON.stringify(body))
  t.strictSame(Object.keys(body), ['message', 'command_id', 'instance_id', 'model_card'])
  t.match(body['message'], /^acme\/chat is placed on n2\. 1 node/)
  t.match(body['model_card'], { modelId: 'acme/chat', storageSize: { inBytes: 10 * GIB }, files: [{}] })
  const [entered] = rig.placed
  t.match(entered!.options, { commandId: UUID, force: false })
  t.equal(entered!.options!.commandId, body['command_id'])
  const ring = bodyOf(entered!.instance)
  t.equal(ring.instanceId, body['instance_id'])
  t.match(ring, { engine: 'lm', contextTokenLimit: 4096, systemRole: null, hostsByNode: { 'id-n2': [] } })
  const runnerId = ring.shardAssignments.nodeToRunner['id-n2']!
  t.strictSame(Object.keys(ring.shardAssignments.nodeToRunner), ['id-n2'])
  t.match(ring.shardAssignments.runnerToShard[runnerId], {
    PipelineShardMetadata: {
      deviceRank: 0, worldSize: 1, startLayer: 0, endLayer: 10, nLayers: 10,
      modelCard: { modelId: 'acme/chat', storageSize: { inBytes: 10 * GIB }, files: [] }
    }
  })
  t.match(ring.instanceId, UUID)
  t.strictSame(rig.events, [], 'nothing was forced')
})

t.test('an instance has the context that was asked for', async (t) => {
  const long = card('acme/long', { contextLength: 131_072, nLayers: 10, kvHeads: 16, headSize: 128 })
  const cards = [long, card('acme/mute', { contextLength: 0 })]
  const rig = await startPlacement(t, { nodes: { n1: 40 }, cards })
  const place = async (model_id: string, context_length: number) =>
    await rig.ask('POST', '/place_instance', { model_id, context_length })
  const { body } = await rig.ask('GET', '/instance/placement?model_id=acme/long&context_length=100')
  t.match(body, { RingInstance: { contextTokenLimit: 100 } })
  const asked = '/instance/previews?model_id=acme/long&context_length=131072'
  const { body: { previews } } = await rig.ask('GET', asked)
  t.match(previews, [{ reason: 'insufficient_memory', details: { nodes: [{ cacheBytes: 10 * GIB }] } }])
  const placed = await place('acme/long', 65_536)
  t.equal(placed.status, 200, JSON.stringify(placed.body))
  t.match(bodyOf(rig.placed[0]!.instance),
    { contextTokenLimit: 65_536, placement: { contextLength: 65_536 } }, 'also when it is placed again')
  const param = 'context_length'
  t.match(await place('acme/long', 131_073),
    { status: 400, body: { error: { reason: 'invalid_request', param, message: /at most 131072/ } } })
  t.match(await place('acme/long', 1), { status: 400, body: { error: { param } } })
  t.match(await place('acme/mute', 10), { body: { error: { param, message: /acme\/mute has no context/ } } })
})

t.test('a given chat template is kept for later places; a missing one is said', async (t) => {
  const engine = 'llama-server'
  const cards = [card('acme/old', { support: { chat_template: 'no' } }), card('acme/other', { engine })]
  const rig = await startPlacement(t, { nodes: { n1: 100 }, cards })
  const place = (asked: object) => rig.ask('POST', '/place_instance', asked)
  t.match((await place({ model_id: 'acme/old' })).body, { message: /Chat template: no\.$/ })
  t.notMatch((await place({ model_id: 'acme/other', chat_template: '{{ x }}' })).body['message'], /template/)
  t.match(bodyOf(rig.placed[1]!.instance), { placement: { chatTemplate: '{{ x }}' } })
  t.equal((await place({ model_id: 'acme/old', chat_template: 'x' })).status, 400)
})

t.test('a model over several nodes, in a ring with addresses', async (t) => {
  const wide = card('acme/wide', { engine: 'wide', supportsTensor: true })
  const rig = await startPlacement(t, { nodes: { n1: 64, n2: 64, n3: 64 }, cards: [wide] })
  const ask = { model_id: 'acme/wide', min_nodes: 3 }
  t.equal((await rig.ask('POST', '/place_instance', ask)).status, 200)
  const ring = bodyOf(rig.placed[0]!.instance)
  const shards = Object.values(ring.shardAssignments.runnerToShard)
    .map((shard) => Object.values(shard)[0] as { deviceRank: number, startLayer: number, endLayer: number })
  t.strictSame(shards.map(({ deviceRank }) => deviceRank), [0, 1, 2])
  t.equal(shards[0]!.startLayer, 0)
  t.equal(shards[1]!.startLayer, shards[0]!.endLayer)
  t.equal(shards[2]!.endLayer, 10)
  t.strictSame(ring.hostsByNode['id-n1'], [{ ip: '10.0.0.1', port: 52415 }])
  const tensor = { ...ask, sharding: 'Tensor', min_nodes: 2, excluded_nodes: ['n3'] }
  t.equal((await rig.ask('POST', '/place_instance', tensor)).status, 200)
  t.match(Object.values(bodyOf(rig.placed[1]!.instance).shardAssignments.runnerToShard), [
    { TensorShardMetadata: { startLayer: 0, endLayer: 10, worldSize: 2 } }, { TensorShardMetadata: {} }
  ])
})

t.test('what is there already, and exclusions nobody knows, are told', async (t) => {
  const rig = await startPlacement(t, { nodes: { n1: 64, n2: 64 } })
  rig.answers.push('the-one-that-counts')
  const { body } = await rig.ask('POST', '/place_instance', { model_id: 'acme/chat', context_length: 2,
    excluded_nodes: ['install-n1'], excluded_node_ids: ['gone'], force: true })
  const message = 'acme/chat is already placed on n2, with its earlier settings. Its context, slots and ' +
    'template stay; to change them, `svc stop acme/chat` first. Unknown excluded nodes: gone.'
  t.match(body, { instance_id: 'the-one-that-counts', message })
  t.strictSame(rig.events, [], 'nothing new was forced')
})

t.test('force is told to the event log', async (t) => {
  const rig = await startPlacement(t, { nodes: { n1: 4 } })
  const { status, body } = await rig.ask('POST', '/place_instance', { model_id: 'acme/chat', force: true })
  t.equal(status, 200)
  t.match(rig.placed, [{ options: { force: true } }])
  t.match(rig.events, [{
    kind: 'PlacementForced',
    payload: { instanceId: body['instance_id'], modelId: 'acme/chat', nodeIds: ['id-n1'], by: 'local' }
  }])
})

const refusals: [string, Options, object, { details: object, message: RegExp }, number?][] = [
  ['no_source', { sourceless: ['acme/chat'] }, {},
    { message: /No node has the files of acme\/chat/, details: { remedy: /svc pull/ } }],
  ['insufficient_disk', { nodes: { n1: 64, n2: 64, n3: 4 }, full: ['n1', 'n2'] }, {}, {
    message: /n1: 9 GiB are missing\. n2: 9 GiB are missing\./,
    details: { nodes: [{ nodeId: 'id-n1' }, { nodeId: 'id-n2' }], remedy: /svc purge/ }
  }, 507],
  ['insufficient_memory', { nodes: { n1: 20 } }, {}, {
    message: /n1: needs 13\.25 GiB \(weights 10\.00 GiB \+ KV .*\), has 10\.00 GiB\. .* if you free 3\.26/,
    details: {
      nodes: [{
        nodeId: 'id-n1', name: 'n1', neededBytes: 13.25 * GIB, usableBytes: 10 * GIB, factor: 1.325,
        bufferBytes: 3 * GIB, cacheBytes: 0, fixedBytes: GIB / 4
      }],
      suggestions: [{ kind: 'free', nodeId: 'id-n1' }], remedy: /suggestions/
    }
  }],
  ['model_unknown', {}, { model_id: 'acme/none' },
    { message: /No model is called acme\/none/, details: { known: ['acme/chat'],
      remedy: /svc pull acme\/none/ } }],
  ['invalid_request', {}, { model_id: 'acme/oracle' }, {
    message: /acme\/oracle is a virtual model of every node: it has no files and cannot be placed/,
    details: { remedy: /svc run acme\/oracle/ }
  }]
]
for (const [reason, options, ask, expected, expectedStatus = 400] of refusals) {
  t.test(`refused before any command: ${reason}`, async (t) => {
    const rig = await startPlacement(t, { ...options, cards: [card('acme/chat')] })
    for (const url of ['/place_instance', '/instance/placement']) {
      const whole = { model_id: 'acme/chat', ...ask }
      const { status, body } = url === '/place_instance'
        ? await rig.ask('POST', url, whole)
        : await rig.ask('GET', `${url}?${queryOf(whole)}`)
      t.equal(status, expectedStatus, url)
      t.match(body.error, { reason, retryable: false, ...expected })
      t.equal(body['detail'], body.error!.message)
    }
    t.strictSame(rig.placed, [])
  })
}

t.test('a node without room on its disk is passed over, and is no place for a given instance', async (t) => {
  const rig = await startPlacement(t, { nodes: { n1: 64, n2: 64 }, full: ['n1'] })
  const { status, body } = await rig.ask('POST', '/place_instance', { model_id: 'acme/chat' })
  t.match([status, body['message']], [200, /is placed on n2/])
  const { instance } = rig.placed[0]!
  const { placement: _, ...ring } = bodyOf(instance)
  rig.state.instances = {}
  const there = structuredClone({ RingInstance: ring })
  there.RingInstance.shardAssignments.nodeToRunner =
    { 'id-n1': Object.values(ring.shardAssignments.nodeToRunner)[0]! }
  const given = await rig.ask('POST', '/instance', { instance: there })
  t.match([given.status, given.body.error?.reason], [507, 'insufficient_disk'])
})

t.test('a model that only a store may know, which is away', async (t) => {
  const rig = await startPlacement(t, { silentStore: 'attic' })
  const placing = rig.ask('POST', '/place_instance', { model_id: 'acme/none' })
  await until(() => rig.reads === 1)
  await rig.clock.advance(15_250)
  const { status, body } = await placing
  t.equal(status, 503)
  t.match(body.error, {
    reason: 'info_pending', retryable: true, message: /acme\/none.*the store on attic/,
    details: { pendingNodes: [{ name: 'attic', missing: ['store'] }] }
  })
  t.equal((await rig.ask('POST', '/place_instance', { model_id: 'acme/chat' })).status, 200)
})

function queryOf (ask: Record<string, unknown>): string {
  const query = new URLSearchParams()
  for (const [key, value] of Object.entries(ask)) {
    const name = key === 'excluded_nodes' ? 'excluded_node_ids' : key
    for (const one of [value].flat()) query.append(name, String(one))
  }
  return query.toString()
}

t.test('readings that are behind what was just given back are waited for', async (t) => {
  const rig = await startPlacement(t, { nodes: { n1: 64 } })
  const { ramAvailable } = rig.state.nodeMemory['id-n1']!
  const free = ramAvailable.inBytes
  const ask = async (): Promise<number> =>
    (await rig.ask('POST', '/place_instance', { model_id: 'acme/chat' })).status
  const looked = async (): Promise<void> => {
    const before = rig.reads
    while (rig.reads === before) await rig.clock.advance(50)
  }
  rig.settling = true
  ramAvailable.inBytes = GIB
  const first = ask()
  await looked()
  await looked()
  rig.settling = false
  t.equal(await Promise.race([first, looked().then(async () => await first)]), 400, 'not for ever')
  rig.settling = true
  const second = ask()
  await looked()
  ramAvailable.inBytes = free
  t.equal(await Promise.race([second, looked().then(async () => await second)]), 200)
})

t.test('what is placed and not loaded yet is counted', async (t) => {
  const rig = await startPlacement(t, { nodes: { n1: 40 } })
  const { body } = await rig.ask('POST', '/place_instance', { model_id: 'acme/chat' })
  const again = await rig.ask('POST', '/place_instance', { model_id: 'acme/chat' })
  t.match(again.body.error,
    { reason: 'insufficient_memory', details: { nodes: [{ reservedBytes: 13.25 * GIB }] } })
  runnersAre(rig.state, body['instance_id'] as string, { RunnerReady: {} })
  t.equal((await rig.ask('POST', '/place_instance', { model_id: 'acme/chat' })).status, 200,
    'once loaded the reading shows it')
})

t.test('nodes that are lost, and GPUs', async (t) => {
  const onGpu = card('acme/gpu', { engine: 'gpu' })
  const rig = await startPlacement(t, { nodes: { n1: 4 }, lost: ['n2'], cards: [onGpu] })
  t.match((await rig.ask('POST', '/place_instance', { model_id: 'acme/gpu' })).body.error,
    { reason: 'insufficient_memory', details: { candidates: [{ nodeId: 'id-n1' }] } })
  rig.state.nodeResources['id-n1'] = { backends: ['cpu', 'cuda'], participation: 'full' }
  const vendor = 'nvidia'
  const vramTotalBytes = 24 * GIB
  rig.state.nodeSystem['id-n1'] = { accelerators: [{ vendor, vramTotalBytes, vramUsedBytes: GIB }] }
  const ask = async (): ReturnType<typeof rig.ask> =>
    await rig.ask('POST', '/place_instance', { model_id: 'acme/gpu' })
  const looks = rig.state.looks!
  const { body: { message, instance_id: id } } = await ask()
  t.match(message, /on cuda/)
  t.equal(rig.state.looks, looks + 1, 'GPUs are read when they are planned for')
  runnersAre(rig.state, id as string, { RunnerReady: {} })
  const [runnerId] = Object.keys(rig.state.runners)
  const reading = (vramCounted: boolean, vramUsedBytes: number): void => {
    rig.state.nodeSystem['id-n1'] = {
      accelerators: [{ vendor, vramTotalBytes, vramUsedBytes }],
      runnerMemory: { [runnerId!]: { vramCounted } }
    } as never
  }
  reading(false, GIB)
  const reservedBytes = 11.25 * GIB + 512 * 4096 * 6
  t.match((await ask()).body.error, { details: { nodes: [{ memory: 'vram', reservedBytes }] } },
    'the memory of a loaded model is spoken for until a reading shows it')
  reading(true, 2 * GIB)
  t.equal((await ask()).status, 200)
  rig.state.nodeSystem['id-n1'] = { accelerators: [{ vendor, vramTotalBytes, vramUsedBytes: null }] }
  t.equal((await rig.ask('POST', '/place_instance', { model_id: 'acme/gpu' })).status, 400)
})

t.test('where a node has told nothing, it is waited for 15 s', async (t) => {
  const rig = await startPlacement(t, { nodes: { n1: 16, n2: 64 } })
  const { nodeMemory } = rig.state
  const told = nodeMemory['id-n2']!
  delete nodeMemory['id-n2']
  const asked = (): ReturnType<typeof rig.ask> =>
    rig.ask('POST', '/place_instance', { model_id: 'acme/chat' })

  let pending = asked()
  await until(() => rig.reads === 1)
  await rig.clock.advance(14_900)
  nodeMemory['id-n2'] = told
  await rig.clock.advance(100)
  t.match((await pending).body['message'], /placed on n2/, 'it goes on as soon as the node tells')

  delete nodeMemory['id-n2']
  const before = rig.reads
  const raw = rig.inject({ method: 'POST', url: '/place_instance', payload: { model_id: 'acme/chat' } })
  await until(() => rig.reads > before)
  await rig.clock.advance(14_999)
  t.equal(rig.reads - before, 60, 'it looks every 250 ms')
  await rig.clock.advance(251)
  const answer = await raw
  t.equal(answer.statusCode, 503)
  t.equal(answer.headers['retry-after'], '2')
  t.match(answer.json(), { error: {
    reason: 'info_pending', retryable: true,
    details: { pendingNodes: [{ nodeId: 'id-n2', name: 'n2', missing: ['memory'] }] }
  } })
  nodeMemory['id-n1'] = { ramTotal: { inBytes: 64 * GIB }, ramAvailable: { inBytes: 32 * GIB } }
  pending = asked()
  t.equal((await pending).status, 200, 'what fits without that node does not wait')
})

t.test('a node that publishes no readings is refused at once, by the name of the variable', async (t) => {
  const rig = await startPlacement(t, { nodes: { n1: 4, n2: 64, n3: 64 } })
  const silence = (name: string): void => {
    delete rig.state.nodeMemory[`id-${name}`]
    rig.state.topology.connections[`id-${name}`] = {}
    rig.state.nodeResources[`id-${name}`] = { backends: ['cpu'], participation: 'full', readings: false }
  }
  const place = async (): ReturnType<typeof rig.ask> =>
    await rig.ask('POST', '/place_instance', { model_id: 'acme/chat', min_nodes: 1 })
  silence('n2')
  t.match(await place(), { status: 200, body: { message: /is placed on n3/ } }, 'another one that fits')
  rig.state.instances = {}
  silence('n3')
  t.match(await place(), { status: 400, body: { error: {
    reason: 'readings_disabled', retryable: false, message: /n2, n3.*SVC_TELEMETRY_DISABLE=1/,
    details: { remedy: /without SVC_TELEMETRY_DISABLE/ }
  } } })
  const small = await rig.ask('POST', '/place_instance',
    { model_id: 'acme/chat', excluded_nodes: ['n2', 'n3'] })
  t.match([small.status, small.body.error?.reason], [400, 'insufficient_memory'], 'no wait for its links')
})

t.test('connections that were not told yet are waited for too', async (t) => {
  const rig = await startPlacement(t, {
    nodes: { n1: 64, n2: 64 }, cards: [card('acme/wide', { engine: 'wide' })]
  })
  const { connections } = rig.state.topology
  const told = connections['id-n2']!
  delete connections['id-n2']
  const ask = { model_id: 'acme/wide', min_nodes: 2 }
  const pending = rig.ask('POST', '/place_instance', ask)
  await until(() => rig.reads === 1)
  connections['id-n2'] = told
  await rig.clock.advance(250)
  t.equal((await pending).status, 200)
  delete connections['id-n2']
  const late = rig.ask('POST', '/place_instance', ask)
  const { reads } = rig
  await until(() => rig.reads > reads)
  await rig.clock.advance(15_250)
  t.match((await late).body.error, { reason: 'info_pending', details: { pendingNodes: [{ name: 'n2' }] } })
})

t.test('what the master refuses is planned anew, three times at most', async (t) => {
  const rig = await startPlacement(t)
  const refusal = (): Error => refuse('insufficient_memory', 'somebody was faster')
  rig.answers.push(refusal(), refusal())
  const first = rig.ask('POST', '/place_instance', { model_id: 'acme/chat' })
  for (const tries of [1, 2]) {
    await until(() => rig.placed.length === tries)
    await until(() => rig.reads >= tries)
    await new Promise((resolve) => setImmediate(resolve))
    await rig.clock.advance(250)
  }
  t.equal((await first).status, 200)
  t.equal(new Set(rig.placed.map(({ options }) => options!.commandId)).size, 3, 'each its own command')
  rig.answers.push(kernelError('no_quorum'))
  const { status, body } = await rig.ask('POST', '/place_instance', { model_id: 'acme/chat' })
  t.equal(status, 503)
  t.match(body.error, { reason: 'no_quorum' })
  t.equal(rig.placed.length, 4, 'other errors are not')
})

t.test('what was asked for is kept with the instance', async (t) => {
  const rig = await startPlacement(t, { nodes: { n1: 64, n2: 64 } })
  const ask = { model_id: 'acme/chat', excluded_nodes: ['n1', 'install-n1', 'gone'], ttl_seconds: 600 }
  t.equal((await rig.ask('POST', '/place_instance', ask)).status, 200)
  t.strictSame(bodyOf(rig.placed[0]!.instance).placement, {
    origin: 'request', sharding: 'Pipeline', instanceMeta: 'Ring', minNodes: 1, excluded: ['install-n1'],
    failedOn: [], ttlSeconds: 600, replaces: null
  })
  for (const ttl of [null, undefined]) {
    await rig.ask('POST', '/place_instance', { model_id: 'acme/chat', ttl_seconds: ttl, force: true })
    t.equal(bodyOf(rig.placed.at(-1)!.instance).placement!.ttlSeconds, null)
  }
  for (const wrong of [0, 604_801, 1.5, '60']) {
    const { status } = await rig.ask('POST', '/place_instance', { model_id: 'acme/chat', ttl_seconds: wrong })
    t.equal(status, 400, String(wrong))
  }
})
