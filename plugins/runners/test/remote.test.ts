import t from 'tap'
import { kernelError, type CapabilityCall, type EngineChunk, type EngineTask } from '../../../kernel/index.js'
import { RunnerError } from '../process/errors.js'
import { createReadiness } from '../routing/readiness.js'
import { runTask, type Route } from '../service.js'
import { ASKER, caller, hear, pair, query, task, taskAt, VOICE, type Pair } from './remote-kit.js'
import { endless, failing, until } from './rig.js'
import { card } from './samples.js'

const never = new AbortController().signal

/** An engine that records how its task ended. */
function watched (answer: (task: EngineTask, signal: AbortSignal) => AsyncIterable<EngineChunk>): {
  answer: typeof answer, made: number, over: boolean, aborted: boolean
} {
  const seen = {
    made: 0,
    over: false,
    aborted: false,
    async * answer (task: EngineTask, signal: AbortSignal): AsyncGenerator<EngineChunk> {
      signal.addEventListener('abort', () => { seen.aborted = true })
      try {
        for await (const chunk of answer(task, signal)) {
          seen.made += 1
          yield chunk
        }
      } finally {
        seen.over = true
      }
    }
  }
  return seen
}

/** Starts a stream without an end and waits for its first chunk. */
async function openEndless (nodes: Pair, signal = never): Promise<{
  route: Route, engine: ReturnType<typeof watched>, outcome: ReturnType<typeof hear>
}> {
  const engine = watched(endless)
  nodes.runner.answer = engine.answer
  const route = await nodes.asker.route(query)
  let first = false
  const outcome = hear(nodes.asker.open(route, task, signal), () => { first = true })
  await until(() => first)
  return { route, engine, outcome }
}

t.test('a task is served by the runner of another node', async (t) => {
  const nodes = await pair(t)
  const { asker, rig, runner } = nodes
  const answer: EngineChunk[] = [
    { payload: { chunk_index: 0 }, media: Buffer.alloc(100_000, 1),
      timing: { timestampSeconds: 0, durationSeconds: 2 } },
    { payload: { chunk_index: 1 } }
  ]
  runner.answer = async function * () { yield * answer }
  const route = await asker.route(query)
  t.match(route, { instanceId: runner.options.instanceId, runnerId: runner.options.runnerId, modelId: VOICE,
    installId: '00000000-0000-4000-8000-000000000000' })
  t.not(route.nodeId, ASKER.nodeId)
  const heard = await hear(asker.open(route, task, never))
  t.equal(heard.error, null)
  t.same(heard.chunks.map(({ payload, timing }) => ({ payload, timing })),
    answer.map(({ payload, timing }) => ({ payload, timing })))
  t.ok(Buffer.from(heard.chunks[0]!.media!).equals(Buffer.from(answer[0]!.media!)), 'and its media')
  t.equal(heard.chunks[1]!.media, undefined)
  t.same(runner.opened, [{ taskId: route.taskId, task }])
  t.match(await taskAt(rig, route.taskId), { taskId: route.taskId, commandId: 'C', modelId: VOICE,
    instanceId: route.instanceId, capability: 'tts', status: 'Complete' }, 'shown where it ran')
  t.same(nodes.tasks.all(), [], 'not as one of the node that asked')
  t.match(asker.tasks(), { [route.taskId]: { Inference: { status: 'Complete' } } },
    'which shows it nevertheless')
  t.notMatch(JSON.stringify(await rig.state()), /hello/)
  t.match(await hear(asker.open(route, task, never)), { error: { reason: 'instance_lost' } },
    'a task is served once')
  await until(() => rig.kernel.commands.open === 0)
})

t.test('what can be named is what others serve, too', async (t) => {
  const { asker, live } = await pair(t)
  t.match(asker.models('tts'), [{ card: { modelId: VOICE }, ready: true }])
  t.same(asker.models('chat'), [])
  t.equal(asker.card(VOICE)?.modelId, VOICE)
  t.equal(asker.missing(VOICE, 'tts'), null, 'and needs no backend here')
  t.same(asker.serving(VOICE), [], 'not by a runner of its own')
  t.match(asker.missing('acme/none', 'tts'),
    { link: 'card', remedy: /Use one of: svc\/voice-en/ })
  t.match(asker.missing('acme/none', 'chat'), { link: 'card', remedy: /^Download it:/ }, 'it fits')
  live.clear()
  t.same(asker.models('tts'), [], 'a node that is gone serves nothing')
  await t.rejects(asker.route(query), {
    reason: 'no_instance', status: 503, retryable: true, retryAfterSeconds: 1,
    details: { brokenLink: 'backend' }
  } as never, 'but it is wanted, and comes back')
})

t.test('a model whose card went with another node is known by its instance', async (t) => {
  const { asker } = await pair(t, { storeAway: true })
  t.equal(asker.card(VOICE)?.title, card(VOICE).title)
  t.equal(asker.card(VOICE)?.totalBytes, card(VOICE).totalBytes)
  t.equal((await asker.route(query)).modelId, VOICE)
})

t.test('/readyz: what another node serves is ready', async (t) => {
  const { asker, live } = await pair(t)
  const check = createReadiness({ routing: asker, idle: () => true, canary: async () => false })
  t.match(await check(VOICE), { ok: true, detail: /another node/ })
  live.clear()
  t.match(await check(VOICE), { ok: false })
})

t.test('a runner that loads elsewhere is the broken link', async (t) => {
  const { asker } = await pair(t, { status: { RunnerLoading: { layersLoaded: 1, totalLayers: 3 } } })
  await t.rejects(asker.route(query), {
    reason: 'no_instance', message: /is loading \(1 of 3\)/, details: { brokenLink: 'runner' }
  })
  t.same(asker.models('tts'), [])
})

const loads: [string, Parameters<typeof pair>[1], boolean][] = [
  ['both idle: the own one', { own: { load: 0 } }, true],
  ['the own one works: the other', { own: { load: 1 } }, false],
  ['both work: the own one', { own: { load: 1 }, status: { RunnerRunning: {} } }, true],
  ['the own one works more: the other', { own: { load: 2 }, status: { RunnerRunning: {} } }, false],
  ['the other is said to have less', { own: { load: 3 }, status: { RunnerRunning: {} }, told: 2 }, false],
  ['the other is said to have more', { own: { load: 3 }, status: { RunnerReady: {} }, told: 4 }, true],
  ['the other is said to have nothing', { own: { load: 1 }, status: { RunnerRunning: {} }, told: 0 }, false]
]
for (const [name, options, own] of loads) {
  t.test(name, async (t) => {
    const { asker } = await pair(t, options)
    t.equal((await asker.route(query)).nodeId === ASKER.nodeId, own)
  })
}

t.test('tasks that were given away count', async (t) => {
  const { asker, runner } = await pair(t, { own: { load: 1 } })
  t.equal((await asker.route(query)).runnerId, runner.options.runnerId)
  t.equal((await asker.route(query)).runnerId, 'own-runner')
})

interface Failure { reason: string, chunks?: number, thrown: object, event: boolean }
const failures: Record<string, Failure> = {
  'a lost runner': {
    reason: 'instance_lost', thrown: { reason: 'instance_lost', status: 500, retryable: true }, event: true
  },
  'an engine that breaks': {
    reason: 'provider_error', chunks: 1, thrown: { reason: 'provider_error', status: 502 }, event: true
  },
  'a full queue': {
    reason: 'overloaded', event: false,
    thrown: { reason: 'overloaded', status: 429, details: { limit: 4, node: String } }
  },
  'a refusal of the engine': {
    reason: 'text_too_long',
    thrown: { name: 'EngineError', reason: 'text_too_long', message: 'secret text', details: { limit: 4 } },
    event: false
  },
  'anything else thrown': { reason: 'engine_error', thrown: { reason: 'provider_error' }, event: true }
}
for (const [name, { reason, chunks, thrown, event }] of Object.entries(failures)) {
  t.test(`one terminal with its reason after ${name}`, async (t) => {
    const { asker, rig, runner, failed } = await pair(t)
    runner.answer = failing(reason, chunks)
    const route = await asker.route(query)
    const heard = await hear(asker.open(route, task, never))
    t.equal(heard.chunks.length, chunks ?? 0)
    t.match(heard.error, thrown)
    t.equal((await taskAt(rig, route.taskId))?.['status'], 'Failed')
    t.equal(rig.events.filter(({ kind }) => kind === 'TaskFailed').length, event ? 1 : 0)
    t.equal(failed.length, reason === 'instance_lost' ? 1 : 0, 'of a loss both nodes have the master tell')
  })
}

t.test('how long a full queue takes is passed on', async (t) => {
  const { asker, runner } = await pair(t)
  runner.answer = async function * () {
    throw new RunnerError('overloaded', 'full', { retryAfterSeconds: 7 })
  }
  const { error } = await hear(asker.open(await asker.route(query), task, never))
  t.equal(error?.['retryAfterSeconds'], 7)
})

const aborts: [string, unknown, string][] = [
  ['a cancelled call', kernelError('cancelled'), 'cancelled'],
  ['a passed deadline', kernelError('timeout'), 'timeout'],
  ['a client that left', undefined, 'cancelled']
]
for (const [name, reason, thrown] of aborts) {
  t.test(`the engine hears of ${name}`, async (t) => {
    const nodes = await pair(t)
    const controller = new AbortController()
    const { route, engine, outcome } = await openEndless(nodes, controller.signal)
    t.equal((await taskAt(nodes.rig, route.taskId))?.['status'], 'Running')
    controller.abort(reason)
    t.match((await outcome).error, { reason: thrown })
    await until(() => engine.aborted && engine.over)
    t.equal((await taskAt(nodes.rig, route.taskId))?.['status'], 'Cancelled')
    t.same([nodes.failed, nodes.rig.events.filter(({ kind }) => kind === 'TaskFailed')], [[], []])
    await until(() => nodes.rig.kernel.commands.open === 0)
  })
}

t.test('a call that is over before it is sent is not sent', async (t) => {
  const { asker, runner, sockets } = await pair(t)
  const route = await asker.route(query)
  const { error } = await hear(asker.open(route, task, AbortSignal.abort(kernelError('cancelled'))))
  t.match(error, { reason: 'cancelled' })
  t.same([runner.opened, sockets], [[], []])
})

t.test('a reader that stops early cancels the task', async (t) => {
  const { asker, runner } = await pair(t)
  const engine = watched(endless)
  runner.answer = engine.answer
  for await (const chunk of asker.open(await asker.route(query), task, never)) {
    t.same(chunk, { payload: { chunk_index: 0 } })
    break
  }
  await until(() => engine.aborted && engine.over)
  t.pass()
})

t.test('a slow reader holds the engine back', async (t) => {
  const { asker, runner } = await pair(t)
  const count = 400
  const engine = watched(async function * () {
    for (let index = 0; index < count; index++) {
      yield { payload: { index }, media: Buffer.alloc(16_384, index) }
    }
  })
  runner.answer = engine.answer
  const stream = asker.open(await asker.route(query), task, never)[Symbol.asyncIterator]()
  const next = async (): Promise<unknown> => ((await stream.next()).value as EngineChunk).payload['index']
  t.equal(await next(), 0)
  for (let turn = 0; turn < 2000; turn++) await new Promise((resolve) => { setImmediate(resolve) })
  t.ok(engine.made < 20, `${engine.made} of ${count} chunks made while one was read`)
  const before = engine.made
  for (let index = 1; index <= 50; index++) if (await next() !== index) t.fail(`chunk ${index} is missing`)
  t.ok(engine.made > before && engine.made < 70, `${engine.made} made while 51 were read`)
  let rest = 51
  for await (const { payload, media } of { [Symbol.asyncIterator]: () => stream }) {
    if (payload['index'] !== rest++ || media?.byteLength !== 16_384) t.fail(`not chunk ${rest}`)
  }
  t.equal(rest, count)
})

t.test('a connection that breaks in the middle is a lost instance', async (t) => {
  const nodes = await pair(t)
  const { outcome, engine, route } = await openEndless(nodes)
  for (const socket of nodes.sockets) socket.destroy(new Error('reset'))
  const { error, chunks } = await outcome
  t.equal(chunks.length, 1)
  t.match(error, { reason: 'instance_lost', status: 500, retryable: true, message: /node beta/,
    details: { model: VOICE, nodeId: route.nodeId, instanceId: route.instanceId } })
  t.match(nodes.failed, [{ taskId: route.taskId, commandId: 'C', errorType: 'instance_lost' }])
  await until(() => engine.aborted && engine.over)
})

t.test('a node that is given up is a lost instance, though its connection says nothing', async (t) => {
  const nodes = await pair(t)
  const { outcome, route } = await openEndless(nodes)
  nodes.live.delete(route.installId)
  await nodes.clock.advance(1000)
  t.match((await outcome).error, { reason: 'instance_lost', retryable: true })
})

t.test('the task of a node that is given up ends', async (t) => {
  const nodes = await pair(t)
  const { outcome, engine } = await openEndless(nodes)
  nodes.live.delete(ASKER.installId)
  await nodes.clock.advance(1000)
  await until(() => engine.aborted && engine.over)
  t.match((await outcome).error, { reason: 'instance_lost' })
})

t.test('a node that stops is a lost instance', async (t) => {
  const nodes = await pair(t)
  const { outcome } = await openEndless(nodes)
  const route = await nodes.asker.route(query)
  const stopped = nodes.rig.stop()
  t.match((await outcome).error, { reason: 'instance_lost', retryable: true })
  const late = await hear(nodes.asker.open(route, task, never))
  t.match(late.error, { reason: 'instance_lost', retryable: true })
  await stopped
})

t.test('a session that ends at the serving node says so', async (t) => {
  const nodes = await pair(t)
  const { outcome } = await openEndless(nodes)
  ;(nodes.rig.kernel.commands as unknown as { abortAll (reason: string): void }).abortAll('session_changed')
  t.match((await outcome).error, { reason: 'session_changed', status: 503, retryable: true })
})

/** A call that may be retried, and its headers. */
function retrying (): { call: CapabilityCall, headers: Record<string, string> } {
  const headers: Record<string, string> = {}
  const setHeader = (name: string, value: string): void => { headers[name] = value }
  const call = { commandId: 'C', caller, signal: never, retry: true, setHeader } as unknown as CapabilityCall
  return { call, headers }
}

t.test('what is lost here is tried again at another node', async (t) => {
  // The requesting node's own runner is the first choice but has no process.
  const { asker, runner, failed } = await pair(t, { own: { load: 0 } })
  const { call, headers } = retrying()
  const heard = await hear(runTask(asker, { modelId: VOICE, capability: 'tts', task }, call))
  t.match(heard, { error: null, chunks: [{}, {}] })
  t.match(headers, { 'x-svc-task-id': runner.opened[0]!.taskId, 'x-svc-retried': '1' })
  t.same(failed, [], 'nothing was done for the first try, so that nothing is lost')
  const ends = Object.values(asker.tasks()).map(({ Inference: { status } }) => status)
  t.same(ends.sort(), ['Complete', 'Failed'])
})

t.test('what was refused before it began is tried elsewhere, asked for or not', async (t) => {
  const { asker, runner } = await pair(t, { own: { load: 0 } })
  const { call, headers } = retrying()
  const heard = await hear(runTask(asker, { modelId: VOICE, capability: 'tts', task },
    { ...call, retry: false }))
  t.match(heard, { error: null, chunks: [{}, {}] })
  t.match(headers, { 'x-svc-task-id': runner.opened[0]!.taskId, 'x-svc-retried': '1' })
  const alone = await pair(t)
  alone.stand.is = (_request, response) => {
    response.writeHead(503, { 'content-type': 'application/json' })
      .end(JSON.stringify({ error: { reason: 'shutting_down', message: 'x', details: {} } }))
  }
  const none = await hear(runTask(alone.asker, { modelId: VOICE, capability: 'tts', task },
    { ...call, retry: false }))
  t.match(none.error, { reason: 'no_instance', status: 503, retryable: true }, 'there is no other one')
  const both = await pair(t, { own: { load: 0 } })
  both.stand.is = alone.stand.is
  const neither = await hear(runTask(both.asker, { modelId: VOICE, capability: 'tts', task }, call))
  t.match(neither.error, { reason: 'no_instance', status: 503, retryAfterSeconds: 1 }, 'nor a third')
})

t.test('a node that leaves gets no new task', async (t) => {
  const { asker, leaving, rig } = await pair(t)
  const { nodeInstallId } = (await rig.inject({ url: '/node/identity' })).json() as Record<string, string>
  t.ok(await asker.route(query))
  leaving.add(nodeInstallId!)
  await t.rejects(asker.route(query), { reason: 'no_instance', status: 503 } as never)
})

t.test('a node that is lost has no other one to try', async (t) => {
  const nodes = await pair(t)
  nodes.runner.answer = async function * () {
    for (const socket of nodes.sockets) socket.destroy(new Error('reset'))
    yield * endless(task, never)
  }
  const { call, headers } = retrying()
  const heard = await hear(runTask(nodes.asker, { modelId: VOICE, capability: 'tts', task }, call))
  t.match(heard.error, { reason: 'instance_lost', retryable: true })
  t.notOk('x-svc-retried' in headers)
})

t.test('the caller goes with the task to the queue of the other node', async (t) => {
  const { asker, runner } = await pair(t)
  const asked: unknown[] = []
  runner.open = async function * (_taskId: string, _task: unknown, _signal: AbortSignal, ...rest: unknown[]) {
    asked.push(...rest)
    yield { payload: {} }
  } as typeof runner.open
  await hear(asker.open(await asker.route(query), task, never))
  t.match(asked, [{ callerId: caller.id }])
})

t.test('POST /v1/cancel of a member is answered by this node alone', async (t) => {
  const { request, rig } = await pair(t)
  const ask = async (): Promise<[number, unknown]> => {
    const { status, body } = await request({ path: '/v1/cancel/C', body: {} })
    const parts: Buffer[] = []
    for await (const part of body) parts.push(part as Buffer)
    return [status, JSON.parse(Buffer.concat(parts).toString())]
  }
  t.match(await ask(), [404, { error: { reason: 'command_unknown' } }])
  let aborted = ''
  const of = (by: typeof caller): (() => void) => rig.kernel.commands.track(
    { commandId: 'C', caller: by, abort: (reason) => { aborted = reason } })
  const untrack = of({ ...caller, id: 'somebody else' })
  t.match(await ask(), [403, { error: { reason: 'missing_grant' } }])
  t.equal(aborted, '')
  untrack()
  of(caller)
  t.match(await ask(), [200, { command_id: 'C' }])
  t.equal(aborted, 'cancelled')
})
