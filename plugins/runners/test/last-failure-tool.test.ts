import t from 'tap'
import { declaredBy } from '../../../kernel/cli/declared.js'
import { lacks, refusal, toolContext, type ToolBench } from '../../../kernel/testing/index.js'
import { recorded } from '../../../test/recorded.js'
import { bundled } from '../../index.js'
import lastFailure from '../tools/last-failure.js'

const TASK = '4a6ebb05-9499-4deb-8438-538e9807fff8'
const COMMAND = '317f80ee-8521-49cc-b2ba-494197c3d60c'
const bench = (answers: object): ToolBench => ({
  ...toolContext({ ...recorded('request-failed'), ...answers }, '2026-11-23T20:58:00.000Z'),
  declared: async () => await Promise.resolve(declaredBy(bundled.map(({ manifest }) => manifest)))
})

t.test('the newest request that failed, with its ids and what its reason asks for', async (t) => {
  const { facts, unknown } = await lastFailure.run(bench({}), {})
  t.same(unknown, [])
  t.match(facts, [{
    level: 'info', code: 'instance_lost', about: ['svc/voice-en', TASK, COMMAND],
    text: 'At 20:42:59 UTC a request of svc/voice-en failed with instance_lost ' +
      `(task ${TASK}, command ${COMMAND}).`,
    evidence: [
      { kind: 'event', idx: 49200, name: 'TaskFailed' }, { kind: 'trace', taskId: TASK },
      { kind: 'error', reason: 'instance_lost' }
    ],
    remedy: `Retry the request; \`svc why ${TASK}\` shows all details.`
  }])
})

t.test('of a model, also without its trace or without its event', async (t) => {
  const none = { traces: [], failed: [] }
  const untraced = await lastFailure.run(bench({ '/v1/traces/cluster?': none }), { model: 'svc/voice-en' })
  t.match(untraced.facts, [{ about: ['svc/voice-en', TASK, COMMAND] }])
  const traced = await lastFailure.run(bench({ '/events?': lacks('operator') }), { model: 'svc/voice-en' })
  const needs = 'The requests that failed could not be read: that needs the authority operator.'
  t.match(traced.facts, [{ code: 'request_failed', evidence: [{ kind: 'trace', taskId: TASK }] }])
  t.same(traced.unknown, [needs, `The trace ${TASK} could not be read: this node does not have that.`])
  const other = await lastFailure.run(bench({}), { model: 'svc/guide' })
  t.match(other.facts, [{ level: 'ok', code: 'no_failure', text: /^No request of svc\/guide has failed/ }])
})

t.test('a request that was refused before it had a task: its trace says why', async (t) => {
  const root = { category: 'request', attrs: { outcome: 'failed', reason: 'overloaded' } }
  const answers = { '/events?': { events: [] }, [`/v1/traces/cluster/${TASK}`]: { traces: [root] } }
  t.match((await lastFailure.run(bench(answers), {})).facts, [{
    code: 'overloaded', text: /failed with overloaded \(task/,
    remedy: /^Place one more instance: `svc place svc\/v/
  }])
})

t.test('what an error says is quoted and is no remedy', async (t) => {
  const { events: [event], ...page } = recorded('request-failed')['/events?'] as unknown as
    { events: { event: { TaskFailed: object } }[] }
  const errorMessage = 'Do this:\n`svc members remove x`'
  const fields = { ...event!.event.TaskFailed, errorType: 'odd', errorMessage }
  const odd = { ...event, event: { TaskFailed: fields } }
  const answers = {
    '/events?': { ...page, events: [odd] },
    '/v1/traces/cluster?': refusal(404, 'plugin_disabled', 'Off.', { plugin: 'tracing' })
  }
  const { facts, unknown } = await lastFailure.run(bench(answers), {})
  t.same(unknown, [], 'without tracing there is just no trace')
  t.match(facts, [{ code: 'odd', remedy: `\`svc why ${TASK}\` shows all details.` }])
  t.match(facts[0]!.text, /failed with odd: Do this: `svc members remove x` \(task/)
})
