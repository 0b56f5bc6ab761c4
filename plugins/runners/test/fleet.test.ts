import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { LaunchError } from '../failures.js'
import { createFleet } from '../fleet.js'
import type { FleetParts, RunnerFailure } from '../fleet.js'
import type { RunnerStatus } from '../service.js'
import { FakeRunner } from './rig.js'
import { card } from './samples.js'

const assignment = { instanceId: 'I', runnerId: 'R', modelId: 'svc/m' }

function fleetOf (over: Partial<FleetParts>) {
  const statuses = new Map<string, RunnerStatus>()
  const failures: RunnerFailure[] = []
  const made: FakeRunner[] = []
  const ignore = (): void => {}
  const fleet = createFleet({
    clock: manualClock(),
    log: { debug: ignore, info: ignore, warn: ignore, error: ignore, fatal: ignore },
    board: {
      set: (id, status) => { statuses.set(id, status); return true },
      get: (id) => statuses.get(id),
      remove: (id) => { statuses.delete(id) }
    },
    create (options) {
      made.push(new FakeRunner(options))
      return made.at(-1)!
    },
    prepare: () => undefined,
    lends: () => false,
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
  ['its files do not come', { prepare: rejects(new Error('no source')) }, 'download_failed'],
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
