import t from 'tap'
import type { Fact } from '../../../kernel/cli/index.js'
import whyModel from '../tools/why-model.js'
import whyRequest from '../tools/why-request.js'
import type { Instance } from '../../runners/service.js'
import { at, created, event, MODEL, ours, refused, run, type Answers } from './tool-kit.js'
import { instanceOn, seenState } from './verb-kit.js'

const CHAIN = `/models/${MODEL}/availability`
const NAMES = ['card', 'copy', 'backend', 'placement', 'runner', 'request']

/** A response to GET /models/{id}/availability in which this link is broken; null for none. */
const broken = (link: string | null, code: string | null = null, message = 'M', remedy = 'R'): object => {
  const end = link === null ? NAMES.length : NAMES.indexOf(link)
  return {
    links: NAMES.map((name, i) => ({
      link: name, ok: i < end ? true : i === end ? false : null, message: i === end ? message : 'fine',
      remedy: i === end ? remedy : null, code: i === end ? code : null
    }))
  }
}
const state = (more: object = {}): object => ({ ...seenState(), ...more })
const placed = (runner: string): object => {
  const instance: Instance = instanceOn('i1', MODEL, ['id-n2'])
  return state({ instances: { i1: instance }, runners: { 'i1-0': { [runner]: {} } } })
}
const waiting = (reason: string): object => state({
  waitingInstances: { w: { instanceId: 'w', modelId: MODEL, reason, message: 'n1: too little.' } }
})
const no: Answers = {
  '/instance/previews': { previews: [{ ...refused, details: { ...refused.details, suggestions: [] } }] },
  '/instance/placement': [400, 'insufficient_memory', refused.details]
}
const table: [title: string, answers: Answers, facts: (Partial<Record<keyof Fact, unknown>>)[]][] = [
  ['what the chain tells', { [CHAIN]: broken('card', 'model_unknown'), '/state': state(), '/v1/plugins':
    { plugins: [{ name: 'extra', enabled: false }, { name: 'chat', enabled: true }] } }, [
    { level: 'fail', code: 'model_unknown', text: 'acme/chat does not answer: M.', remedy: 'R' },
    { level: 'info', code: 'plugin_off', remedy: /`svc plugin enable extra`/ }
  ]],
  ['an older node gives no code', { [CHAIN]: broken('copy'), '/state': state() },
    [{ level: 'fail', code: 'files_missing' }]],
  ['the plugin is off', { [CHAIN]: [404, 'plugin_disabled', { plugin: 'runners' }] },
    [{ level: 'fail', code: 'plugin_off', about: [MODEL, 'runners'], remedy: /`svc plugin enable runn/ }]],
  ['it loads', { [CHAIN]: broken('runner', 'loading'), '/state': placed('RunnerLoading') },
    [{ level: 'warn', code: 'loading', about: [MODEL, 'n2'] }]],
  ['an operator stopped it', { [CHAIN]: broken('placement', 'not_placed'), '/state': state(),
    '/events': { events: [created, event(4, 'InstanceDeleted', ours)] } }, [{
    code: 'model_stopped', text: `acme/chat does not answer: it was stopped at ${at(4)}.`,
    evidence: [{ kind: 'event', idx: 4, name: 'InstanceDeleted' }, {}]
  }]],
  ['nobody used it', { [CHAIN]: broken('placement', 'not_placed'), '/state': state(), '/events': {
    events: [event(3, 'InstanceUnloaded', { ...ours, idleSeconds: 9 }), event(4, 'InstanceDeleted', ours)]
  } }, [{ code: 'model_unloaded', text: /unused for 9 s/ }]],
  ['it was never placed, and does not fit', { ...no, [CHAIN]: broken('placement', 'not_placed'),
    '/state': state(), '/events': { events: [] } }, [{
    code: 'does_not_fit', text: /n1 \(cpu.*needs 2\.0 GiB.*1\.0 GiB too little/,
    remedy: /^Make it fit: `svc stop i9`/
  }]],
  ['its node was lost, and the others are too small', { ...no,
    [CHAIN]: broken('placement', 'waiting_for_node'),
    '/state': waiting('insufficient_memory'), '/events': { events: [created,
      event(5, 'NodeTimedOut', { nodeId: 'id-n2', evidence: 'x' }),
      event(6, 'NodeTimedOut', { nodeId: 'id-n1' }),
      event(7, 'InstanceWaiting', { ...ours, reason: 'node_lost' })] } }, [
    { code: 'node_lost', about: [MODEL, 'n2'],
      text: /n2, where it ran, was lost at .*08:05.*n1: too little\.$/,
      evidence: [{ idx: 5 }, { idx: 7 }, { kind: 'node', name: 'n2' }, {}],
      remedy: /^Start n2 again with `svc up`/ },
    { level: 'warn', code: 'does_not_fit' }
  ]],
  ['it waits for room', { ...no, [CHAIN]: broken('placement', 'waiting_for_node'),
    '/state': waiting('insufficient_memory'), '/events': { events: [] } },
  [{ code: 'does_not_fit', remedy: /svc stop i9/ }]],
  ['its runner failed', {
    [CHAIN]: broken('runner', 'runner_failed', 'it was given up: weights.bin is gone'),
    '/state': { ...placed('RunnerFailed'), instanceFailures: [
      { ...ours, errorCode: 'runner_failed', errorMessage: '', affectedNodeIds: ['id-n2'] }
    ] },
    '/events': {
      events: [created, event(8, 'RunnerFailed', ours), event(9, 'RunnerFailed', { modelId: 'b/c' })]
    }
  },
  [{ code: 'runner_failed', text: /weights\.bin is gone\.$/, about: [MODEL, 'n2'], evidence: [{ idx: 8 },
    { kind: 'error', reason: 'runner_failed' }, { kind: 'node', name: 'n2' }, { kind: 'path' }] }]],
  ['it answers', { [CHAIN]: broken(null), '/state': placed('RunnerReady'),
    '/readyz': { checks: [{ name: 'runners', detail: 'last inference 1.0 s ago' }] },
    '/events': { events: [event(2, 'RunnerStatusUpdated', { ...ours, status: { RunnerReady: {} } })] } }, [{
    level: 'ok', code: 'answers', remedy: null, evidence: [{ idx: 2 }, { kind: 'node', name: 'n2' }],
    text: `acme/chat answers on n2, ready since ${at(2)}: last inference 1.0 s ago.`
  }]],
  ['it seems to', { [CHAIN]: broken(null), '/state': placed('RunnerReady'), '/readyz': [503, 'not_ready'] },
    [{ level: 'fail', code: 'not_answering', remedy: /`svc stop acme\/chat`/ }]]
]
for (const [title, answers, facts] of table) {
  t.test(`why a model does not answer: ${title}`, async (t) => {
    const found = await run(whyModel, { model: MODEL }, answers)
    t.match(found.facts, facts)
    t.equal(found.facts.length, facts.length)
    t.equal(found.unknown.some((text) => text.includes('The events')),
      !('/events' in answers) && CHAIN in answers && !Array.isArray(answers[CHAIN]))
  })
}

const TASK = '11111111-2222-5333-8444-555555555555'
const failure = event(3, 'TaskFailed',
  { taskId: TASK, commandId: 'c', errorType: 'instance_lost', errorMessage: 'It was lost.' })
const task = {
  Inference: { taskId: TASK, modelId: MODEL, instanceId: 'i1', capability: 'chat', status: 'Failed' }
}

t.test('why a request failed: what ended it, and what went on then', async (t) => {
  const { facts, unknown } = await run(whyRequest, { id: `msg_${TASK}` }, {
    '/state': state({ tasks: { [TASK]: task } }),
    '/events': { events: [event(3, 'SessionChanged', { term: 4, masterNodeId: 'id-n1' }),
      event(3, 'NodeTimedOut', { nodeId: 'id-n2', evidence: 'silent' }), failure] }
  })
  t.match(facts, [
    { level: 'fail', code: 'request_failed', about: [TASK, MODEL], remedy: 'Repeat the request.',
      text: /chat for acme\/chat.* failed.*instance_lost: It was lost\.$/,
      evidence: [{ kind: 'error', reason: 'instance_lost' }, { kind: 'time' }] },
    { code: 'node_lost', text: /n2 was lost: silent\.$/, evidence: [{ name: 'NodeTimedOut' }] },
    { code: 'session_changed' }, { code: 'event', text: /it failed with/ }
  ])
  t.match(unknown, [/Not checked: whether requests are traced/])
  const none = await run(whyRequest, { id: TASK }, { '/state': state(), '/events': { events: [] } })
  t.match(none, { facts: [], unknown: [/^the command or task 1111/] })
  t.match(await run(whyRequest, { id: 'x' }, {}), { facts: [], unknown: [/not the id/] })
})
