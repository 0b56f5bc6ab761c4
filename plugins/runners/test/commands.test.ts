import t from 'tap'
import { createAnnouncer } from '../instances/document.js'
import { commandHandlers, commands } from '../instances/commands.js'
import { InstanceService } from '../service.js'
import { bodyOf } from '../instances/shapes.js'
import type { Instance } from '../instances/sections.js'
import { ensure, startRunners, until } from './rig.js'
import { card, section, soloInstance } from './samples.js'

const on = (instanceId: string, nodeId: string, modelId = 'm'): Instance =>
  soloInstance({ instanceId, runnerId: `runner of ${instanceId}`, nodeId }, card(modelId))

t.test('the master places a model once on a node, and removes it once', (t) => {
  const held = section()
  const digests = new Map<string, string>()
  const { create, remove } = commandHandlers({
    section: held,
    now: () => 0,
    live: () => true,
    digest: (modelId) => digests.get(modelId),
    check: ({ instance }) => {
      const { instanceId } = bodyOf(instance)
      if (instanceId.startsWith('large')) throw new Error('it does not fit')
    }
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
  digests.set('m', 'd1')
  check(on('f', 'n4'), 'f')
  check(on('g', 'n4'), 'f')
  check(on('g', 'n1'), 'e')
  digests.set('m', 'd2')
  check(on('g', 'n4'), 'g')
  check(on('h', 'n4'), 'g')
  t.strictSame(['e', 'f', 'g'].map((id) => bodyOf(held.get(id)!).modelDigest), [undefined, 'd1', 'd2'],
    'each runs the content that it was placed with')
  t.strictSame(Object.keys(commands).sort(),
    ['create', 'drain', 'instancesGone', 'remove', 'settle', 'tasksFailed'])
  t.end()
})

t.test('what came and went is told once, of what is acknowledged', async (t) => {
  const said: string[] = []
  const held = section()
  const session = { isMaster: true, sessionId: 's' }
  let settled = async (): Promise<void> => {}
  const announcer = createAnnouncer({
    section: held, session, log: { debug () {} } as never, settled: async () => { await settled() },
    created: ({ instanceId, modelId, nodeIds: [node] }) => { said.push(`+${instanceId} ${modelId} ${node}`) },
    deleted: ({ instanceId, modelId, reason = '' }) => { said.push(`-${instanceId} ${modelId}${reason}`) },
    report: async (instances) => { said.push(...instances.map(({ instanceId }) => `?${instanceId}`)) }
  })
  const announce = announcer.look
  held.put('a', on('a', 'n1'))
  await Promise.all([announce(), announce()])
  await announce()
  t.strictSame(said.splice(0), ['+a m n1'])
  held.put('b', on('b', 'n2'))
  settled = async () => { throw new Error('no master') }
  await announce()
  t.strictSame(said, [], 'refused: never there')
  held.remove('b')
  held.remove('a')
  settled = async () => {}
  await announce()
  t.strictSame(said.splice(0), ['-a m'])
  held.put('c', on('c', 'n1'))
  settled = async () => { session.sessionId = 'next' }
  await announce()
  t.strictSame(said, [], 'not under another session')
  settled = async () => {}
  await announce()
  t.strictSame(said.splice(0), ['+c m n1'])
  session.isMaster = false
  held.put('d', on('d', 'n1'))
  await announce()
  session.isMaster = true
  await announce()
  t.strictSame(said, [], 'what the master before told')
  session.isMaster = false
  held.remove('c')
  held.remove('d')
  await announce()
  t.strictSame(said.splice(0), ['?c'], 'what this node told, is gone under another master')
  const gone = (id: string): void => { announcer.gone([{ instanceId: id, modelId: 'm' }]) }
  for (const id of ['a', 'c', 'd']) gone(id)
  t.strictSame(said, [], 'the end of what was known here is told')
  gone('x')
  gone('x')
  t.strictSame(said, ['-x msession_lost'])
})

t.test('what a plugin decides goes through its commands', async (t) => {
  const cards = [card('svc/m'), card('svc/n')]
  const rig = await startRunners(t, { cards, place: [] })
  const instances = rig.service(InstanceService)
  await ensure(rig, 'svc/m')
  const kinds = (): string[] => rig.events.map((e) => e.kind).filter((kind) => kind.startsWith('Instance'))
  await until(() => kinds().join() === 'InstanceCreated')
  const [first, second] = await Promise.all([ensure(rig, 'svc/n'), ensure(rig, 'svc/n')])
  t.strictSame(first, second, 'two at once are one')
  await until(() => kinds().join() === 'InstanceCreated,InstanceCreated')
  await instances.remove(first.instanceId)
  await until(() => kinds().at(-1) === 'InstanceDeleted')
  await t.rejects(instances.remove(first.instanceId), /No instance/)
  t.equal(kinds().length, 3)
})
