import t from 'tap'
import { fake, startPlugin } from '../../../kernel/testing/index.js'
import { StateService } from '../../../kernel/index.js'
import { cli, sendError, sendJson, standIn } from '../../../kernel/test/cli-helpers.js'
import eventLog from '../index.js'
import runners from '../../runners/index.js'
import { instanceOn, stateWith } from './history-kit.js'
import { startLog, type LogRig } from './kit.js'
import type { StateAt } from '../history/lookup.js'

interface Failure { error: { reason: string, message: string, details: Record<string, unknown> } }

/** Starts the plugin with a state from the test. */
async function begin (
  t: Parameters<typeof startLog>[0], allow?: readonly string[]
): Promise<LogRig & { at (moment: string, status?: number): Promise<StateAt & Failure> }> {
  const state = stateWith(['a', 'b'], { instances: { i1: instanceOn('i1', 'a') } })
  const rig = await startLog(t, { fakes: [fake(StateService, { read: async () => state })], off: [runners],
    ...(allow === undefined ? {} : { allow }) })
  return { ...rig,
    async at (moment, status = 200) {
      const answer = await rig.inject({ url: `/state?at=${encodeURIComponent(moment)}` })
      if (answer.statusCode !== status) throw new Error(`${answer.statusCode} ${answer.body}`)
      return answer.json()
    } }
}

t.test('GET /state?at= answers with what was recorded, and with what the events make of it', async (t) => {
  const rig = await begin(t)
  await rig.clock.advance(10_000)
  rig.happen('NodeTimedOut', { nodeId: 'b' })
  const then = await rig.at('1')
  t.match(then, {
    at: 1, snapshot: { idx: 0, cause: 'start', sessionId: 's1' }, events: [{ idx: 1 }], more: false,
    gaps: [], state: { nodeIdentities: { a: { apiUrl: 'http://a:1' } } }
  })
  t.same(Object.keys(then), ['at', 'snapshot', 'state', 'derived', 'events', 'more', 'gaps'])
  t.match(await rig.at('2026-01-01T00:00:05Z'), { at: '2026-01-01T00:00:05.000Z', events: [] })
  t.match(await rig.at('2025-01-01', 404),
    { error: { reason: 'not_recorded', details: { oldest: { idx: 0 } } } })
  t.match(await rig.at('7', 404), { error: { reason: 'not_recorded', message: /Index 7 does not exist/ } })
  t.match(await rig.at('2027-01-01', 400), { error: { reason: 'invalid_request', param: 'at' } })
  t.match(await rig.at('soon', 400), { error: { details: { issues: [{ path: 'at' }] } } })
  t.match(await rig.at('', 400), { error: { reason: 'invalid_request' } })
  t.match(await rig.at('1'.repeat(41), 400), { error: { reason: 'invalid_request' } })
  t.match((await rig.inject({ url: '/state?at=1&follow=1' })).json(),
    { error: { reason: 'invalid_request', param: 'at' } })
})

t.test('a caller that is no operator sees neither addresses nor events', async (t) => {
  const rig = await begin(t, ['read'])
  await rig.clock.advance(10_000)
  rig.happen('NodeTimedOut', { nodeId: 'b', evidence: 'closed' })
  const then = await rig.at('1')
  t.match(then, { events: null, derived: { instances: { i1: { nodeIds: ['a'] } } },
    state: { nodeIdentities: { a: { apiUrl: null, friendlyName: 'name-a' } },
      instances: { i1: { RingInstance: { hostsByNode: null } } } } })
  t.notMatch(JSON.stringify(then), /http:|10\.0\.0\.1|closed/)
  const none = await startLog(t, { allow: [] })
  t.equal((await none.inject({ url: '/state?at=0' })).statusCode, 401)
})

t.test('without the plugin the answer names what brings it', async (t) => {
  const other = { manifest: { name: 'other', version: '1.0.0', kernel: '^1.0.0', summary: 'Nothing.' },
    start: () => ({}) }
  const rig = await startPlugin(t, other, { off: [eventLog] })
  t.match((await rig.inject({ url: '/state?at=1' })).json(), { error: { reason: 'plugin_disabled', code: 404,
    message: 'This node does not record earlier states. The plugin "event-log" is disabled;' } })
  const bare = await startPlugin(t, other)
  t.match((await bare.inject({ url: '/state?at=1' })).json(), { error: { reason: 'plugin_disabled' } })
})

const derived = (members: string[]): object =>
  ({ idx: 7, session: { sessionId: 's1', term: 1, masterNodeId: 'a' }, members, instances: {} })
const answer = {
  at: 7, snapshot: { idx: 5, at: '2026-01-01T00:00:00.000Z', sessionId: 's1', cause: 'minute', stale: false,
    omitted: [] },
  state: stateWith(['a']), derived: derived(['a', 'b']), events: [{ idx: 6 }, { idx: 7 }], more: true,
  gaps: []
}

t.test('svc state --at', async (t) => {
  const node = await standIn(t, { 'GET /state': (response, { url }) => {
    if (url.includes('404')) sendError(response, 404, 'not_recorded')
    else sendJson(response, url.includes('at=8') ? { ...answer, events: null, more: false } : answer)
  } })
  const run = async (...words: string[]): ReturnType<typeof cli> =>
    await cli(['state', ...words, '--url', node.url], { plugins: [eventLog] })
  const shown = await run('--at', '7')
  t.same(JSON.parse(shown.out), answer)
  t.equal(shown.err, 'state: as recorded at 2026-01-01T00:00:00.000Z (minute), index 5; ' +
  'derived: session, members and instances at index 7; events: the first 2 since then\n')
  t.notMatch((await run('--at', '8')).err, /since then/)
  t.same(JSON.parse((await run('--at', '7', '--json')).out), answer)
  await run('--at', '2026-01-31T08:00+01:00')
  t.equal(node.asked.at(-1)!.url, '/state?at=2026-01-31T07%3A00%3A00.000Z')
  const before = Date.now()
  await run('--at', '10m')
  const asked = Date.parse(decodeURIComponent(node.asked.at(-1)!.url.split('at=')[1]!))
  t.ok(asked >= before - 600_000 && asked <= Date.now() - 600_000, String(asked - before))
  t.match(await run('--at', 'soonish'), { status: 2, err: /--at soonish: expected a duration such as 10m/ })
  t.match(await run('--at', '7', '--follow'), { status: 2, err: /cannot be combined/ })
  t.match(await run('--at', '404'), { status: 3 })
})
