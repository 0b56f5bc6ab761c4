import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { ClusterService, definePlugin } from '../../../kernel/index.js'
import { fake, startPlugin } from '../../../kernel/testing/index.js'
import tracing from '../index.js'
import { partOf, SpanRecorder } from '../../runners/process/span-recorder.js'
import { TracingService } from '../service.js'
import type { Cluster, MemberRequest, NodeView } from '../../../kernel/index.js'
import type { Rig, StartOptions, TestContext } from '../../../kernel/testing/index.js'
import type { ListedTrace } from '../peers.js'

const TASK = '11111111-0000-4000-8000-000000000001'
const PROMPT = 'a very secret prompt'
const ANSWER = 'a very secret answer'

/** A capability whose requests become tasks; a request with `refuse` fails before that. */
const probe = definePlugin({
  name: 'probe', version: '1.0.0', kernel: '^1.0.0', summary: 'Serves tasks.',
  capabilities: {
    say: {
      id: 'say', version: '1.0.0', title: 'Say', description: 'Says it.', io_mode: 'server_streaming',
      input_schema: { type: 'object' }, output_chunk_schema: { type: 'object' }, annotations: {}
    }
  }
}, () => ({
  invoke: {
    async * say (input, { trace, setHeader }) {
      if ('refuse' in input) throw new Error('no')
      const taskId = typeof input['task'] === 'string' ? input['task'] : TASK
      setHeader('x-svc-task-id', taskId)
      trace?.task({ taskId, modelId: 'acme/voice', capability: 'say' })
      if ('broken' in input) throw new Error('no')
      const hop = trace?.hop('runner', { nodeId: null, installId: null })
      const recorder = new SpanRecorder(() => 0)
      recorder.span('prefill', 'prefill', 0, 0)
      for (let i = 0; i < 3; i++) yield { payload: { text: ANSWER } }
      hop?.done(partOf(recorder, 'runner', 0))
    }
  }
}))

async function start (t: TestContext, options: StartOptions = {}): Promise<Rig> {
  return await startPlugin(t, tracing, { plugins: [probe], ...options })
}

const turn = async (rig: Rig, enabled: boolean): ReturnType<Rig['inject']> =>
  await rig.inject({ method: 'PUT', url: '/v1/tracing', payload: { enabled } })

async function say (
  rig: Rig, payload: object = {}, headers: Record<string, string> = {}
): ReturnType<Rig['inject']> {
  const { revisions } = (await rig.inject({ url: '/v1/capabilities' })).json() as
    { revisions: Record<string, string> }
  return await rig.inject({
    method: 'POST', url: '/v1/capabilities/stream', headers: { accept: 'text/event-stream', ...headers },
    payload: {
      capability_id: 'say', version: '1.0.0', descriptor_revision: revisions['say@1.0.0'],
      payload: { text: PROMPT, ...payload }
    }
  })
}

const traces = async (rig: Rig, url = '/v1/traces'): Promise<ListedTrace[]> =>
  ((await rig.inject({ url })).json() as { traces: ListedTrace[] }).traces

async function written (rig: Rig, count: number): Promise<void> {
  while (rig.service(TracingService).counters().written < count) {
    await new Promise((resolve) => setImmediate(resolve))
  }
}

t.test('the switch is the cluster\'s', async (t) => {
  const rig = await start(t)
  const seen = async (): Promise<unknown[]> => [
    (await rig.inject({ url: '/v1/tracing' })).json(),
    ((await rig.inject({ url: '/state' })).json() as { tracingEnabled: boolean }).tracingEnabled,
    rig.service(TracingService).enabled
  ]
  t.same(await seen(), [{ enabled: false }, false, false])
  const on = await turn(rig, true)
  t.equal(on.statusCode, 200)
  t.same(on.json(), { enabled: true })
  t.same(await seen(), [{ enabled: true }, true, true])
  await turn(rig, true)
  t.same((await turn(rig, false)).json(), { enabled: false })
  t.same(await seen(), [{ enabled: false }, false, false])
  t.same(rig.events.filter(({ kind }) => kind === 'TracingStateChanged').map(({ payload }) => payload),
    [{ enabled: true }, { enabled: false }], 'told once for each change')
  for (const payload of [{}, { enabled: 'yes' }, { enabled: true, more: 1 }]) {
    t.equal((await rig.inject({ method: 'PUT', url: '/v1/tracing', payload })).statusCode, 400)
  }
})

t.test('reading needs read; switching and deleting need cluster:write', async (t) => {
  const rig = await start(t, { allow: ['read'] })
  t.equal((await rig.inject({ url: '/v1/tracing' })).statusCode, 200)
  t.equal((await rig.inject({ url: '/v1/traces' })).statusCode, 200)
  t.equal((await turn(rig, true)).statusCode, 401)
  const url = '/v1/traces/delete'
  t.equal((await rig.inject({ method: 'POST', url, payload: { taskIds: [] } })).statusCode, 401)
})

t.test('a request while it is off leaves nothing; one while it is on leaves its trace', async (t) => {
  const rig = await start(t)
  t.equal((await say(rig)).statusCode, 200)
  t.same(await traces(rig), [])
  t.same(readdirSync(join(rig.home, 'traces')), [])

  await turn(rig, true)
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const answer = await say(rig, {}, { traceparent })
  t.equal(answer.headers['x-svc-task-id'], TASK)
  await written(rig, 1)
  const commandId = String(answer.headers['x-svc-command-id'])
  const [entry] = await traces(rig)
  t.match(entry, {
    taskId: TASK, commandId, modelId: 'acme/voice', taskKind: 'say', outcome: 'completed',
    createdAt: /^2026-01-01T/
  })
  t.equal(entry?.sourceNodes.length, 1)

  for (const id of [TASK, commandId]) {
    const one = (await rig.inject({ url: `/v1/traces/${id}` })).json() as
      { taskId: string, traces: { name: string, nodeId: string }[] }
    t.equal(one.taskId, TASK)
    const names = one.traces.map(({ name }) => name)
    for (const name of ['request', 'parse', 'admission', 'runner', 'prefill', 'first bytes', 'write']) {
      t.ok(names.includes(name), name)
    }
    t.ok(one.traces.every(({ nodeId }) => nodeId === entry?.sourceNodes[0]))
    const stats = (await rig.inject({ url: `/v1/traces/${id}/stats` })).json()
    t.match(stats,
      { taskId: TASK, byCategory: { client: { count: Number } }, byRank: { 0: { byCategory: {} } } })
    const raw = await rig.inject({ url: `/v1/traces/${id}/raw` })
    t.match(raw.headers, { 'content-type': /application\/json/, 'content-disposition': /11111111.*\.json/ })
    t.match(raw.json(), {
      otherData: {
        taskId: TASK, traceId: '0af7651916cd43dd8448eb211c80319c', parentSpanId: 'b7ad6b7169203331'
      },
      traceEvents: [{ ph: 'M' }]
    })
  }
  const text = readFileSync(join(rig.home, 'traces', `${TASK}.json`), 'utf8')
  t.notMatch(text, PROMPT)
  t.notMatch(text, ANSWER)
})

t.test('a request that failed leaves its trace, and its answer tells the task', async (t) => {
  const rig = await start(t)
  await turn(rig, true)
  const answer = await say(rig, { broken: 1 })
  t.equal(answer.statusCode, 502)
  t.match(answer.headers, { 'x-svc-task-id': TASK, 'x-svc-command-id': String })
  t.match(await traces(rig),
    [{ taskId: TASK, outcome: 'failed', commandId: answer.headers['x-svc-command-id'] }])
})

t.test('a request that never became a task leaves nothing', async (t) => {
  const rig = await start(t)
  await turn(rig, true)
  t.equal((await say(rig, { refuse: 1 })).statusCode, 502)
  t.same(await traces(rig), [])
})

t.test('ids that are none', async (t) => {
  const rig = await start(t)
  writeFileSync(join(rig.home, 'secret.json'), '{"otherData":{}}')
  for (const tail of ['', '/stats', '/raw']) {
    for (const id of ['..%2Fsecret', '%2e%2e%2fsecret', '..', '.', 'a%00b', 'secret.json', 'a%5Cb',
      'x'.repeat(70)]) {
      for (const base of ['/v1/traces', '/v1/traces/cluster']) {
        const { statusCode } = await rig.inject({ url: `${base}/${id}${tail}` })
        t.ok([400, 404].includes(statusCode), `${base}/${id}${tail}: ${statusCode}`)
      }
    }
    const unknown = await rig.inject({ url: `/v1/traces/${TASK}${tail}` })
    t.match(unknown.json(), { error: { code: 404, reason: 'trace_not_found' } })
    const anywhere = await rig.inject({ url: `/v1/traces/cluster/${TASK}${tail}` })
    t.match(anywhere.json(), { error: { code: 404, reason: 'trace_not_found' } })
  }
  const removed = await rig.inject(
    { method: 'POST', url: '/v1/traces/delete', payload: { taskIds: ['../secret'] } })
  t.equal(removed.statusCode, 400)
  t.ok(existsSync(join(rig.home, 'secret.json')))
})

t.test('deleting, and a file that is damaged', async (t) => {
  const rig = await start(t)
  await turn(rig, true)
  const other = TASK.replace(/1$/, '2')
  await say(rig)
  await say(rig, { task: other })
  await written(rig, 2)
  t.same((await traces(rig, '/v1/traces?limit=1')).length, 1)
  writeFileSync(join(rig.home, 'traces', `${TASK}.json`), '{"otherData":')
  for (const tail of ['', '/stats']) {
    t.match((await rig.inject({ url: `/v1/traces/${TASK}${tail}` })).json(),
      { error: { reason: 'trace_damaged' } })
  }
  const removed = await rig.inject({
    method: 'POST', url: '/v1/traces/delete', payload: { taskIds: [TASK, other, other, 'unknown'] }
  })
  t.same(removed.json(), { deleted: [TASK, other], notFound: ['unknown'] })
  t.same(readdirSync(join(rig.home, 'traces')), [])
  t.same(await traces(rig), [])
})

/** The responses from another node by path; null never responds. */
type Peer = (path: string) => { status?: number, body: string } | null

async function withPeers (t: TestContext, peers: Record<string, Peer>): Promise<Rig> {
  const view = (name: string, self: boolean): NodeView =>
    ({ nodeId: `id-${name}`, installId: name, name, self, live: true, master: self, apiUrl: null })
  const nodes = [view('me', true), ...Object.keys(peers).map((name) => view(name, false))]
  const request = async (
    installId: string, { path, signal }: MemberRequest
  ): ReturnType<Cluster['request']> => {
    const answer = peers[installId]!(path)
    if (answer === null) {
      return await new Promise((_resolve, reject) => {
        signal!.addEventListener('abort', () => { reject(signal!.reason as Error) })
      })
    }
    return { status: answer.status ?? 200, headers: {}, body: Readable.from([Buffer.from(answer.body)]) }
  }
  const cluster = fake(ClusterService, {
    self: { installId: 'me', nodeId: 'id-me' }, nodes: () => nodes, request,
    resolve: (ref) => nodes.find(({ nodeId, name }) => ref === nodeId || ref === name),
    channel: () => ({ send: () => false, broadcast: () => 0, close () {} })
  })
  return await start(t, { fakes: [cluster] })
}

/** Advances the clock so that silent nodes reach their deadline. */
async function patiently (rig: Rig, url: string): ReturnType<Rig['inject']> {
  let over = false
  const answer = rig.inject({ url }).finally(() => { over = true })
  while (!over) {
    // Wait in real time, because the responses from other nodes do not depend on the manual clock.
    await new Promise((resolve) => { setTimeout(resolve, 30) })
    await rig.clock.advance(500)
  }
  return await answer
}

t.test('the whole cluster is asked, and nobody who misbehaves holds it up', async (t) => {
  const remote = TASK.replace(/1$/, '9')
  const entry = {
    taskId: remote, createdAt: '2026-02-01T00:00:00.000Z', modelId: 'm', commandId: 'c', taskKind: 'chat',
    outcome: 'completed', durationUs: 1, fileSize: 1
  }
  const span = { name: 'x', startUs: 1, durationUs: 1, rank: 0, category: 'c', nodeId: 'id-fine', attrs: {} }
  const raw = JSON.stringify({ otherData: { taskId: remote }, traceEvents: [] })
  const own = { ...entry, taskId: TASK }
  const missing = { status: 404, body: '{}' }
  const rig = await withPeers(t, {
    fine: (path) => {
      if (path.startsWith('/v1/traces?')) return { body: JSON.stringify({ traces: [entry, own] }) }
      if (!path.includes(remote)) return missing
      return { body: path.endsWith('/raw') ? raw : JSON.stringify({ taskId: remote, traces: [span] }) }
    },
    twin: (path) => path.startsWith('/v1/traces?') ? { body: JSON.stringify({ traces: [entry] }) } : missing,
    garbage: () => ({ body: '{"traces":[{"taskId":7}]}' }),
    noise: () => ({ body: '\u0000<html>' }),
    angry: () => ({ status: 500, body: 'no' }),
    never: () => null
  })
  await turn(rig, true)
  await say(rig)
  await written(rig, 1)
  const answer = await patiently(rig, '/v1/traces/cluster')
  t.equal(answer.statusCode, 200)
  const list = answer.json() as { traces: ListedTrace[], failed: { name: string, reason: string }[] }
  t.same(list.traces.map(({ taskId, sourceNodes }) => [taskId, sourceNodes.length]), [[remote, 2], [TASK, 2]])
  t.same(list.failed.map(({ name, reason }) => [name, reason]).sort(),
    [['angry', 'refused'], ['garbage', 'garbage'], ['never', 'timeout'], ['noise', 'garbage']])

  t.match((await patiently(rig, `/v1/traces/cluster/${remote}`)).json(),
    { taskId: remote, traces: [span], sourceNodes: ['id-fine'] })
  t.match((await patiently(rig, `/v1/traces/cluster/${remote}/stats`)).json(),
    { taskId: remote, totalWallTimeUs: 1, sourceNodes: ['id-fine'] })
  t.same((await patiently(rig, `/v1/traces/cluster/${remote}/raw`)).json(), JSON.parse(raw))
  t.match((await patiently(rig, `/v1/traces/cluster/${TASK}`)).json(),
    { taskId: TASK, failed: { length: 4 } })
  t.match((await rig.inject({ url: `/v1/traces/cluster/${TASK}/raw` })).json(),
    { otherData: { taskId: TASK } })
  const nobody = await patiently(rig, `/v1/traces/cluster/${TASK.replace(/1$/, '7')}`)
  t.match(nobody.json(),
    { error: { reason: 'trace_not_found', message: /never could not be queried \(timeout\)/ } })
})
