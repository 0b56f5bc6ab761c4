import t from 'tap'
import { ID, startPlacement } from './kit.js'

const place: [string, object][] = [
  ['model_id', {}], ['sharding', { sharding: 'pipeline' }], ['instance_meta', { instance_meta: 'MlxRing' }],
  ['min_nodes', { min_nodes: 0 }], ['excluded_nodes.0', { excluded_nodes: [''] }],
  ['timeout_seconds', { timeout_seconds: 86_401 }], ['modelId', { modelId: 'x' }]
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
  ['instance', {}],
  ['instance.OtherInstance', { OtherInstance: ring }],
  ['instance.RingInstance.driverNode', { RingInstance: { ...ring, driverNode: 'n1' } }],
  ['instance.LlamaRpcInstance.donorEndpoints', { LlamaRpcInstance: { ...ring, driverNode: 'n1' } }],
  ['instance.RingInstance.instanceId', { RingInstance: { ...ring, instanceId: '../x' } }],
  ['instance.RingInstance.shardAssignments.runnerToShard', { RingInstance: ring }],
  [`${runner}.OtherMetadata`, shardsAre({ OtherMetadata: shard })],
  [`${runner}.PipelineShardMetadata.endLayer`,
    shardsAre({ PipelineShardMetadata: { ...shard, endLayer: -1 } })]
]
const queries: [string, string][] = [
  ['min_nodes', '/instance/placement?model_id=a/b&min_nodes=two'],
  ['node_ids.0', '/instance/previews?model_id=a/b&node_ids='], ['model_id', '/instance/await'],
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
