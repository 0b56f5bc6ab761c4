import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { LaunchError } from '../process/errors.js'
import { RunnerSet, type FleetParts, type RunnerFailure } from '../instances/runner-set.js'
import type { RunnerStatus } from '../service.js'
import { FakeRunner } from './rig.js'
import { card } from './samples.js'

const assignment = { instanceId: 'I', runnerId: 'R', modelId: 'svc/m' }

function fleetOf (over: Partial<FleetParts>) {
  const statuses = new Map<string, RunnerStatus>()
  const failures: RunnerFailure[] = []
  const made: FakeRunner[] = []
  const ignore = (): void => {}
  const fleet = new RunnerSet({
    clock: manualClock(),
    log: { debug: ignore, info: ignore, warn: ignore, error: ignore, fatal: ignore },
    statuses: {
      set: (id, status) => { statuses.set(id, status); return true },
      get: (id) => statuses.get(id),
      remove: (id) => { statuses.delete(id) }
    },
    create (options) {
      made.push(new FakeRunner(options))
      return made.at(-1)!
    },
    prepare: () => undefined,
    isDonor: () => false,
    launch: () => ({ spec: { card: card('svc/m') } }) as never,
    admit: async () => {},
    onMoved: ignore,
    onFailed: (_assignment, failure) => { failures.push(failure) },
    onChange: ignore,
    ...over
  })
  return { fleet, statuses, failures, made }
}

const turn = (): Promise<void> => new Promise((resolve) => { setImmediate(resolve) })
const throws = (error: Error) => (): never => { throw error }
const rejects = (error: Error) => async (): Promise<never> => { throw error }

const table: [string, Partial<FleetParts>, string][] = [
  ['no backend', { launch: throws(new LaunchError('no_backend', 'none')) }, 'no_backend'],
  ['a broken card', { launch: throws(new Error('not JSON')) }, 'runner_failed'],
  ['no memory', { admit: rejects(new LaunchError('insufficient_memory', 'full')) }, 'insufficient_memory'],
  ['no process', { create: throws(new RangeError('limit')) }, 'runner_failed']
]
for (const [name, over, errorCode] of table) {
  t.test(`a runner that cannot start: ${name}`, async (t) => {
    const { fleet, statuses, failures } = fleetOf(over)
    fleet.start(assignment)
    await turn()
    t.match(failures, [{ errorCode, attempts: 0 }])
    t.equal(failures.length, 1)
    t.match(statuses.get('R'), { RunnerFailed: { errorCode, errorMessage: failures[0]?.errorMessage } })
    t.equal(fleet.get('R')?.gaveUp, true)
  })
}

t.test('a runner that is started anew is prepared again; the old process counts no more', async (t) => {
  let go = (): void => {}
  const prepared: ((message: string) => void)[] = []
  const { fleet, statuses, failures, made } = fleetOf({
    async prepare (_assignment, waits) {
      prepared.push(waits)
      if (prepared.length === 1) return
      waits('the rank on n1 is not ready')
      await new Promise<void>((resolve) => { go = resolve })
    }
  })
  fleet.start(assignment)
  await turn()
  const [first] = made
  first!.options.onStatus({ RunnerReady: {} })
  t.ok(fleet.ready(fleet.get('R')!))
  const again = fleet.again('R', 'the connection broke')
  const since = String
  t.match(statuses.get('R'), { RunnerIdle: { waitsFor: { message: 'the connection broke', since } } })
  t.notOk(fleet.ready(fleet.get('R')!), 'not ready at once')
  first!.options.onStatus({ RunnerShutdown: {} })
  first!.options.onFailed({ errorMessage: 'late', errorCode: 'runner_failed', attempts: 3 })
  await turn()
  t.match(statuses.get('R'), { RunnerIdle: { waitsFor: { message: 'the rank on n1 is not ready', since } } })
  t.equal(made.length, 1)
  go()
  await again
  t.equal(made.length, 2)
  made[1]!.options.onStatus({ RunnerReady: {} })
  t.ok(fleet.ready(fleet.get('R')!))
  t.same(failures, [])
  await fleet.again('none', 'x')
  await fleet.stop('R')
  t.equal(fleet.get('R'), undefined)
})

t.test('a runner that was given up is started again, after longer and longer pauses', async (t) => {
  const clock = manualClock()
  let [free, tries] = [false, 0]
  const { fleet, statuses, failures, made } = fleetOf({
    clock,
    async admit () {
      tries++
      if (!free) throw new LaunchError('insufficient_memory', 'full')
    }
  })
  const nextTryAt = (ms: number): string => new Date(clock.now() + ms).toISOString()
  fleet.start(assignment)
  await turn()
  for (const [n, ms] of [60_000, 120_000, 240_000, 480_000, 900_000, 900_000].entries()) {
    t.match(statuses.get('R'), { RunnerFailed: { errorMessage: 'full', nextTryAt: nextTryAt(ms) } })
    await clock.advance(ms - 1)
    t.equal(tries, n + 1)
    if (n === 5) free = true
    await clock.advance(1)
    await turn()
    t.equal(tries, n + 2)
  }
  t.equal(failures.length, 6)
  t.equal(made.length, 1)
  t.strictSame(statuses.get('R'), { RunnerConnecting: {} })
  made[0]!.options.onStatus({ RunnerReady: {} })
  t.ok(fleet.ready(fleet.get('R')!), 'it is back')
  made[0]!.giveUp('it crashes')
  t.match(statuses.get('R'), { RunnerFailed: { errorMessage: 'it crashes', nextTryAt: nextTryAt(900_000) } })
  const rows = [['RunnerReady', 599_999, 900_000], ['RunnerRunning', 600_000, 60_000]] as const
  for (const [status, ms, pauseMs] of rows) {
    await clock.advance(900_000)
    await turn()
    made.at(-1)!.options.onStatus({ [status]: {} } as RunnerStatus)
    await clock.advance(ms)
    made.at(-1)!.options.onStatus({ RunnerConnecting: {} })
    made.at(-1)!.giveUp('it crashes')
    t.match(statuses.get('R'), { RunnerFailed: { nextTryAt: nextTryAt(pauseMs) } }, `served ${ms} ms`)
  }
  await fleet.stop('R')
  await clock.advance(1_000_000)
  t.strictSame([tries, made.length], [9, 3], 'not after a stop')
})

t.test('files that do not come are asked for again for ever', async (t) => {
  const clock = manualClock()
  let tries = 0
  let error: Error | null = Object.assign(new Error('n1 is lost.'), { reason: 'store_unreachable' })
  const prepare = async (): Promise<void> => {
    tries++
    if (error !== null) throw error
  }
  const { fleet, statuses, failures, made } = fleetOf({ clock, prepare })
  const since = new Date(clock.now()).toISOString()
  fleet.start(assignment)
  await turn()
  t.match(statuses.get('R'), { RunnerIdle: { waitsFor: {
    reason: 'store_unreachable', message: 'n1 is lost', since, tries: 1,
    nextTryAt: new Date(clock.now() + 1000).toISOString()
  } } })
  for (const ms of [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]) {
    const before = tries
    await clock.advance(ms - 1)
    t.equal(tries, before)
    await clock.advance(1)
    t.equal(tries, before + 1)
  }
  t.match(statuses.get('R'), { RunnerIdle: { waitsFor: { since, tries: 8 } } })
  t.strictSame(failures, [], 'no other node can do better')
  error = null
  await clock.advance(30_000)
  await turn()
  t.equal(made.length, 1)
  t.strictSame(statuses.get('R'), { RunnerConnecting: {} })
})

t.test('a cause in this node is told once; a stop ends the waiting', async (t) => {
  const clock = manualClock()
  let tries = 0
  const { fleet, failures, made } = fleetOf({
    clock, prepare: async () => { tries++; throw Object.assign(new Error('full'), { reason: 'no_safe_fit' }) }
  })
  fleet.start(assignment)
  await turn()
  await clock.advance(1000)
  await clock.advance(2000)
  t.match(failures, [{ errorCode: 'download_failed', errorMessage: 'full' }])
  t.strictSame([failures.length, tries], [1, 3])
  await fleet.stop('R')
  await clock.advance(60_000)
  t.strictSame([tries, made.length, fleet.members().length], [3, 0, 0])
})

t.test('a runner that is stopped while its memory is looked at is never made', async (t) => {
  let answer = (): void => {}
  const { fleet, failures, made } = fleetOf({
    admit: () => new Promise((_resolve, reject) => { answer = () => { reject(new Error('late')) } })
  })
  fleet.start(assignment)
  await turn()
  await fleet.stop('R')
  answer()
  await turn()
  t.strictSame([failures, made, fleet.members()], [[], [], []])
})

t.test('a runner that is stopped and placed anew meanwhile is made once', async (t) => {
  const answers: (() => void)[] = []
  const { fleet, made } = fleetOf({ admit: () => new Promise((resolve) => { answers.push(resolve) }) })
  fleet.start(assignment)
  await turn()
  await fleet.stop('R')
  fleet.start(assignment)
  await turn()
  t.equal(answers.length, 2)
  for (const answer of answers) answer()
  await turn()
  t.equal(made.length, 1)
})
