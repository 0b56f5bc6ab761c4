import t from 'tap'
import { fake, manualClock } from '../../../kernel/testing/index.js'
import { OwnApiService, SvcError, type Caller } from '../../../kernel/index.js'
import { endedTask, runnerWork } from '../../diagnostics/test/kit.js'
import { RunnerWorkService } from '../../runners/service.js'
import { familyOf, KeyLimits, type Limits } from '../limits.js'
import { UsageTable } from '../usage/table.js'
import { OPERATOR, startAccess } from './access-kit.js'

const START = Date.parse('2026-01-01T23:58:30Z')
let ids = 0
const callerOf = (id: string): Caller => ({ id, mode: 'direct', authorities: new Set(['invoke']) })

/** Nodes with limits for `key_new`, which replaces `key_old`; `report` sends a node's use to the others. */
function nodesWith (limits: Limits, names = ['a', 'b']) {
  const clock = manualClock(START)
  const entries = new Map<string, { nodeId: string, key: string, value: never }>()
  const nodes = names.map((nodeId) => {
    const table = new UsageTable()
    const section = {
      entries: () => entries.values(),
      put: (key: string, value: never) => { entries.set(`${nodeId}/${key}`, { nodeId, key, value }) }
    }
    const all = new KeyLimits({
      clock, nodeId, table, section: section as never,
      limitsOf: (id) => id.startsWith('key_') ? limits : undefined,
      familyOf: (id) => familyOf(id, new Map([['key_old', null], ['key_new', 'key_old']])),
      error: (reason, message, details) =>
        new SvcError(reason, { status: 429, retryable: true, message, remedy: '' }, message, details)
    })
    return {
      report: () => { all.report() },
      resume: () => { all.resume('key_old') },
      lose: () => { for (const key of entries.keys()) if (key.startsWith(`${nodeId}/`)) entries.delete(key) },
      /** Null, or the limit that refuses the request with the seconds to wait. */
      ask (id: string, commandId = `c${++ids}`): unknown {
        try { all.admit({ caller: callerOf(id), commandId }) } catch (error) {
          const { details } = error as SvcError
          return [details['limit'], details['retryAfterSeconds']]
        }
        return null
      },
      use (callerId: string, prompt: number, generated: number): void {
        const task = endedTask({ commandId: `c${++ids}`, callerId, tokens: { prompt, generated, cached: 0 } })
        table.add(new Date(clock.now()).toISOString().slice(0, 10), task)
        all.add(callerId, prompt + generated)
      }
    }
  })
  return { clock, nodes }
}

t.test('requests of a minute count once, over all nodes and rotations', async (t) => {
  const { clock, nodes: [a, b] } = nodesWith({ requests_per_minute: 3 })
  t.same([a!.ask('key_old'), a!.ask('key_old', 'same'), a!.ask('key_old', 'same')], [null, null, null])
  t.equal(b!.ask('key_new'), null)
  a!.report()
  b!.report()
  t.same([a!.ask('key_new'), b!.ask('key_old')], [['requests_per_minute', 30], ['requests_per_minute', 30]])
  t.equal(a!.ask('key_old', 'same'), null, 'a further attempt of a request that was admitted')
  t.equal(a!.ask('app_1'), null, 'a token without limits')
  await clock.advance(30_000)
  t.same([a!.ask('key_new'), b!.ask('key_old')], [null, null])
})

t.test('tokens of a minute and of a day', async (t) => {
  const { clock, nodes: [a, b] } = nodesWith({ tokens_per_minute: 100, tokens_per_day: 150 })
  a!.use('key_old', 60, 39)
  t.equal(a!.ask('key_old'), null)
  a!.use('key_old', 1, 0)
  t.same(a!.ask('key_new'), ['tokens_per_minute', 30])
  t.equal(b!.ask('key_new'), null, 'the other node has not been told')
  a!.report()
  t.same(b!.ask('key_new'), ['tokens_per_minute', 30])
  await clock.advance(30_000)
  t.equal(b!.ask('key_new'), null)
  b!.use('key_new', 25, 25)
  b!.report()
  t.same(a!.ask('key_old'), ['tokens_per_day', 60])
  await clock.advance(60_000)
  t.same([a!.ask('key_old'), b!.ask('key_new')], [null, null], 'the next day')
})

t.test('the keys of a rotation share a day in either order, over a restart and a lost node', async (t) => {
  const { clock, nodes: [a, b] } = nodesWith({ tokens_per_day: 100 })
  b!.use('key_new', 60, 41)
  t.same([b!.ask('key_new'), b!.ask('key_old')], [['tokens_per_day', 90], ['tokens_per_day', 90]])
  b!.report()
  a!.report()
  b!.lose()
  t.same(a!.ask('key_old'), ['tokens_per_day', 90], 'a lost node')
  b!.resume()
  b!.report()
  t.same(a!.ask('key_new'), ['tokens_per_day', 90], 'once more after its restart')
  await clock.advance(90_000)
  t.same([a!.ask('key_old'), b!.ask('key_new')], [null, null])
  const replaces = new Map([['k1', null], ['k2', 'k1'], ['k3', 'k2'], ['k4', 'gone'], ['x', 'y'], ['y', 'x']])
  t.same([familyOf('k2', replaces), familyOf('k4', replaces)], [['k1', 'k2', 'k3'], ['gone', 'k4']])
  t.doesNotThrow(() => familyOf('x', replaces), 'a document of a hostile master')
})

t.test('a key with limits over the API, with no rights to lead around them', async (t) => {
  const work = runnerWork()
  const rig = await startAccess(t, { fakes: [fake(RunnerWorkService, work)] })
  const send = async (path: string, body: object) => {
    const { signal } = new AbortController()
    const answer = await rig.service(OwnApiService)
      .ask({ method: 'POST', path, body, caller: OPERATOR, signal })
    const json = JSON.parse(answer.text) as { record: { id: string, limits: unknown } }
    return { status: answer.status, ...json }
  }
  const make = async (more: object) =>
    await send('/v1/tokens', { label: 'x', authorities: ['invoke'], ...more })
  const limits = { requests_per_minute: 1 }
  const rows: [object, number][] = [
    [{ limits: {} }, 400], [{ limits: { requests_per_hour: 1 } }, 400],
    [{ limits: { tokens_per_day: 0 } }, 400],
    [{ limits, authorities: ['operator'] }, 400], [{ limits, local: true }, 400]
  ]
  for (const [more, status] of rows) t.equal((await make(more)).status, status, JSON.stringify(more))
  const made = await make({ limits })
  t.match(made, { status: 200, record: { limits } })
  const rotated = await send(`/v1/tokens/${made.record.id}/rotate`, {})
  t.match(rotated, { status: 200, record: { limits } })
  const admit = (id: string): void => { work.admit({ caller: callerOf(id), commandId: `c${++ids}` }) }
  admit(made.record.id)
  const page = `ek_1.2.${rotated.record.id}`
  rig.schemes.register({
    word: 'EK', bearer: 'ek_', check: () => undefined, stands: () => undefined,
    makerOf: (id) => id.startsWith('ek_') ? id.split('.')[2] : undefined
  })
  for (const id of [made.record.id, rotated.record.id, page]) {
    t.throws(() => { admit(id) }, {
      reason: 'limit_reached', status: 429, retryAfterSeconds: 60,
      message: /has used 1 of 1 requests of this minute/,
      headers: { 'x-ratelimit-limit-requests': '1', 'x-ratelimit-remaining-requests': '0',
        'x-ratelimit-reset-requests': '60s' }
    } as never)
  }
})
