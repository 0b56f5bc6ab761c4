import t from 'tap'
import { ID, startPlacement } from './kit.js'

const place: [string, object][] = [
  ['model_id', {}], ['model_id', { model_id: '' }], ['model_id', { model_id: 7 }],
  ['model_id', { model_id: 'a'.repeat(513) }],
  ['sharding', { sharding: 'pipeline' }], ['instance_meta', { instance_meta: 'MlxRing' }],
  ['min_nodes', { min_nodes: 0 }], ['min_nodes', { min_nodes: 1.5 }], ['min_nodes', { min_nodes: '2' }],
  ['min_nodes', { min_nodes: 1025 }],
  ['excluded_nodes', { excluded_nodes: 'n1' }], ['excluded_nodes.0', { excluded_nodes: [''] }],
  ['excluded_nodes', { excluded_nodes: ['a', 'a'] }],
  ['excluded_nodes', { excluded_nodes: Array.from({ length: 257 }, (_, i) => `n${i}`) }],
  ['wait', { wait: 'yes' }], ['timeout_seconds', { timeout_seconds: 0 }],
  ['timeout_seconds', { timeout_seconds: 86_401 }], ['force', { force: 1 }], ['modelId', { modelId: 'x' }]
]
const ring = { instanceId: ID, contextTokenLimit: 1, systemRole: null, engine: 'lm', hostsByNode: {},
  shardAssignments: { modelId: 'acme/chat', runnerToShard: {}, nodeToRunner: {} } }
const shard = {
  modelCard: { modelId: 'a/b' }, deviceRank: 0, worldSize: 1, startLayer: 0, endLayer: 1, nLayers: 1
}
const some = { modelId: 'acme/chat', nodeToRunner: { n1: ID },
  runnerToShard: { [ID]: { PipelineShardMetadata: shard } } }
const shardsAre = (one: unknown): object =>
  ({ RingInstance: { ...ring, shardAssignments: { ...some, runnerToShard: { [ID]: one } } } })
const runner = `instance.RingInstance.shardAssignments.runnerToShard.${ID}`
const create: [string, unknown][] = [
  ['instance', undefined], ['instance', 'x'], ['instance', {}],
  ['instance.OtherInstance', { OtherInstance: ring }],
  ['instance.RingInstance.driverNode', { RingInstance: { ...ring, driverNode: 'n1' } }],
  ['instance.LlamaRpcInstance.driverNode', { LlamaRpcInstance: { ...ring, donorEndpoints: {} } }],
  ['instance.LlamaRpcInstance.donorEndpoints', { LlamaRpcInstance: { ...ring, driverNode: 'n1' } }],
  ['instance.RingInstance.extra', { RingInstance: { ...ring, extra: 1 } }],
  ['instance.RingInstance.instanceId', { RingInstance: { ...ring, instanceId: '../x' } }],
  ['instance.RingInstance.contextTokenLimit', { RingInstance: { ...ring, contextTokenLimit: -1 } }],
  ['instance.RingInstance.engine', { RingInstance: { ...ring, engine: '' } }],
  ['instance.RingInstance.hostsByNode',
    { RingInstance: { ...ring, hostsByNode: [], shardAssignments: some } }],
  ['instance.RingInstance.shardAssignments.runnerToShard', { RingInstance: ring }],
  [runner, shardsAre({})], [`${runner}.OtherMetadata`, shardsAre({ OtherMetadata: shard })],
  [`${runner}.PipelineShardMetadata.endLayer`,
    shardsAre({ PipelineShardMetadata: { ...shard, endLayer: -1 } })],
  [`${runner}.TensorShardMetadata.more`, shardsAre({ TensorShardMetadata: { ...shard, more: 1 } })]
]
const queries: [string, string][] = [
  ['model_id', '/instance/placement'], ['sharding', '/instance/placement?model_id=a/b&sharding=x'],
  ['min_nodes', '/instance/placement?model_id=a/b&min_nodes=two'],
  ['extra', '/instance/placement?model_id=a/b&extra=1'],
  ['model_id', '/instance/previews'], ['node_ids.0', '/instance/previews?model_id=a/b&node_ids='],
  ['excluded_node_ids', '/instance/previews?model_id=a/b&excluded_node_ids=x&excluded_node_ids=x'],
  ['model_id', '/instance/await'], ['timeout_seconds', '/instance/await?model_id=a/b&timeout_seconds=0'],
  ['instance_id', `/instance/${'x'.repeat(129)}`]
]

t.test('every wrong field is named', async (t) => {
  const rig = await startPlacement(t)
  const check = ({ status, body }: Awaited<ReturnType<typeof rig.ask>>, path: string, what: string): void => {
    t.equal(status, 400, what)
    t.match(body.error, { reason: 'invalid_request', details: { issues: [{ path }] } }, what)
    t.equal(body.error!.details.issues![0]!.path, path, what)
  }
  for (const [path, more] of place) {
    const whole = path === 'model_id' ? more : { model_id: 'acme/chat', ...more }
    check(await rig.ask('POST', '/place_instance', whole), path, JSON.stringify(whole).slice(0, 200))
  }
  for (const [path, instance] of create) {
    const whole = instance === undefined ? {} : { instance }
    check(await rig.ask('POST', '/instance', whole), path, JSON.stringify(whole))
  }
  for (const [path, url] of queries) check(await rig.ask('GET', url), path, url)
  t.equal((await rig.ask('POST', '/place_instance')).status, 400, 'a body is needed')
  t.strictSame([rig.placed, rig.reads], [[], 0])
})

t.test('authorities', async (t) => {
  const rig = await startPlacement(t, { allow: ['read'] })
  const calls: [string, string, unknown, number][] = [
    ['GET', '/instance/previews?model_id=acme/chat', undefined, 200],
    ['GET', '/instance/placement?model_id=acme/chat', undefined, 200],
    ['GET', '/instance/none', undefined, 404],
    ['POST', '/place_instance', { model_id: 'acme/chat' }, 401],
    ['POST', '/instance', { instance: { RingInstance: ring } }, 401],
    ['DELETE', '/instance/none', undefined, 401]
  ]
  for (const [method, url, payload, status] of calls) {
    t.equal((await rig.ask(method, url, payload)).status, status, `${method} ${url}`)
  }
  t.strictSame([rig.placed, rig.removed], [[], []])
  const shown = (await rig.ask('GET', '/instance/placement?model_id=acme/chat')).body
  t.match(shown, { RingInstance: { hostsByNode: null } }, 'addresses are for the operator')
})
