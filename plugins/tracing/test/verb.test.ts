import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { cli, sendError, sendJson, standIn, type Ran } from '../../../kernel/test/cli-helpers.js'
import tracing from '../index.js'
import { shown } from './samples.js'
import type { ListedTrace } from '../peers.js'

const TASK = '11111111-0000-4000-8000-000000000001'
const entry: ListedTrace = {
  taskId: TASK, createdAt: '2026-01-01T00:00:00.000Z', modelId: 'acme/\u001b[31mvoice', commandId: 'c',
  taskKind: 'tts', outcome: 'completed', durationUs: 1_230_000, fileSize: 9, sourceNodes: ['node-a']
}
const spans = [
  shown({ name: 'request', category: 'request', startUs: 1_767_225_600_000_000, durationUs: 1000 }),
  shown({
    name: 'network', category: 'network', startUs: 1_767_225_600_000_100, durationUs: 500,
    attrs: { node: 'beta', clock_offset_us: 5, clock_uncertainty_us: 120 }
  })
]
const failed = [
  { nodeId: 'node-c', name: 'gamma', reason: 'timeout', message: 'did not answer completely within 3 s' }
]
const state = { nodeIdentities: { 'node-a': { friendlyName: 'alpha' } } }

t.test('svc traces', async (t) => {
  let listed: ListedTrace[] = [entry]
  let enabled = false
  const node = await standIn(t, {
    'GET /v1/traces': (response) => { sendJson(response, { traces: [] }) },
    'GET /v1/traces/cluster': (response) => { sendJson(response, { traces: listed, failed }) },
    [`GET /v1/traces/cluster/${TASK}`]: (response) => {
      sendJson(response, { taskId: TASK, traces: spans, sourceNodes: [], failed: [] })
    },
    [`GET /v1/traces/${TASK}`]: (response) => { sendError(response, 404, 'trace_not_found') },
    [`GET /v1/traces/cluster/${TASK}/raw`]: (response) => { sendJson(response, { traceEvents: [1] }) },
    'GET /state': (response) => { sendJson(response, state) },
    'GET /v1/tracing': (response) => { sendJson(response, { enabled }) },
    'PUT /v1/tracing': (response, { body }) => {
      ({ enabled } = body as { enabled: boolean })
      sendJson(response, { enabled })
    }
  })
  const run = async (...words: string[]): Promise<Ran> =>
    await cli(['traces', ...words, '--url', node.url], { plugins: [tracing] })

  const list = await run()
  t.equal(node.asked.at(-1)?.url, '/v1/traces/cluster?limit=20')
  t.match(list.out, /^TASK .*ENDED\n11111111\S+ {2}2026-01-01T00:00:00.000Z {2}tts +acme\/.*voice +1.23 s/)
  t.notMatch(list.out, '\u001b')
  t.match(list.err, /gamma did not answer completely within 3 s/)
  t.same(JSON.parse((await run('--json')).out), { traces: [entry], failed })
  await run('--local', '--limit', '3')
  t.ok(node.asked.some(({ url }) => url === '/v1/traces?limit=3'))

  const one = await run(TASK)
  t.equal(one.out, [
    `task ${TASK}, started 2026-01-01T00:00:00.000Z`,
    'NODE   STEP     START    TOOK', 'alpha  request  +0 us    1.0 ms', 'alpha  network  +100 us  500 us',
    'The clock of beta was corrected, with an uncertainty of 120 us.', ''
  ].join('\n'))
  t.match(JSON.parse((await run(TASK, '--json')).out), { taskId: TASK, traces: spans })
  t.match(await run(TASK, '--local'), { status: 3, err: /trace_not_found/ })

  const file = join(t.testdir(), 'trace.json')
  t.match(await run(TASK, '-o', file), { status: 0, err: /ui\.perfetto\.dev/ })
  t.same(JSON.parse(readFileSync(file, 'utf8')), { traceEvents: [1] })
  t.same(JSON.parse((await run(TASK, '-o', '-')).out), { traceEvents: [1] })

  listed = []
  t.match((await run()).err, /there are no traces; "svc traces on"/)
  t.match(await run('on'), { status: 0, out: /New requests are traced on every node/ })
  t.match((await run()).err, /no requests have been traced yet/)
  t.same(JSON.parse((await run('off', '--json')).out), { enabled: false })
  t.match((await run('off')).out, /no longer traced/)
  t.match(await run('../etc'), { status: 2, err: /"\.\.\/etc" is not a task id or command id/ })
})
