import t from 'tap'
import { SvcError } from '../../../kernel/index.js'
import { decide } from '../keeper/decide.js'
import type { Situation } from '../keeper/roles.js'
import { PlacementService, type RoleModels } from '../service.js'
import { bodyOf } from '../../runners/service.js'
import { card, GIB, nodeView, runnersAre, startPlacement, type PlacementRig } from './kit.js'
import { entry, instance, intent, judge, ready, short, situation } from './keeper-kit.js'

const role = (...models: string[]): Map<string, RoleModels> =>
  new Map([['helper', { models, waits: models.length === 1 }]])
const kept = intent({ origin: 'autoplace', systemRole: 'helper' })
const own = (id: string, node = 'id-n1', modelId = 'acme/chat') =>
  instance(id, [node], { placement: kept }, modelId)
const waits = (...ids: string[]) => new Map(ids.map((id) => [id, entry({ intent: kept })]))
const A = own('a')
const only = (...models: string[]) => (modelId: string): boolean => models.includes(modelId)
const gone = new Set(['id-n1'])

const table: [string, Partial<Situation>, string[], ((modelId: string) => boolean)?][] = [
  ['what is wanted is placed', { roles: role('acme/chat') }, ['wait new-0', 'place new-0']],
  ['once', { roles: role('acme/chat'), instances: [A], runners: ready(A) }, []],
  ['and waits only once', { roles: role('acme/chat'), waiting: waits('w') }, ['place w']],
  ['two masters had it placed', { roles: role('acme/chat'), waiting: waits('v', 'w') },
    ['forget w', 'place v']],
  ['of two the first goes on', { roles: role('acme/chat'), instances: [A, own('b', 'id-n2')] }, ['remove b']],
  ['one that is there and waits elsewhere', {
    roles: role('acme/chat'), instances: [A], waiting: waits('w')
  }, ['forget w']],
  ['one model waits for a place', { roles: role('acme/chat') }, ['wait new-0', 'place new-0'], () => false],
  ['of several the first that fits', { roles: role('acme/large', 'acme/chat') },
    ['wait new-0', 'place new-0'], only('acme/chat')],
  ['of several none, where none fits', { roles: role('acme/large', 'acme/chat') }, [], () => false],
  ['what is placed stays, though a better one would fit by now', {
    roles: role('acme/large', 'acme/chat'), instances: [A]
  }, []],
  ['its node is lost', { roles: role('acme/chat'), instances: [A], gone }, ['lose a', 'place a']],
  ['it is being replaced', { roles: role('acme/chat'), instances: [A], waiting: waits('a') },
    ['remove a', 'place a']],
  ['it was replaced', {
    roles: role('acme/chat'), waiting: waits('a'),
    instances: [instance('b', ['id-n2'], { placement: { ...kept, replaces: 'a' } })]
  }, ['forget a']],
  ['it is no longer wanted', { roles: role(), instances: [A], waiting: waits('w') },
    ['forget w', 'remove a']],
  ['no plugin speaks for it', { instances: [A] }, ['remove a']],
  ['not wanted any more while it is being replaced', { instances: [A], waiting: waits('a') }, ['forget a']],
  ['another model is wanted', { roles: role('acme/other'), instances: [A] },
    ['remove a', 'wait new-0', 'place new-0']],
  ['somebody else runs the model', {
    roles: role('acme/chat'), instances: [instance('x', ['id-n1'])], waiting: waits('w')
  }, ['forget w']],
  ['an ordinary instance that is lost waits as one', {
    roles: role('acme/chat'), waiting: new Map([['x', entry()]])
  }, ['place x']],
  ['the cluster places the model by itself', { roles: role('acme/chat'), autoplace: ['acme/chat'] },
    ['wait new-0', 'place new-0']],
  ['unless somebody stopped that', {
    roles: role('acme/chat'), autoplace: ['acme/chat'], stopped: new Set(['acme/chat'])
  }, ['wait new-0', 'place new-0']]
]

t.test('what is kept for a role', (t) => {
  for (const [what, over, steps, fits] of table) {
    t.strictSame(short(decide(situation(over), judge(fits))), steps, what)
  }
  const [step] = decide(situation({ roles: role('acme/chat') }), judge())
  t.match(step, { entry: { modelId: 'acme/chat', intent: { systemRole: 'helper', failedOn: [] } } })
  const moved = decide(situation({ roles: role('acme/chat'), instances: [A], gone }), judge())
  t.match(moved[0], { do: 'lose', entry: { intent: { systemRole: 'helper' } } }, 'lost, it keeps its role')
  t.end()
})

const refusal = new SvcError(
  'helper_instance', { status: 409, retryable: false, message: '', remedy: 'x' }, 'No.')

async function start (
  t: Parameters<typeof startPlacement>[0], models: string[]
): Promise<{ rig: PlacementRig, models: string[], service: ReturnType<typeof serviceOf> }> {
  const rig = await startPlacement(t, {
    nodes: { n1: 64, n2: 64 }, isMaster: true, config: { autoplace: [] },
    cards: ['acme/chat', 'acme/other'].map((id) => card(id, { totalBytes: GIB, files: [] }))
  })
  const service = serviceOf(rig)
  service.keep({
    systemRole: 'helper', refusal: () => refusal, wanted: () => ({ models, waits: models.length === 1 })
  })
  await rig.clock.advance(5000)
  return { rig, models, service }
}
const serviceOf = (rig: PlacementRig) => rig.service(PlacementService)
const ids = (rig: PlacementRig): string[] => Object.keys(rig.state.instances)

t.test('the instance of a role stays while it is wanted, and goes when it is not', async (t) => {
  const { rig, models, service } = await start(t, ['acme/chat'])
  const [id] = ids(rig)
  t.equal(ids(rig).length, 1)
  t.match(bodyOf(rig.state.instances[id!]!), { systemRole: 'helper', placement: { systemRole: 'helper' } })
  t.same(service.kept('helper'), { instanceId: id, modelId: 'acme/chat', own: true, state: 'starting' })
  runnersAre(rig.state, id!, { RunnerReady: {} })
  rig.changed()
  t.match(service.kept('helper'), { state: 'ready' })
  const answer = await rig.ask('DELETE', `/instance/${id}`)
  t.match(answer, { status: 409, body: { error: { reason: 'helper_instance', message: 'No.' } } })
  t.notOk(service.isStopped('acme/chat'), 'a refused stop leaves nothing')
  models.length = 0
  await rig.clock.advance(3000)
  t.same(ids(rig), [])
  t.equal(service.kept('helper'), null)
})

t.test('it is replaced on another node, with its role, and the failure is recorded', async (t) => {
  const { rig, service } = await start(t, ['acme/chat'])
  const [id] = ids(rig)
  runnersAre(rig.state, id!, { RunnerReady: {} })
  const [node] = Object.keys(bodyOf(rig.state.instances[id!]!).shardAssignments.nodeToRunner)
  const because = { errorCode: 'no_answer', errorMessage: 'It did not answer.' }
  const done = service.replace(id!, because)
  await rig.clock.advance(3000)
  await done
  await service.replace('gone', because)
  t.equal(ids(rig).length, 1)
  const body = bodyOf(rig.state.instances[ids(rig)[0]!]!)
  t.match(body, { systemRole: 'helper', placement: { replaces: id, systemRole: 'helper' } })
  t.not(Object.keys(body.shardAssignments.nodeToRunner)[0], node)
  t.match(rig.failed, [{ instanceId: id, errorCode: 'no_answer' }])
})

t.test('where a choice is left, what somebody stopped is not brought back', async (t) => {
  const { rig, service } = await start(t, [])
  const { body } = await rig.ask('POST', '/place_instance', { model_id: 'acme/chat' })
  service.keep({
    systemRole: 'helper', refusal: () => refusal,
    wanted: () => ({
      models: ['acme/chat', 'acme/other'].filter((id) => !service.isStopped(id)), waits: false
    })
  })
  await rig.clock.advance(2000)
  t.match(service.kept('helper'), { own: false, modelId: 'acme/chat' }, 'what runs already will do')
  const stopped = rig.ask('DELETE', `/instance/${body['instance_id'] as string}`)
  await rig.clock.advance(3000)
  t.equal((await stopped).status, 200, 'an instance that somebody placed is theirs to stop')
  t.match(service.kept('helper'), { own: true, modelId: 'acme/other' })
})

t.test('the next master goes on, and what waits is told', async (t) => {
  const { rig, service } = await start(t, ['acme/none'])
  t.match(service.kept('helper'), {
    own: true, modelId: 'acme/none', state: 'waiting', problem: /acme\/none/
  }, 'with what stands in its way')
  rig.session.isMaster = false
  rig.views[1] = nodeView('n2', { live: false })
  await rig.clock.advance(3000)
  rig.session.isMaster = true
  rig.newSession()
  await rig.clock.advance(3000)
  const { waitingInstances } = (await rig.ask('GET', '/state')).body as { waitingInstances: object }
  t.equal(Object.keys(waitingInstances).length, 1)
  const waiting = service.kept('helper')!.instanceId
  t.match(await rig.ask('DELETE', `/instance/${waiting}`), { status: 409 })
})
