import { randomUUID } from 'node:crypto'
import t from 'tap'
import { SessionService } from '../../../kernel/index.js'
import { fake, manualClock } from '../../../kernel/testing/index.js'
import { commands } from '../commands.js'
import { RunnersService } from '../service.js'
import { createTaskIds, uuidV5 } from '../routing/task-ids.js'
import { startRunners } from './rig.js'

t.test('UUIDs of version 5', async (t) => {
  const dns = '6ba7b810-9dad-11d1-80b4-00c04fd430c8'
  t.equal(uuidV5(dns, 'www.example.com'), '2ed6657d-e927-568b-95e1-2665a8aea6a2', 'RFC 9562, appendix A.4')
  t.equal(uuidV5(dns, 'python.org'), '886313e1-3b8a-5372-9b90-0c9aee199e5d')
  for (const wrong of ['', 'x', dns.toUpperCase(), `${dns}0`, dns.replaceAll('-', '')]) {
    t.throws(() => uuidV5(wrong, 'x'), TypeError, wrong)
  }
})

/** What a node asks of masters that the test answers for. */
function ids () {
  const session: { sessionId: string, masterNodeId: string | null } = { sessionId: 's1', masterNodeId: 'm' }
  const asked: { resolve: (namespace: string) => void, reject: (error: Error) => void }[] = []
  const failures: string[] = []
  const clock = manualClock()
  const own = randomUUID()
  const made = createTaskIds({
    newId: () => own,
    ask: async () => await new Promise((resolve, reject) => { asked.push({ resolve, reject }) }),
    session,
    clock,
    failed: (error) => { failures.push((error as Error).message) }
  })
  return { made, session, asked, failures, clock, own }
}

t.test('a node counts in a namespace of its own until the master has given one', async (t) => {
  const { made, asked, clock, own } = ids()
  t.equal(made.next(), uuidV5(own, '0'))
  await clock.advance(100)
  t.equal(asked.length, 1)
  t.equal(made.next(), uuidV5(own, '1'), 'no request waits for it')
  const given = randomUUID()
  asked[0]!.resolve(given)
  await clock.advance(0)
  t.equal(made.next(), uuidV5(given, '2'))
  made.refresh()
  await clock.advance(60_000)
  t.equal(asked.length, 1, 'once in a session')
})

t.test('a new session brings a new namespace; what is late from the old one does not count', async (t) => {
  const { made, asked, clock, session, own } = ids()
  made.refresh()
  session.sessionId = 's2'
  session.masterNodeId = null
  made.refresh()
  t.equal(asked.length, 1, 'nobody to ask')
  session.masterNodeId = 'm2'
  made.refresh()
  t.equal(asked.length, 2)
  asked[0]!.resolve(randomUUID())
  await clock.advance(0)
  t.equal(made.next(), uuidV5(own, '0'))
  const given = randomUUID()
  asked[1]!.resolve(given)
  await clock.advance(0)
  t.equal(made.next(), uuidV5(given, '1'))
})

t.test('a master that fails is asked again', async (t) => {
  const { made, asked, clock, failures, own } = ids()
  made.refresh()
  asked[0]!.reject(new Error('no_master'))
  await clock.advance(0)
  await clock.advance(5_000)
  t.equal(asked.length, 2)
  asked[1]!.resolve('<script>')
  await clock.advance(0)
  await clock.advance(5_000)
  t.equal(asked.length, 3)
  t.match(failures, ['no_master', /no UUID/])
  t.equal(made.next(), uuidV5(own, '0'))
  made.close()
  asked[2]!.reject(new Error('late'))
  await clock.advance(0)
  await clock.advance(60_000)
  t.equal(asked.length, 3, 'and not after the end')
})

t.test('no id comes twice, over restarts and sessions', async (t) => {
  const seen = new Set<string>()
  for (let restart = 0; restart < 20; restart++) {
    const { made, asked, clock, session } = ids()
    for (let n = 0; n < 50; n++) seen.add(made.next())
    session.sessionId = `s${restart}`
    made.refresh()
    asked[0]!.resolve(randomUUID())
    await clock.advance(0)
    for (let n = 0; n < 50; n++) seen.add(made.next())
  }
  t.equal(seen.size, 2000)
})

t.test('the plugin asks the master of its session, in the background', async (t) => {
  t.ok(commands.taskSpace.summary)
  const rig = await startRunners(t)
  ;(await rig.runner('svc/voice-en')).ready()
  const caller = { id: 'x', mode: 'direct' as const, authorities: new Set<string>() }
  const runners = rig.service(RunnersService)
  const route = async () =>
    await runners.route({ modelId: 'svc/voice-en', capability: 'tts', commandId: 'C', caller })
  const [first, second] = [await route(), await route()]
  await rig.clock.advance(100)
  const third = await route()
  for (const { taskId } of [first, second, third]) t.match(taskId, /^[0-9a-f]{8}-[0-9a-f]{4}-5/)
  t.equal(new Set([first.taskId, second.taskId, third.taskId]).size, 3)
  t.notOk(rig.logged.some(({ message }) => /no namespace/.test(message)), 'the master gave one')
})

t.test('without a master it goes on with what it has', async (t) => {
  const session = { sessionId: 's', isMaster: false, masterNodeId: null, onChange: () => () => {} }
  const rig = await startRunners(t, { fakes: [fake(SessionService, session)] })
  ;(await rig.runner('svc/voice-en')).ready()
  const caller = { id: 'x', mode: 'direct' as const, authorities: new Set<string>() }
  await rig.clock.advance(10_000)
  const { taskId } = await rig.service(RunnersService)
    .route({ modelId: 'svc/voice-en', capability: 'tts', commandId: 'C', caller })
  t.match(taskId, /^[0-9a-f]{8}-[0-9a-f]{4}-5/)
})
