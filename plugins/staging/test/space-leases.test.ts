import t from 'tap'
import { Leases } from '../space/leases.js'
import { KeyedLock } from '../files/queues.js'
import { StoreError } from '../types.js'

t.test('a use of one content leaves another alone', (t) => {
  const leases = new Leases()
  const end = leases.use('acme/m', 'a', 'd1')
  t.same([leases.needs('acme/m', 'd1'), leases.needs('acme/m', 'd2')], [true, false])
  const whichever = leases.use('acme/m', 'b')
  t.ok(leases.needs('acme/m', 'd2'))
  whichever()
  end()
  t.notOk(leases.needs('acme/m', 'd1'))
  t.end()
})

t.test('uses are counted, told, and released once', (t) => {
  const leases = new Leases()
  const told: string[] = []
  const stopUse = leases.onUse((id) => { told.push(`use ${id}`) })
  const stopIdle = leases.onIdle((id) => { told.push(`idle ${id}`) })
  t.notOk(leases.has('o/a'))
  const first = leases.use('o/a', 'instance 1')
  const second = leases.use('o/a', 'runner 2')
  const third = leases.use('o/a', 'runner 2')
  const other = leases.use('o/b', 'runner 2')
  t.same(leases.ids(), ['o/a', 'o/b'])
  first()
  first()
  second()
  t.ok(leases.has('o/a'), 'a release counts once')
  third()
  t.notOk(leases.has('o/a'))
  t.same(leases.ids(), ['o/b'])
  third()
  const again = leases.use('o/a', 'runner 3')
  third()
  t.ok(leases.has('o/a'), 'an old release does not end a new use')
  t.same(told, ['use o/a', 'use o/a', 'use o/a', 'use o/b', 'idle o/a', 'use o/a'])
  stopUse()
  stopIdle()
  again()
  other()
  leases.use('o/c', 'x')()
  t.equal(told.length, 6, 'nothing is told after the stop')
  t.end()
})

t.test('what goes cannot be used, until it is gone', (t) => {
  const leases = new Leases()
  const told: string[] = []
  leases.onUse((id) => { told.push(id) })
  const draft = leases.going('o/draft', (used) => used === 'o/draft' || used === 'o/base')
  const lone = leases.going('o/lone', (used) => used === 'o/lone')
  const refused = (modelId: string): StoreError => {
    try { leases.use(modelId, 'x') } catch (error) { if (error instanceof StoreError) return error }
    throw new Error(`${modelId} was not refused`)
  }
  const message = /^o\/draft is being removed .*Retry/
  t.match(refused('o/draft'), { reason: 'model_going', message })
  t.match(refused('o/base').message, /^o\/draft, which o\/base needs, is being removed/)
  t.match(refused('o/lone').message, /^o\/lone is/)
  t.same([leases.ids(), told], [[], []], 'a refused use leaves nothing behind')
  leases.use('o/other', 'x')
  draft()
  leases.use('o/base', 'x')
  t.match(refused('o/lone').message, /^o\/lone is/, 'the other still goes')
  lone()
  leases.use('o/lone', 'x')
  t.same(leases.ids(), ['o/other', 'o/base', 'o/lone'])
  t.end()
})

function gate (): { wait: Promise<void>, open: () => void } {
  let open = (): void => {}
  const wait = new Promise<void>((resolve) => { open = resolve })
  return { wait, open }
}

const settled = async (): Promise<void> => { await new Promise((resolve) => setImmediate(resolve)) }

t.test('the queue runs one at a time, in order, whatever is thrown', async (t) => {
  const queue = new KeyedLock()
  const log: string[] = []
  const first = gate()
  const running = queue.run('disk', async () => {
    log.push('first')
    await first.wait
    log.push('first over')
    return 1
  })
  const broken = queue.run('disk', () => {
    log.push('broken')
    throw new Error('defect')
  })
  const last = queue.run('disk', () => { log.push('last') })
  t.ok(queue.busy('disk'))
  await settled()
  t.same(log, ['first'])
  first.open()
  t.equal(await running, 1, 'gives back what the job gives')
  await t.rejects(broken, { message: 'defect' })
  await last
  t.same(log, ['first', 'first over', 'broken', 'last'])
  await settled()
  t.notOk(queue.busy('disk'))
})

t.test('waiting can be given up, running cannot', async (t) => {
  const queue = new KeyedLock()
  const log: string[] = []
  const first = gate()
  const controller = new AbortController()
  const running = queue.run('disk', async () => { await first.wait; return 'over' }, controller.signal)
  const waiting = queue.run('disk', () => { log.push('waiting') }, controller.signal)
  const last = queue.run('disk', () => { log.push('last') }, new AbortController().signal)
  await settled()
  controller.abort(new Error('given up'))
  await t.rejects(waiting, { message: 'given up' })
  await t.rejects(queue.run('disk', () => { log.push('late') }, controller.signal), { message: 'given up' })
  await settled()
  t.same(log, [], 'the one behind still waits for the first')
  first.open()
  t.equal(await running, 'over')
  await last
  t.same(log, ['last'])
  await settled()
  t.notOk(queue.busy('disk'))
})
