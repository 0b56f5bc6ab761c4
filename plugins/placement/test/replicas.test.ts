/** When policies add and remove instances: tables of the decision, then the plugin on the real kernel. */
import t from 'tap'
import { bodyOf, type Instance } from '../../runners/service.js'
import { BUSY_MS, PAUSE_MS, Replicas, type ReplicaLoad } from '../keeper/replicas.js'
import type { Situation } from '../keeper/roles.js'
import {
  entry, ids, instance, intent, judge, passes, placedOn, put, ready, short, situation, startKeeper, waiting
} from './keeper-kit.js'
import { card, GIB, runnersAre } from './kit.js'
import { nodeOf, sendJson } from './verb-kit.js'

const POLICY = { min: 1, max: 3, target_open: 2, idle_seconds: 60 }
const at = (n: number): string => new Date(Date.UTC(2026, 0, 1, 0, n)).toISOString()
const [A, B, C] = ['a', 'b', 'c'].map((id, i) => instance(id, [`id-n${i + 1}`],
  { placement: intent(i === 0 ? {} : { replica: at(i) }) })) as [Instance, Instance, Instance]
const all = (...some: Instance[]): Partial<Situation> =>
  ({ instances: some, runners: Object.assign({}, ...some.map(ready)) as Situation['runners'] })
const failure = (instanceId: string, over: object = {}) => ({
  instanceId, modelId: 'acme/chat', errorCode: 'load_failed', errorMessage: 'no', affectedNodeIds: ['id-n2'],
  recordedAt: new Date(situation().now).toISOString(), ...over
})
const waits = (over: Parameters<typeof entry>[0] = {}) => new Map([['w', entry(over)]])
const ADD = ['wait new-0', 'place new-0']

type Look = [seconds: number, seen: Partial<Situation>, open: Record<string, number>, steps: string[]]
const table: [string, Look[], Partial<typeof POLICY>?, (() => boolean)?][] = [
  ['enough', [[0, all(A), { a: 2 }, []], [99, all(A), { a: 2 }, []]]],
  ['too many requests for 10 s', [[0, all(A), { a: 3 }, []], [9, all(A), { a: 3 }, []],
    [10, all(A), { a: 3 }, ADD]]],
  ['a short rush', [[0, all(A), { a: 9 }, []], [9, all(A), { a: 1 }, []], [11, all(A), { a: 9 }, []]]],
  ['at most one at a time, none while one loads', [
    [0, all(A), { a: 9 }, []], [10, all(A), { a: 9 }, ADD], [11, all(A), { a: 9 }, []],
    [12, { ...all(A), waiting: waits() }, { a: 9 }, []], [30, { ...all(A), instances: [A, B] }, { a: 9 }, []],
    [40, all(A, B), { a: 9 }, []], [49, all(A, B), { a: 9 }, []], [50, all(A, B), { a: 9 }, ADD]
  ]],
  ['at most max', [[0, all(A, B, C), { a: 99 }, []], [99, all(A, B, C), { a: 99 }, []]]],
  ['it does not fit: asked again every 10 s', [[0, all(A), { a: 3 }, []], [10, all(A), { a: 3 }, []]], {},
    () => false],
  ['min at once', [[0, {}, {}, ADD], [1, {}, {}, []], [10, {}, {}, ADD]]],
  ['min 2', [[0, all(A), {}, ADD]], { min: 2 }],
  ['min 0', [[0, {}, {}, []], [99, {}, {}, []]], { min: 0 }],
  ['a model that an operator stopped', [[0, { stopped: new Set(['acme/chat']) }, {}, []],
    [99, { ...all(A), stopped: new Set(['acme/chat']) }, { a: 9 }, []]], { min: 2 }],
  ['a lost instance that waits counts', [[0, { waiting: waits() }, {}, []]]],
  ['not needed for 60 s: the newest idle one', [[0, all(A, B, C), { a: 1 }, []], [59, all(A, B, C), {}, []],
    [60, all(A, B, C), { a: 1 }, ['retire c']]]],
  ['never one with open requests', [[0, all(A, B, C), { a: 1, c: 1 }, []],
    [60, all(A, B, C), { a: 1, c: 1 }, ['retire b']]]],
  ['all are in use', [[0, all(A, B), { a: 1, b: 1 }, []], [60, all(A, B), { a: 1, b: 1 }, []]]],
  ['never one of people', [[0, all(A, { RingInstance: { ...bodyOf(B), placement: intent() } }), {}, []],
    [60, all(A, { RingInstance: { ...bodyOf(B), placement: intent() } }), {}, []]]],
  ['never below min', [[0, all(A, B), {}, []], [99, all(A, B), {}, []]], { min: 2 }],
  ['needed again meanwhile', [[0, all(A, B), { a: 1 }, []], [59, all(A, B), { a: 3 }, []],
    [61, all(A, B), { a: 1 }, []], [120, all(A, B), { a: 1 }, []], [121, all(A, B), { a: 1 }, ['retire b']]]],
  ['a lower max', [[0, all(A, B), { a: 9 }, []], [60, all(A, B), { a: 9 }, ['retire b']]], { max: 1 }],
  ['one failure: once more; a second: not for minutes', [
    [0, { failures: [failure('b')] }, {}, ADD],
    [20, { failures: [failure('b'), failure('c')] }, {}, []],
    [290, { failures: [failure('b'), failure('c')] }, {}, []],
    [PAUSE_MS / 1000 + 1, { failures: [failure('b'), failure('c')] }, {}, ADD]
  ]],
  ['a new master knows the failures', [
    [0, { failures: [failure('b'), failure('c', { recordedAt: at(-3) })] }, {}, []],
    [121, { failures: [failure('b'), failure('c', { recordedAt: at(-3) })] }, {}, ADD]]],
  ['failures of long ago', [[0, { failures: [failure('b'), failure('c')]
    .map((one) => ({ ...one, recordedAt: at(-9) })) }, {}, ADD]]],
  ['one that failed does not count as loading', [[0, { instances: [A], failures: [failure('a')] }, {}, ADD]],
    { min: 2 }]
]

t.test('the decision', async (t) => {
  for (const [name, looks, over = {}, fits] of table) {
    const replicas = new Replicas()
    const policies = new Map([['acme/chat', { ...POLICY, ...over }]])
    looks.forEach(([seconds, seen, open, steps], i) => {
      const load: ReplicaLoad = { policies, open: new Map(Object.entries(open)) }
      const got = replicas.look(situation(seen), load, judge(fits), seconds * 1000)
      t.strictSame(short(got), steps, `${name}: ${i}`)
    })
  }
})

t.test('an instance like the first one, not on a node where the model failed', async (t) => {
  const first = instance('a', ['id-n1'], { placement: intent({ contextLength: 512, ttlSeconds: 9 }) })
  const [step] = new Replicas().look(situation({ ...all(first), failures: [failure('x')] }),
    { policies: new Map([['acme/chat', { ...POLICY, min: 2 }]]), open: new Map() }, judge(), 0)
  const like = { contextLength: 512, ttlSeconds: null, failedOn: ['id-n2'], replica: /Z$/ }
  t.match(step, { entry: { intent: like } })
})

const busy = (id: string, count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) =>
  [`${id}${i}`, { Inference: {
    taskId: `${id}${i}`, commandId: '', instanceId: id, modelId: 'acme/chat', capability: 'chat',
    createdAt: '', status: ['Running', 'Pending'][i] ?? 'Pending'
  } }]))
const policy = { replicas: { ...POLICY, max: 2 } }
const config = (autoplace: string[] = [], chat: object = policy) =>
  ({ autoplace, policies: { 'acme/chat': chat } })

t.test('the master adds an instance on another node, and removes it again', async (t) => {
  const rig = await startKeeper(t, { config: config() })
  await passes(rig, 'the one of min', () => ids(rig).length === 1)
  await rig.clock.advance(5000)
  t.equal(rig.commands.filter(([name]) => name === 'policy').length, 1, 'svc.yaml is stored once')
  const [first] = ids(rig) as [string]
  t.match(rig.events.filter(({ kind }) => kind === 'ReplicaAdded').map(({ payload }) => payload),
    [{ instanceId: first, modelId: 'acme/chat', open: 0, instances: 0, min: 1, max: 2, targetOpen: 2 }])
  runnersAre(rig.state, first, { RunnerReady: {} })
  rig.state.tasks = busy(first, 3)
  const ms = await passes(rig, 'another one', () => ids(rig).length === 2)
  t.ok(ms >= BUSY_MS && ms < BUSY_MS + 3000, `${ms} ms`)
  const second = ids(rig)[1]!
  t.not(placedOn(rig)[0], placedOn(rig, -2)[0], 'on another node')
  t.strictSame(await waiting(rig), {})
  runnersAre(rig.state, second, { RunnerReady: {} })
  rig.state.tasks = {}
  await passes(rig, 'its removal', () => rig.drained.length > 0, 70_000)
  t.strictSame(rig.drained.map(({ instanceId }) => instanceId), [second])
  t.match(rig.events.filter(({ kind }) => kind === 'ReplicaRemoved').map(({ payload }) => payload),
    [{ instanceId: second, open: 0, instances: 2 }])
})

t.test('without its policy, a replica counts as placed by people', async (t) => {
  for (const lose of ['node', 'drain'] as const) {
    const rig = await startKeeper(t)
    await rig.decide('policy', { modelId: 'acme/chat', patch: policy, from: 'request' })
    await passes(rig, 'the one of min', () => ids(rig).length === 1)
    const [node] = placedOn(rig)
    runnersAre(rig.state, ids(rig)[0]!, { RunnerReady: {} })
    await rig.decide('policy', { modelId: 'acme/chat', patch: { replicas: null }, from: 'request' })
    const view = rig.views.find(({ nodeId }) => nodeId === node)!
    if (lose === 'node') Object.assign(view, { live: false })
    else await rig.decide('drain', { installId: view.installId, since: '', by: '' })
    await passes(rig, `it to be placed again: ${lose}`, () => rig.placed.length === 2, 120_000)
    t.not(placedOn(rig)[0], node)
    t.equal(bodyOf(rig.placed[1]!.instance).placement?.replica, undefined)
    t.equal(rig.events.filter(({ kind }) => kind === 'ReplicaAdded').length, 1, 'no policy added it')
  }
})

t.test('autoplace and min place one instance together', async (t) => {
  const rig = await startKeeper(t, { config: config(['acme/chat']) })
  await rig.clock.advance(30_000)
  t.equal(rig.placed.length, 1)
})

t.test('one that fails to load twice is not tried again for minutes', async (t) => {
  const rig = await startKeeper(t, { config: config() })
  const began = rig.clock.mono()
  const fail = async (n: number): Promise<void> => {
    await passes(rig, `try ${n}`, () => rig.placed.length === n, PAUSE_MS * 2)
    const { instanceId } = bodyOf(rig.placed[n - 1]!.instance)
    rig.state.instanceFailures.push({
      ...failure(instanceId), affectedNodeIds: placedOn(rig),
      recordedAt: new Date(rig.clock.now()).toISOString()
    })
    await passes(rig, 'its removal', () => rig.drained.length === n)
    rig.state.instances = {}
  }
  await fail(1)
  await fail(2)
  t.not(placedOn(rig)[0], placedOn(rig, -2)[0], 'the second try is on another node')
  t.ok(rig.clock.mono() - began < 60_000)
  await rig.clock.advance(PAUSE_MS - 60_000)
  t.equal(rig.placed.length, 2)
  await fail(3)
  t.ok(rig.clock.mono() - began > PAUSE_MS)
})

t.test('what an operator stops stays stopped, until it is placed', async (t) => {
  const rig = await startKeeper(t, { config: config([], { replicas: { ...POLICY, min: 2 } }) })
  await passes(rig, 'the first', () => ids(rig).length === 1)
  runnersAre(rig.state, ids(rig)[0]!, { RunnerReady: {} })
  await passes(rig, 'the second', () => ids(rig).length === 2, 30_000)
  for (const id of ids(rig)) t.equal((await rig.ask('DELETE', `/instance/${id}`)).status, 200)
  await rig.clock.advance(60_000)
  t.strictSame(ids(rig), [])
  void rig.ask('POST', '/place_instance', { model_id: 'acme/chat' })
  await passes(rig, 'it to be placed', () => ids(rig).length === 1)
  runnersAre(rig.state, ids(rig)[0]!, { RunnerReady: {} })
  await passes(rig, 'the second one', () => ids(rig).length === 2, 30_000)
})

t.test('the policy of a model over the API', async (t) => {
  const rig = await startKeeper(t, { config: config([], { demand: true }),
    cards: [card('acme/chat', { totalBytes: GIB }), card('acme/other')] })
  put(rig, 'a', ['id-n1'])
  const set = async (model: string, body: object) => await rig.ask('PATCH', `/models/${model}/policy`, body)
  const stored = async (): Promise<unknown> =>
    ((await rig.inject({ url: '/state' })).json() as { policies: unknown }).policies
  t.match(await stored(), { 'acme/chat': { demand: true, from: 'svc.yaml', words: /svc\.yaml/ } })
  t.match(await set('acme/chat', {}), { status: 200, body: { policy: { demand: true, from: 'svc.yaml' } } })
  t.match(await stored(), { 'acme/chat': { from: 'svc.yaml' } }, 'reading it changes nothing')
  t.match(await set('acme/chat', policy), { status: 200, body: {
    model_id: 'acme/chat', message: /1 to 2 instances.*requests place it; set by request/,
    policy: { demand: true, ...policy, from: 'request' }
  } })
  t.strictSame((await set('acme/chat', { replicas: null })).body['policy'], { demand: true, from: 'request' })
  const off = { demand: false, from: 'request' }
  t.match(await set('acme/chat', { demand: false }), { body: { policy: off } })
  await rig.clock.advance(5000)
  t.match(await stored(), { 'acme/chat': off }, 'it replaces that of svc.yaml')
  t.match(await set('acme/chat', { demand: null }), { body: { message: /: none is set; that of svc\.yaml/ } })
  await rig.clock.advance(5000)
  t.match(await stored(), { 'acme/chat': { demand: true, from: 'svc.yaml' } }, 'which applies again')
  await set('acme/other', { demand: false })
  await set('acme/other', { demand: null })
  t.strictSame(Object.keys(await stored() as object), ['acme/chat'])
  const bad: [string, object, number, string, string | null][] = [
    ['acme/none', policy, 400, 'model_unknown', 'model_id'],
    ['acme/chat', { replicas: { ...POLICY, min: 4 } }, 400, 'invalid_request', 'replicas.max'],
    ['acme/chat', { replicas: { min: 1, max: 2 } }, 400, 'invalid_request', 'replicas.target_open'],
    ['acme/chat', { replicas: { ...POLICY, max: 33 } }, 400, 'invalid_request', 'replicas.max'],
    ['acme/chat', { pinned: true }, 400, 'invalid_request', 'pinned']
  ]
  for (const [model, body, status, reason, param] of bad) {
    t.match(await set(model, body), { status, body: { error: { reason, param } } })
  }
})

t.test('svc policy', async (t) => {
  const policies: Record<string, object> = {}
  const node = await nodeOf(t, {
    'GET /state': (response) => { sendJson(response, { policies }) },
    'PATCH /models/acme/chat/policy': (response) => { sendJson(response, { message: 'acme/chat: set.' }) }
  })
  const body = async (...args: string[]): Promise<unknown> => {
    t.match(await node.run(['policy', 'acme/chat', ...args]), { status: 0, out: 'acme/chat: set.\n' })
    return node.asked.at(-1)!.body
  }
  const of = (min: number, max: number, target_open = 4) => ({ replicas: { min, max, target_open } })
  t.strictSame(await body('--replicas', '1-3', '--target-open', '2'), of(1, 3, 2))
  t.strictSame(await body('--replicas', '2'), of(2, 2))
  t.match(await body('--replicas', '0-2', '--idle', '60'), { replicas: { idle_seconds: 60 } })
  t.strictSame(await body('--replicas', 'none', '--demand', 'on'), { replicas: null, demand: true })
  t.strictSame(await body('--replicas', 'none'), { replicas: null })
  t.strictSame(await body(), {})
  t.match(await node.run(['policy', 'acme/chat', '--idle', '9']),
    { status: 2, err: /^svc: --replicas: no number of instances is set for acme\/chat; give one/ })
  policies['acme/chat'] = { replicas: { ...POLICY, idle_seconds: 7 }, from: 'svc.yaml' }
  const kept: [string[], object][] = [
    [['--replicas', '1'], { max: 1 }], [['--target-open', '9'], { target_open: 9 }],
    [['--idle', '5'], { idle_seconds: 5 }],
    [['--replicas', '2-4', '--idle', '6'], { min: 2, max: 4, idle_seconds: 6 }]
  ]
  for (const [args, over] of kept) {
    t.strictSame(await body(...args), { replicas: { ...POLICY, idle_seconds: 7, ...over } }, args.join(' '))
  }
  for (const args of [['--target-open', 'x'], ['--replicas', 'x'], ['--replicas', '1', '--target-open', '0'],
    ['--demand', 'yes']]) {
    t.match(await node.run(['policy', 'acme/chat', ...args]), { status: 2, err: /^svc: --/ })
  }
})
