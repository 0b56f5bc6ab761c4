import t from 'tap'
import { IdleTimes, type IdleUnloadable } from '../instances/shutdown.js'
import type { PlacementIntent } from '../instances/sections.js'
import { endings, ledBy } from './endings-kit.js'

const one: IdleUnloadable = {
  instanceId: 'I', modelId: 'svc/m', runnerId: 'R', ttlSeconds: 10, ready: true, outstanding: 0
}

interface Step { at: number, over?: Partial<IdleUnloadable>, used?: number, gone?: boolean }

/** Checks at the second `at` of each step; returns the idle seconds if the instance must be unloaded. */
function looks (steps: readonly Step[]): (number | null)[] {
  const times = new IdleTimes()
  return steps.map(({ at, over, used, gone = false }) => {
    if (used !== undefined) times.used('R', used * 1000)
    return times.check(gone ? [] : [{ ...one, ...over }], at * 1000)[0]?.idleSeconds ?? null
  })
}

const table: [string, Step[], (number | null)[]][] = [
  ['it counts from ready', [{ at: 0, over: { ready: false } }, { at: 50 }, { at: 59 }, { at: 60 }],
    [null, null, null, 10]],
  ['a task ended', [{ at: 0 }, { at: 9 }, { at: 11, used: 9.5 }, { at: 19 }, { at: 20 }],
    [null, null, null, null, 10.5]],
  ['a task is served', [{ at: 0 }, { at: 60, over: { outstanding: 1 } }, { at: 69 }, { at: 71 }],
    [null, null, null, 11]],
  ['a runner that started again', [{ at: 0 }, { at: 9, over: { ready: false } }, { at: 12 }, { at: 21 },
    { at: 22 }], [null, null, null, null, 10]],
  ['not any more unloadable', [{ at: 0 }, { at: 5, gone: true }, { at: 12 }], [null, null, null]],
  ['a use before the first check counts', [{ at: 5, used: 3 }, { at: 12 }, { at: 13 }], [null, null, 10]]
]
for (const [name, steps, expected] of table) {
  t.test(`idle: ${name}`, async (t) => { t.strictSame(looks(steps), expected) })
}

t.test('an idle instance is unloaded for another model unless it works, is new or takes turns', async (t) => {
  const did: unknown[] = []
  const member = { assignment: { modelId: 'svc/m' }, startedAt: 0, readyAt: 1000 }
  const node = endings({
    fleet: { get: () => member as never, ready: () => true },
    drain: async (id, seconds) => { did.push(`${id} ${seconds}`) }
  })
  const { endings: ends, clock, led } = node
  const asks = (into = 'svc/n'): unknown[] => {
    ends.evict('I', into)
    return did.splice(0)
  }
  const again = async (): Promise<void> => {
    led.length = 0
    await clock.advance(1500)
    led.push(ledBy('I', 'R', { placement: { ttlSeconds: 99 } as PlacementIntent }))
    member.startedAt = clock.mono() - 1000
    member.readyAt = clock.mono()
    await clock.advance(1500)
    ends.taskEnded('R')
    await clock.advance(10)
  }
  led.push(ledBy('I', 'R', { placement: { ttlSeconds: 99 } as PlacementIntent }))
  await clock.advance(4000)
  t.strictSame([ends.idleSeconds('R'), asks()], [null, []], 'a request may be on its way to a new one')
  await clock.advance(3000)
  node.outstanding = 1
  t.strictSame([ends.idleSeconds('R'), asks()], [null, []], 'it works')
  node.outstanding = 0
  const [timed] = led.splice(0, 1, ledBy('I', 'R', {}))
  t.strictSame(asks(), [], 'it has no time to live')
  led.splice(0, 1, timed!)
  t.strictSame([asks(), asks()], [['I 3600'], []], 'once')
  await again()
  t.strictSame([asks(), await again(), asks(), await again(), asks()], [['I 3600'], undefined, ['I 3600'],
    undefined, []], 'after the third swap of a pair the model stays')
  await clock.advance(2000)
  t.strictSame(asks('svc/o'), ['I 3600'], 'for three load times')
  ends.close()
})

t.test('an idle instance is unloaded once, and tried again where that failed', async (t) => {
  const did: unknown[] = []
  let fails = true
  const { endings: ends, clock, led } = endings({
    drain: async (id, seconds) => {
      did.push(`drain ${id} ${seconds}`)
      if (fails) throw new Error('no master')
    },
    unloaded: (event) => { did.push(event) }
  })
  const placement = { ttlSeconds: 10 } as PlacementIntent
  led.push(ledBy('I', 'R', { placement }))
  await clock.advance(8000)
  ends.taskEnded('R')
  await clock.advance(9000)
  t.strictSame(did, [])
  await clock.advance(2000)
  t.strictSame(did.splice(0), ['drain I 3600', 'drain I 3600'])
  fails = false
  await clock.advance(5000)
  t.strictSame(did.splice(0), ['drain I 3600', { instanceId: 'I', modelId: 'svc/m', idleSeconds: 12 }])
  led.length = 0
  await clock.advance(1000)
  ends.close()
  led.push(ledBy('I', 'R', { placement }))
  await clock.advance(60_000)
  t.strictSame(did, [])
})
