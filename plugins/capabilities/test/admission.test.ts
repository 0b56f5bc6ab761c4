import { setMaxListeners } from 'node:events'
import t from 'tap'
import { like } from './kit.js'
import { Admission, callerToDisplace, nextCaller, retryAfterSeconds } from '../admission.js'
import { manualClock } from '../../../kernel/testing/manual-clock.js'

const never = new AbortController().signal
setMaxListeners(0, never)

t.test('Retry-After follows the measured rate', async (t) => {
  const check = (ahead: number, concurrency: number, meanMs: number | null, expected: number): void => {
    t.equal(retryAfterSeconds(ahead, concurrency, meanMs), expected,
      `${ahead} ahead, ${concurrency} at once, ${meanMs} ms`)
  }
  check(33, 8, null, 1)
  check(33, 8, 100, 1)
  check(32, 8, 1000, 4)
  check(33, 8, 1000, 5)
  check(33, 1, 10_000, 60)
  check(0, 8, 5000, 1)
})

t.test('who is next, who gives way', async (t) => {
  const next = (waiting: string[], running: Record<string, number>, expected: string | undefined): void => {
    t.equal(nextCaller(waiting, new Map(Object.entries(running))), expected)
  }
  next([], {}, undefined)
  next(['a', 'b'], {}, 'a')
  next(['a', 'b'], { a: 1 }, 'b')
  next(['a', 'b', 'c'], { a: 2, b: 1, c: 1 }, 'b')
  const gives = (lanes: Record<string, number>, newcomer: string, expected: string | undefined): void => {
    t.equal(callerToDisplace(new Map(Object.entries(lanes).map(([k, length]) => [k, { length }])), newcomer),
      expected)
  }
  gives({ a: 32 }, 'b', 'a')
  gives({ a: 32 }, 'a', undefined)
  gives({ a: 17, b: 15 }, 'b', 'a')
  gives({ a: 16, b: 15 }, 'b', undefined)
  gives({ a: 1 }, 'b', undefined)
  gives({}, 'b', undefined)
})

t.test('eight run, thirty-two wait, the next is refused', async (t) => {
  const clock = manualClock()
  const door = new Admission('x@1.0.0', clock, { concurrency: 8, queue: 32 })
  const inside = await Promise.all(Array.from({ length: 8 }, async () => await door.enter('a', never)))
  const order: number[] = []
  const waiting = Array.from({ length: 32 }, async (_, i) => {
    const release = await door.enter('a', never)
    order.push(i)
    return release
  })
  t.same([door.active, door.waiting], [8, 32])
  await clock.advance(3000)
  inside[0]!()
  inside[0]!()
  t.same([door.active, door.waiting], [8, 31], 'giving back twice counts once')
  void door.enter('a', never)
  await t.rejects(door.enter('a', never), like({ reason: 'overloaded', status: 429, retryAfterSeconds: 13,
    message: 'x@1.0.0 has 8 calls running and 32 waiting; try again in 13 s.' }))
  for (const release of inside) release()
  for (const release of waiting.slice(0, 20)) (await release)()
  t.same(order.slice(0, 20), Array.from({ length: 20 }, (_, i) => i), 'first come, first served')
})

t.test('Retry-After counts calls that run long, before the first has ended too', async (t) => {
  const clock = manualClock()
  await clock.advance(5000)
  const door = new Admission('x@1.0.0', clock, { concurrency: 2, queue: 0 })
  const refused = async (retryAfterSeconds: number): Promise<void> => {
    await t.rejects(door.enter('b', never), like({ retryAfterSeconds }))
  }
  const [first] = [await door.enter('a', never), await door.enter('a', never)]
  await refused(1)
  await clock.advance(20_000)
  await refused(10)
  first()
  const third = await door.enter('a', never)
  await clock.advance(2000)
  await refused(10)
  await clock.advance(600_000)
  await refused(60)
  third()
})

t.test('turns alternate between callers, and a flood makes room for others', async (t) => {
  const door = new Admission('x@1.0.0', manualClock(), { concurrency: 1, queue: 4 })
  const first = await door.enter('flood', never)
  const served: string[] = []
  const refused: string[] = []
  const call = (caller: string): void => {
    door.enter(caller, never).then((release) => { served.push(caller); setImmediate(release) },
      () => { refused.push(caller) })
  }
  for (let i = 0; i < 4; i++) call('flood')
  call('ann')
  call('bob')
  call('ann')
  await new Promise((resolve) => { setImmediate(resolve) })
  t.same(refused.sort(), ['ann', 'flood', 'flood'],
    'the flood lost its newest places; nobody had two more than ann')
  first()
  while (served.length < 4) await new Promise((resolve) => { setImmediate(resolve) })
  t.same(served, ['flood', 'ann', 'bob', 'flood'])
  t.equal(door.waiting, 0)
})

t.test('an aborted call leaves the queue', async (t) => {
  const door = new Admission('x@1.0.0', manualClock(), { concurrency: 1, queue: 2 })
  const release = await door.enter('a', never)
  const controller = new AbortController()
  const gone = door.enter('a', controller.signal)
  const stays = door.enter('a', never)
  controller.abort(new Error('left'))
  await t.rejects(gone, { message: 'left' })
  t.equal(door.waiting, 1)
  release()
  ;(await stays)()
  t.same([door.active, door.waiting], [0, 0])
  await t.rejects(door.enter('a', controller.signal), { message: 'left' }, 'aborted before it came')
  t.same([door.active, door.waiting], [0, 0])
})

t.test('calls may take several slots or none, and know their place in the queue', async (t) => {
  const door = new Admission('x', manualClock(), { concurrency: 4, queue: 8 })
  const enter = (caller: string, takes: number) => {
    const controller = new AbortController()
    const { signal } = controller
    const state = { place: () => door.placeOf(signal), leave: () => { controller.abort() }, isIn: false }
    const entering = door.enter(caller, signal, takes).then((release) => {
      state.isIn = true
      return release
    })
    entering.catch(() => {})
    return Object.assign(state, { release: async () => { (await entering)() } })
  }
  const turn = async (): Promise<void> => { await new Promise((resolve) => { setImmediate(resolve) }) }
  const [three, none] = [enter('a', 3), enter('a', 0)]
  const [two, one, nine] = [enter('b', 2), enter('b', 1), enter('c', 9)]
  await turn()
  t.same([three, none, two, one, nine].map(({ isIn }) => isIn), [true, true, false, false, false],
    'one slot is free, and nobody passes the first that waits')
  t.same([door.active, door.waiting], [3, 3])
  t.same([three, two, nine, one].map(({ place }) => place()), [0, 1, 2, 3], 'callers take turns')
  two.leave()
  await turn()
  t.same([one.isIn, nine.place(), door.active], [true, 1, 4], 'who leaves makes room')
  await one.release()
  await three.release()
  await turn()
  t.same([nine.isIn, door.active], [true, 4], 'it takes all there are')
  await nine.release()
  await none.release()
  t.same([door.active, door.waiting], [0, 0])
})

t.test('a queue of none refuses at once', async (t) => {
  const door = new Admission('x@1.0.0', manualClock(), { concurrency: 1, queue: 0 })
  await door.enter('a', never)
  await t.rejects(door.enter('b', never), like({ reason: 'overloaded' }))
})

t.test('everybody who waits can be refused at once', async (t) => {
  const door = new Admission('x', manualClock(), { concurrency: 1, queue: 8 })
  const release = await door.enter('a', never)
  const controller = new AbortController()
  const waiting = [door.enter('a', never), door.enter('b', controller.signal), door.enter('b', never)]
    .map(async (entering) => await entering.then(() => 'in', (error: unknown) => (error as Error).message))
  door.refuseAll(new Error('lost'))
  t.same(await Promise.all(waiting), ['lost', 'lost', 'lost'])
  t.same([door.active, door.waiting], [1, 0])
  controller.abort()
  release()
  t.equal(door.active, 0, 'nobody took the place')
  ;(await door.enter('a', never))()
})

t.test('a place that tells nothing about the time of a call does not count in the rate', async (t) => {
  const clock = manualClock()
  const door = new Admission('x', clock, { concurrency: 1, queue: 0 })
  const hold = async (ms: number, measured?: boolean): Promise<void> => {
    const release = await door.enter('a', never)
    await clock.advance(ms)
    release(measured)
  }
  await hold(4000)
  await hold(60_000, false)
  const release = await door.enter('a', never)
  await t.rejects(door.enter('b', never), like({ retryAfterSeconds: 4 }))
  release()
})
