import t from 'tap'
import { bodyOf } from '../../runners/service.js'
import { GIB, startPlacement } from './kit.js'

t.test('a model that runs is not placed twice, unless nodes are named', async (t) => {
  const rig = await startPlacement(t, { nodes: { n1: 64, n2: 64, n3: 64 }, digest: 'new' })
  const place = async (more: object = {}) =>
    (await rig.ask('POST', '/place_instance', { model_id: 'acme/chat', ...more })).body
  const placedOn = (): string =>
    Object.keys(bodyOf(rig.placed.at(-1)!.instance).shardAssignments.nodeToRunner).join()
  const first = String((await place())['instance_id'])
  const on = placedOn()
  rig.state.nodeMemory[on]!.ramAvailable.inBytes = GIB
  rig.answers.push(first, first)
  const message = `acme/chat is already placed on ${on.slice(3)}, with its earlier settings.`
  t.match(await place(), { instance_id: first, message })
  t.match(await place({ context_length: 9999 }), { error: { param: 'context_length' } })
  await place({ excluded_nodes: [on] })
  t.not(placedOn(), on)
  const shown = await rig.ask('GET', '/instance/placement?model_id=acme/chat')
  t.notMatch(bodyOf(shown.body as never).shardAssignments.nodeToRunner, { [on]: String }, 'another one')
  const failure = { instanceId: first, errorCode: 'x', errorMessage: 'x', affectedNodeIds: [] }
  const changes: [string, () => void][] = [
    ['failed', () => { rig.state.instanceFailures.push(failure) }],
    ['drains', () => { bodyOf(rig.state.instances[first]!).drainUntil = '2026-01-01T00:00:00.000Z' }],
    ['is of another version', () => { bodyOf(rig.state.instances[first]!).modelDigest = 'old' }],
    ['is on a node that is lost', () => { Object.assign(view!, { live: false }) }]
  ]
  const view = rig.views.find(({ nodeId }) => nodeId === on)
  const before = structuredClone(rig.state.instances[first]!)
  for (const [what, change] of changes) {
    rig.state.instances = { [first]: structuredClone(before) }
    rig.state.instanceFailures.length = 0
    change()
    await place()
    t.not(placedOn(), on, what)
  }
})
