import t from 'tap'
import { commandHandlers, commands } from '../commands.js'
import { InstanceService } from '../service.js'
import { bodyOf } from '../shapes.js'
import type { Instance } from '../shapes.js'
import { ensure, startRunners } from './rig.js'
import { card, section, soloInstance } from './samples.js'

const on = (instanceId: string, nodeId: string, modelId = 'm'): Instance =>
  soloInstance({ instanceId, runnerId: `runner of ${instanceId}`, nodeId }, card(modelId))

t.test('the master places a model once on a node, and removes it once', (t) => {
  const said: string[] = []
  const held = section()
  const { create, remove } = commandHandlers({
    section: held,
    now: () => 0,
    live: () => true,
    check: ({ instance }) => {
      const { instanceId } = bodyOf(instance)
      if (instanceId.startsWith('large')) throw new Error('it does not fit')
    },
    created: (id, modelId, nodeIds) => { said.push(`created ${id} ${modelId} on ${nodeIds.join()}`) },
    deleted: (id, modelId) => { said.push(`deleted ${id} ${modelId}`) }
  })
  const check = (instance: Instance, expected: string): void => {
    t.strictSame(create({ instance }), { instanceId: expected })
  }
  check(on('a', 'n1'), 'a')
  check(on('b', 'n1'), 'a')
  check(on('c', 'n2'), 'c')
  check(on('d', 'n1', 'other'), 'd')
  check(on('d', 'n3', 'third'), 'd')
  t.throws(() => create({ instance: on('large', 'n3') }), { message: 'it does not fit' })
  t.strictSame(create({ instance: on('large', 'n1') }), { instanceId: 'a' }, 'what is there is not judged')
  t.strictSame([...held.entries()].map(({ key }) => key), ['a', 'c', 'd'])
  t.strictSame(remove({ instanceId: 'a' }), { removed: true })
  t.strictSame(remove({ instanceId: 'a' }), { removed: false })
  check(on('e', 'n1'), 'e')
  t.strictSame(said, ['created a m on n1', 'created c m on n2', 'created d other on n1', 'deleted a m',
    'created e m on n1'])
  t.strictSame(Object.keys(commands).sort(), ['create', 'drain', 'remove', 'taskSpace'], 'each is declared')
  t.end()
})

t.test('what a plugin decides goes through its commands', async (t) => {
  const cards = [card('svc/m'), card('svc/n')]
  const rig = await startRunners(t, { cards, place: [] })
  const instances = rig.service(InstanceService)
  await ensure(rig, 'svc/m')
  const kinds = (): string[] => rig.events.map((e) => e.kind).filter((kind) => kind.startsWith('Instance'))
  t.strictSame(kinds(), ['InstanceCreated'])
  const [first, second] = await Promise.all([ensure(rig, 'svc/n'), ensure(rig, 'svc/n')])
  t.strictSame(first, second, 'two at once are one')
  t.strictSame(kinds(), ['InstanceCreated', 'InstanceCreated'])
  await instances.remove(first.instanceId)
  t.strictSame(kinds().at(-1), 'InstanceDeleted')
  await t.rejects(instances.remove(first.instanceId), /No instance/)
  t.equal(kinds().length, 3)
})
