import t, { type Test } from 'tap'
import { EngineError, kernelError, type Caller } from '../../../kernel/index.js'
import { RunnersService, type Route, type RouteQuery } from '../service.js'
import { drain, endless, failing, ready, startRunners, until, type RunnersRig } from './rig.js'
import { card } from './samples.js'

const VOICE = 'svc/voice-en'
const caller: Caller = { id: 'test', mode: 'direct', authorities: new Set(['invoke']) }
const query: RouteQuery = { modelId: VOICE, capability: 'tts', commandId: 'C', caller }
const task = { kind: 'tts', payload: { text: 'hello' } }
const never = new AbortController().signal

const status = async (rig: RunnersRig, { taskId }: Route): Promise<string | undefined> =>
  ((await rig.state())['tasks'] as unknown as Record<string, { Inference: { status: string } }>)[taskId]
    ?.Inference.status

t.test('a task is routed, served and shown without its content', async (t) => {
  const { rig, runner, runners } = await ready(t)
  const route = await runners.route(query)
  t.match(route, {
    taskId: /^[0-9a-f-]{36}$/,
    instanceId: runner.options.instanceId,
    runnerId: runner.options.runnerId,
    modelId: VOICE
  })
  t.equal(await status(rig, route), 'Pending')
  t.same(await drain(runners.open(route, task, never)), [
    { payload: { chunk_index: 0 } },
    { payload: { chunk_index: 1 } }
  ])
  t.same(runner.opened, [{ taskId: route.taskId, task }])
  const state = await rig.state()
  t.match(state['tasks'], {
    [route.taskId]: {
      Inference: {
        taskId: route.taskId,
        commandId: 'C',
        instanceId: route.instanceId,
        modelId: VOICE,
        capability: 'tts',
        status: 'Complete',
        createdAt: /^2026/
      }
    }
  })
  t.notMatch(JSON.stringify(state), /hello/)
  t.notMatch(JSON.stringify(rig.events), /hello/)
  await t.rejects(
    drain(runners.open(route, task, never)),
    { reason: 'instance_lost' } as never,
    'a task is served once'
  )
})

const broken: [string, Partial<RouteQuery>, string, RegExp][] = [
  ['an unknown model', { modelId: 'acme/none' }, 'card', /svc\/voice-en/],
  ['a model that is not placed', { modelId: 'acme/x' }, 'placement', /svc place acme\/x/],
  ['a model that does something else', { capability: 'chat' }, 'request', /supports chat/]
]
for (const [name, over, link, remedy] of broken) {
  t.test(`no route to ${name}`, async (t) => {
    const rig = await startRunners(t, {
      cards: [card(VOICE), card('acme/x')],
      place: [VOICE]
    })
    ;(await rig.runner(VOICE)).ready()
    const asked = { ...query, ...over }
    await t.rejects(rig.service(RunnersService).route(asked), {
      ...link === 'request'
        ? { reason: 'wrong_task', status: 400, message: `${VOICE}: it does not support chat, only tts.` }
        : {
            reason: 'no_instance', status: 404,
            message: new RegExp(`^No instance found for model ${asked.modelId}: `)
          },
      details: { model: asked.modelId, brokenLink: link, remedy }
    })
    t.same((await rig.state())['tasks'], {}, 'and no task is named')
  })
}

t.test('no route to a runner that is loading or lost', async (t) => {
  const { runner, runners } = await ready(t)
  runner.move({ RunnerIdle: {} })
  await t.rejects(runners.route(query), { reason: 'no_instance', details: { brokenLink: 'runner' } } as never)
  t.match(runners.models('tts'), [{ card: { modelId: VOICE }, ready: false }])
})

t.test('what can be named', async (t) => {
  const { runners } = await ready(t)
  t.match(runners.models('tts'), [{ card: { modelId: VOICE }, ready: true }])
  t.same(runners.models('chat'), [])
  t.equal(runners.card(VOICE)?.modelId, VOICE)
  t.equal(runners.card('acme/none'), undefined)
  t.match(runners.reports(), [{ modelId: VOICE, pid: 4711, statusKind: 'RunnerReady' }])
})

interface Failure {
  reason: string
  chunks?: number
  thrown: object
  event: boolean
}
const failures: Record<string, Failure> = {
  'a lost runner': {
    reason: 'instance_lost',
    thrown: { reason: 'instance_lost', status: 500, retryable: true },
    event: true
  },
  'an engine that breaks': {
    reason: 'provider_error',
    thrown: { reason: 'provider_error', status: 502 },
    event: true
  },
  'a full queue': {
    reason: 'overloaded',
    thrown: { reason: 'overloaded', status: 429, details: { limit: 4 } },
    event: false
  },
  'a refusal of the engine': {
    reason: 'text_too_long',
    thrown: { name: 'EngineError', reason: 'text_too_long', details: { limit: 4 } },
    event: false
  },
  'a refusal after the first chunk': {
    reason: 'text_too_long',
    chunks: 1,
    thrown: { reason: 'text_too_long' },
    event: true
  },
  'anything else thrown': { reason: 'engine_error', thrown: { reason: 'provider_error' }, event: true }
}
for (const [name, { reason, chunks, thrown, event }] of Object.entries(failures)) {
  t.test(`one terminal after ${name}`, async (t) => {
    const { rig, runner, runners } = await ready(t)
    runner.answer = failing(reason, chunks)
    const route = await runners.route(query)
    await t.rejects(drain(runners.open(route, task, never)), thrown as never)
    t.equal(await status(rig, route), 'Failed')
    const failed = rig.events.filter(({ kind }) => kind === 'TaskFailed')
    t.equal(failed.length, event ? 1 : 0)
    if (event) t.match(failed[0]?.payload, { taskId: route.taskId, commandId: 'C', errorType: String })
    t.notMatch(JSON.stringify(failed), /secret/)
  })
}

t.test('the cause of a broken engine stays in the log', async (t) => {
  const { rig, runner, runners } = await ready(t)
  runner.answer = failing('provider_error')
  const error = await drain(runners.open(await runners.route(query), task, never)).catch(
    (error: Error) => error
  )
  t.notMatch((error as Error).message, /secret/)
  t.ok(rig.logged.some(({ level, fields }) => level === 'error' && /secret/.test(String(fields['error']))))
  t.notOk(error instanceof EngineError)
})

/** A task that runs until it is aborted. */
async function running (t: Test) {
  const { rig, runner, runners } = await ready(t)
  runner.answer = endless
  const controller = new AbortController()
  const route = await runners.route(query)
  const outcome = drain(runners.open(route, task, controller.signal))
  await until(() => runner.opened.length > 0)
  t.equal(await status(rig, route), 'Running')
  return { rig, route, outcome, controller }
}

t.test('a node that stops tells of the tasks that it takes along', async (t) => {
  const { rig, route, outcome, controller } = await running(t)
  controller.abort(kernelError('shutting_down'))
  await t.rejects(outcome, { reason: 'shutting_down' } as never)
  t.match(rig.events.filter(({ kind }) => kind === 'TaskFailed'),
    [{ payload: { taskId: route.taskId, commandId: 'C', errorType: 'instance_lost' } }])
})

const aborts: [string, unknown, string, string][] = [
  ['a cancelled call', kernelError('cancelled'), 'Cancelled', 'cancelled'],
  ['a passed deadline', kernelError('timeout'), 'TimedOut', 'timeout'],
  ['a client that left', undefined, 'Cancelled', 'cancelled']
]
for (const [name, reason, expected, thrown] of aborts) {
  t.test(`one terminal after ${name}`, async (t) => {
    const { rig, route, outcome, controller } = await running(t)
    controller.abort(reason)
    await t.rejects(outcome, { reason: thrown } as never)
    t.equal(await status(rig, route), expected)
    t.notOk(rig.events.some(({ kind }) => kind === 'TaskFailed'))
  })
}

t.test('a reader that stops early cancels the task', async (t) => {
  const { rig, runner, runners } = await ready(t)
  let closed = false
  runner.answer = async function * () {
    try {
      for (;;) yield { payload: {} }
    } finally {
      closed = true
    }
  }
  const route = await runners.route(query)
  for await (const chunk of runners.open(route, task, never)) {
    t.same(chunk, { payload: {} })
    break
  }
  t.ok(closed, 'the engine hears of it')
  t.equal(await status(rig, route), 'Cancelled')
})

t.test('a task whose instance is gone before it is opened', async (t) => {
  const { rig, runner, runners } = await ready(t)
  const route = await runners.route(query)
  await rig.service((await import('../service.js')).InstanceService).remove(runner.options.instanceId)
  await t.rejects(drain(runners.open(route, task, never)),
    { reason: 'instance_lost', retryable: true } as never)
  t.equal(await status(rig, route), 'Failed')
})
