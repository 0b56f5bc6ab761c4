/** Instances with a driver and donors: their fields, and why they are refused. */
import t from 'tap'
import { bodyOf, type Instance, type LlamaRpcInstance } from '../../runners/service.js'
import { intentOf } from '../place/instance.js'
import { card, startPlacement, type PlacementRig } from './kit.js'

type Star = Extract<Instance, { LlamaRpcInstance: unknown }>
const at = [{ ip: '10.0.0.1', port: 52415 }]
const cards = [card('acme/star', { engine: 'star' }), card('acme/chat')]
const start = async (t: Parameters<typeof startPlacement>[0], allow?: string[]): Promise<PlacementRig> =>
  await startPlacement(t, {
    nodes: { n1: 64, n2: 64, n3: 64 }, cards, ...allow === undefined ? {} : { allow }
  })
const ASK = 'model_id=acme/star&instance_meta=LlamaRpc&min_nodes=3'
const planned = async (rig: PlacementRig, query = ASK): Promise<Instance> =>
  (await rig.ask('GET', `/instance/placement?${query}`)).body as unknown as Instance

t.test('a model over a driver and two donors', async (t) => {
  const rig = await start(t)
  const ask = { model_id: 'acme/star', instance_meta: 'LlamaRpc', min_nodes: 3 }
  t.equal((await rig.ask('POST', '/place_instance', ask)).status, 200)
  const { instance } = rig.placed[0]!
  const { LlamaRpcInstance: star } = instance as Star
  const shards = Object.fromEntries(Object.entries(star.shardAssignments.nodeToRunner).map(([id, runner]) =>
    [id, Object.values(star.shardAssignments.runnerToShard[runner]!)[0] as { deviceRank: number }]))
  t.equal(shards[star.driverNode]!.deviceRank, 0)
  const donors = Object.keys(star.donorEndpoints)
  t.strictSame(donors.map((id) => shards[id]!.deviceRank), [1, 2])
  t.strictSame(Object.values(star.donorEndpoints), [at, at])
  t.strictSame(star.hostsByNode, { [star.driverNode]: [...at, ...at], [donors[0]!]: at, [donors[1]!]: at })
  t.match(star.placement, { instanceMeta: 'LlamaRpc', minNodes: 3 })
  t.equal(intentOf({ LlamaRpcInstance: { ...star, placement: undefined } as never }).instanceMeta, 'LlamaRpc')
})

t.test('its addresses are for the operator', async (t) => {
  const rig = await start(t, ['read'])
  t.match(await planned(rig), { LlamaRpcInstance: { donorEndpoints: null, hostsByNode: null } })
})

t.test('what would be made goes back as it is', async (t) => {
  const rig = await start(t)
  const instance = await planned(rig) as Star
  const unseen = { donorEndpoints: null, hostsByNode: null }
  const shown = { LlamaRpcInstance: { ...instance.LlamaRpcInstance, ...unseen } }
  const { status, body } = await rig.ask('POST', '/instance', { instance: shown })
  t.equal(status, 200, JSON.stringify(body))
  const { instanceId } = bodyOf(instance)
  const { placement, ...entered } = (rig.state.instances[instanceId] as Star).LlamaRpcInstance
  t.strictSame(entered, instance.LlamaRpcInstance)
  t.match(placement, { instanceMeta: 'LlamaRpc', minNodes: 3, origin: 'request' })
})

const wrong: [string, RegExp, (star: LlamaRpcInstance) => unknown][] = [
  ['driverNode', /deviceRank 0/, (star) => { star.driverNode = Object.keys(star.donorEndpoints)[0]! }],
  ['driverNode', /deviceRank 0/, (star) => { star.driverNode = 'somebody' }],
  ['engine', /must be star/, (star) => { star.engine = 'lm' }],
  ['shardAssignments.nodeToRunner', /each runner once/, (star) => {
    const { nodeToRunner } = star.shardAssignments
    nodeToRunner[star.driverNode] = nodeToRunner[Object.keys(star.donorEndpoints)[0]!]!
  }]
]
t.test('what is no driver with its donors', async (t) => {
  const rig = await start(t)
  const good = await planned(rig)
  for (const [field, message, spoil] of wrong) {
    const instance = structuredClone(good) as Star
    spoil(instance.LlamaRpcInstance)
    const { body } = await rig.ask('POST', '/instance', { instance })
    const param = `instance.LlamaRpcInstance.${field}`
    t.match(body.error, { reason: 'invalid_request', param, message }, field)
  }
  const alone = bodyOf(await planned(rig, 'model_id=acme/star'))
  const [driverNode] = Object.keys(alone.shardAssignments.nodeToRunner)
  const instance = { LlamaRpcInstance: { ...alone, driverNode, donorEndpoints: {} } }
  t.match((await rig.ask('POST', '/instance', { instance })).body.error, { message: /it has one node only/ })
})

t.test('a donor the driver has no link to', async (t) => {
  const rig = await start(t)
  const instance = await planned(rig) as Star
  const { driverNode, donorEndpoints } = instance.LlamaRpcInstance
  const [first, second] = Object.keys(donorEndpoints) as [string, string]
  // A missing link between two donors is not a reason to refuse the instance.
  rig.state.topology.connections[first]![second] = []
  t.equal((await rig.ask('POST', '/instance', { instance })).status, 200)
  rig.state.instances = {}
  rig.state.topology.connections[driverNode]![second] = []
  t.match((await rig.ask('POST', '/instance', { instance })).body.error, { reason: 'no_connected_cycle' })
})
