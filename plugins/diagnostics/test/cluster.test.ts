import { PassThrough } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { ClusterService, type Caller } from '../../../kernel/index.js'
import { fake, manualClock, startPlugin } from '../../../kernel/testing/index.js'
import { PEER_BYTES, reportsOf } from '../handlers.js'
import diagnostics from '../index.js'
import { PEER_MS } from '../routes.js'
import type { NodeDiagnostics } from '../report.js'
import { answer, fakeCluster, type Answer } from './kit.js'

const caller: Caller = { id: 'ann', mode: 'direct', authorities: new Set(['operator']) }
const START = Date.parse('2026-01-01T00:00:00.000Z')
const at = (ms: number): string => new Date(START + ms).toISOString()

const told = (generatedAt: string): object => ({ generatedAt, runtime: {}, supervisorRunners: [] })
const own = (): NodeDiagnostics => told('own') as NodeDiagnostics
const asker = { caller, signal: new AbortController().signal }

t.test('a node that is silent or talks nonsense is named and holds nobody up', async (t) => {
  const clock = manualClock()
  const endless = new PassThrough()
  endless.write('{"generatedAt":')
  const silent: Answer = () => new Promise(() => {})
  const others: Record<string, Answer> = {
    good: () => answer(told(at(7000))),
    silent,
    deaf: () => new Promise(() => {}),
    endless: () => ({ status: 200, headers: {}, body: endless }),
    garbage: () => answer('<html>'),
    list: () => answer([]),
    nothing: () => answer('null'),
    timeless: () => answer(told('soon')),
    refuses: () => answer({ error: { reason: 'missing_grant' } }, 403),
    breaks: () => { throw new Error('boom') },
    large: () => answer(`"${'x'.repeat(PEER_BYTES)}"`)
  }
  const cluster = fakeCluster(others, ['away'])
  const asking = reportsOf({ cluster, clock }, own, asker)
  for (let i = 0; i < 50; i++) await turn()
  clock.advance(PEER_MS)
  const answers = await asking
  const said = Object.fromEntries(answers.map(({ name, diagnostics, error }) =>
    [name, error?.reason ?? diagnostics]))
  t.same(said, {
    me: told('own'), good: told(at(7000)), silent: 'timeout', deaf: 'timeout',
    endless: 'timeout', garbage: 'garbage', list: 'garbage', nothing: 'garbage', timeless: 'garbage',
    refuses: 'refused', breaks: 'unreachable', large: 'too_large', away: 'no_sign_of_life'
  })
  t.ok(endless.destroyed, 'what nobody reads any more is given up')
  t.notOk(cluster.asked.some(({ to }) => to === 'install-away'), 'a node that is gone is not asked')
  t.match(cluster.asked[0]!.request, {
    method: 'GET', path: '/v1/diagnostics/node', caller: { id: 'ann' }, timeoutMs: PEER_MS
  })
  t.match(answers[1],
    { clockAheadMs: 7000 - (clock.now() - START - PEER_MS), clockUncertaintyMs: 0 })
})

t.test('the offset of a clock is taken from the middle of the way', async (t) => {
  const clock = manualClock()
  const slow: Answer = async () => {
    clock.advance(400)
    return answer(told(new Date(clock.now() + 10_000).toISOString()))
  }
  const [, slowly] = await reportsOf({ cluster: fakeCluster({ slow }), clock }, own, asker)
  t.match(slowly, { tookMs: 400, clockAheadMs: 10_200, clockUncertaintyMs: 200 })
})

t.test('an asker that goes away ends the questions', async (t) => {
  const stop = new AbortController()
  const cluster = fakeCluster({ b: () => new Promise(() => {}) })
  const asking = reportsOf({ cluster, clock: manualClock() }, own, { caller, signal: stop.signal })
  stop.abort(new Error('gone'))
  t.match((await asking)[1], { error: { reason: 'unreachable' } })
})

t.test('GET /v1/diagnostics/cluster has a report of every node', async (t) => {
  const report = { generatedAt: at(0), runtime: { nodeId: 'id-b' }, supervisorRunners: [] }
  const cluster = fakeCluster({ b: () => answer(report), c: () => answer({ runtime: null }) }, ['d'])
  const rig = await startPlugin(t, diagnostics, { fakes: [fake(ClusterService, cluster as never)] })
  const reply = await rig.inject({ url: '/v1/diagnostics/cluster' })
  t.equal(reply.statusCode, 200, reply.body)
  t.match(reply.json(), {
    localNodeId: String,
    nodes: [
      {
        name: 'me', error: null, tookMs: null, clockAheadMs: null,
        diagnostics: { runtime: { pid: process.pid } }
      },
      { name: 'b', error: null, tookMs: Number, clockAheadMs: Number, diagnostics: report },
      { name: 'c', error: { reason: 'garbage' }, diagnostics: null },
      { name: 'd', live: false, error: { reason: 'no_sign_of_life' }, diagnostics: null }
    ]
  })
  t.same(cluster.asked.map(({ request }) => request.path), ['/v1/diagnostics/node', '/v1/diagnostics/node'])
  const weak = await startPlugin(t, diagnostics, { allow: ['read', 'invoke', 'cluster:write'] })
  t.equal((await weak.inject({ url: '/v1/diagnostics/cluster' })).statusCode, 401)
})
