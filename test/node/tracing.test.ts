import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { ELECTION_MS } from './cluster-kit.js'
import { freePorts } from './ports.js'
import { does, TTS } from './engine.js'
import { ask, streamed } from './http.js'
import { faultsConfig, folder, placeOn, startNode, svc, until, type TestNode } from './kit.js'
import { hardKill } from './proc.js'
import type { AddressInfo } from 'node:net'

const VOICE = 'svc/voice-en'
const SENTENCE = 'Nobody may read this sentence in a trace.'

interface Shown { taskId: string, traces: Span[], sourceNodes?: string[], failed?: object[] }
interface Span { name: string, startUs: number, durationUs: number, category: string, nodeId: string,
  attrs: Record<string, unknown> }
interface Event { ph: string, name: string, span?: number, parent?: number | null }
interface Listed {
  traces: { taskId: string, commandId: string, modelId: string, fileSize: number, sourceNodes: string[] }[]
  failed: { name: string }[]
}

/** A node in a cluster with another node. */
async function node (t: Test, name: string, joins?: TestNode): Promise<TestNode> {
  const [api, members] = await freePorts(2)
  const token = joins === undefined ? undefined
    : ((await ask(joins, '/cluster/join-tokens', { body: { local: true } })).json as { token: string }).token
  return await startNode(t, {
    home: join(folder(t), 'home'),
    ready: false,
    config: faultsConfig({ name, cluster: {
      election_timeout_ms: ELECTION_MS, discovery: false, port: members
    } }, { autoplace: [] }),
    args: ['--port', String(api), ...token === undefined ? [] : ['--join', token]]
  })
}

const enabledAt = async (at: TestNode): Promise<boolean> =>
  ((await ask(at, '/v1/tracing')).json as { enabled: boolean }).enabled

/** Waits for the trace of the request whose answer had these headers. */
async function traceOf (at: TestNode, headers: Record<string, unknown>): Promise<Shown> {
  const id = String(headers['x-svc-task-id'])
  return await until(`the trace ${id}`, async () => {
    const answer = await ask(at, `/v1/traces/${id}`)
    return answer.status === 200 && answer.json as Shown
  })
}

/** Checks that each span lies within its parent after clock differences are corrected. */
function inOrder (t: Test, { traces }: Shown, hops: readonly [outer: string, inner: string][]): void {
  const named = (name: string): Span => traces.find((span) => span.name === name)!
  for (const [outer, inner] of hops) {
    const [out, ins] = [named(outer), named(inner)]
    t.ok(ins.startUs >= out.startUs && ins.startUs + ins.durationUs <= out.startUs + out.durationUs,
      `${inner} is in ${outer}`)
  }
}

t.test('a request that another node serves has one trace', async (t) => {
  const one = await node(t, 'one')
  const two = await node(t, 'two', one)
  await until('the two to see each other', async () => (await Promise.all([one, two].map(async (at) =>
    ((await ask(at, '/state')).json as { cluster: { liveNodes: number } }).cluster.liveNodes)))
    .every((live) => live === 2))
  await Promise.all([placeOn(two, VOICE), placeOn(two, 'test/ok')])
  await until('the voice to be known', async () =>
    (await ask(one, `/readyz?model=${encodeURIComponent(VOICE)}`)).status === 200)
  const speak = async (headers: Record<string, string> = {}): ReturnType<typeof ask> =>
    await ask(one, '/v1/audio/speech', { body: { model: VOICE, input: SENTENCE }, headers })

  t.equal((await speak()).status, 200)
  t.same(readdirSync(join(one.home, 'traces')), [], 'nothing while it is off')
  const on = await svc(['traces', 'on', '--url', two.url, '--token', two.token])
  t.equal(on.status, 0, on.stderr)
  await until('tracing on both', async () => await enabledAt(one) && await enabledAt(two))

  await t.test('speech: spans of both nodes and of the runner in one file', async (t) => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    const { headers, status } = await speak({ traceparent })
    t.equal(status, 200)
    const trace = await traceOf(one, headers)
    const at = (name: string): string | undefined => trace.traces.find((span) => span.name === name)?.nodeId
    for (const name of ['request', 'parse', 'admission', 'route', 'network', 'first bytes', 'write']) {
      t.equal(at(name), one.nodeId, `${name} here`)
    }
    for (const name of ['task', 'runner', 'prepare', 'synthesise', 'encode', 'chunk', 'send']) {
      t.equal(at(name), two.nodeId, `${name} there`)
    }
    inOrder(t, trace, [['request', 'network'], ['network', 'task'], ['task', 'runner'],
      ['runner', 'synthesise']])
    t.match(trace.traces.find(({ name }) => name === 'network')?.attrs,
      { node: 'two', clock_offset_us: Number, clock_uncertainty_us: Number })
    const file = await until('the file', () => readdirSync(join(one.home, 'traces'))
      .find((name) => name === `${trace.taskId}.json`))
    const text = readFileSync(join(one.home, 'traces', file), 'utf8')
    t.match(JSON.parse(text), { otherData: {
      traceId: '0af7651916cd43dd8448eb211c80319c', commandId: headers['x-svc-command-id'],
      clocks: [{ nodeId: two.nodeId, process: 'node' }, { nodeId: two.nodeId, process: 'runner' }]
    } })
    t.notMatch(text, 'Nobody')
    const { traceEvents } = JSON.parse(text) as { traceEvents: Event[] }
    const parentOf = (name: string): string | undefined => {
      const { parent } = traceEvents.find((event) => event.ph === 'X' && event.name === name)!
      return traceEvents.find(({ span }) => span !== undefined && span === parent)?.name
    }
    t.same(['request', 'network', 'task', 'runner', 'synthesise'].map(parentOf),
      [undefined, 'request', 'network', 'task', 'runner'], 'each has its parent, over nodes too')
    t.same(readdirSync(join(two.home, 'traces')), [], 'the other node keeps nothing of it')
  })

  await t.test('the trace of a capability at another node comes back, too', async (t) => {
    const { headers } = await streamed(two, TTS, does('test/ok', 'count', { chunks: 3 }), {})
    await traceOf(two, headers)
    const payload = { model: VOICE, text: SENTENCE }
    const { last, headers: said } = await streamed(one, TTS, payload, { extra: { target_node: two.nodeId } })
    t.equal(last?.header.kind, 'completed')
    t.notOk('trace' in (last?.header ?? {}), 'what nodes tell each other is not for clients')
    const trace = await traceOf(one, said)
    for (const [name, at] of [['network', one], ['task', two], ['synthesise', two]] as const) {
      t.equal(trace.traces.find((span) => span.name === name)?.nodeId, at.nodeId, name)
    }
  })

  await t.test('every node finds every trace, once', async (t) => {
    const everywhere = async (): Promise<Listed[]> => await Promise.all([one, two].map(async (at) =>
      (await ask(at, '/v1/traces/cluster')).json as Listed))
    // A trace is listed with size 0 until its file is written.
    const lists = await until('all of them to be written', async () => {
      const found = await everywhere()
      return found.every(({ traces }) => traces.every(({ fileSize }) => fileSize > 0)) && found
    })
    t.same(lists[0]!.traces, lists[1]!.traces)
    t.same(lists.map(({ failed }) => failed), [[], []])
    const ids = lists[0]!.traces.map(({ taskId }) => taskId)
    t.equal(new Set(ids).size, ids.length)
    const mine = lists[0]!.traces.find(({ modelId, sourceNodes }) =>
      modelId === VOICE && sourceNodes.includes(one.nodeId))!
    const seen = (await ask(two, `/v1/traces/cluster/${mine.commandId}`)).json as Shown
    t.match(seen, { taskId: mine.taskId, sourceNodes: [one.nodeId], failed: [] })
    const shown = await svc(['traces', mine.taskId, '--url', two.url, '--token', two.token])
    t.match(shown.stdout, /one +request +\+\d/)
    t.match(shown.stdout, /two +synthesise/)
  })

  await t.test('the switch survives its master', async (t) => {
    await one.kill()
    await until('another master', async () => {
      const { masterNodeId } = (await ask(two, '/state')).json as { masterNodeId: string | null }
      return masterNodeId === two.nodeId
    })
    t.ok(await enabledAt(two))
    hardKill(one.pid)
  })
})

interface Export { resourceSpans: { scopeSpans: { spans: Exported[] }[] }[] }
interface Exported { name: string, spanId: string, parentSpanId?: string }

t.test('a trace goes to the receiver named in the settings', async (t) => {
  const got: { url: string | undefined, key: unknown, body: Export }[] = []
  const receiver = createServer((request, response) => {
    void json(request).then((body) => {
      got.push({ url: request.url, key: request.headers['x-key'], body: body as Export })
      response.setHeader('content-type', 'application/json').end('{}')
    })
  })
  receiver.listen(0, '127.0.0.1')
  t.teardown(() => { receiver.closeAllConnections(); receiver.close() })
  await once(receiver, 'listening')
  const { port } = receiver.address() as AddressInfo
  const one = await startNode(t, { config: faultsConfig({
    tracing: { otlp_url: `http://127.0.0.1:${port}/v1/traces`, otlp_headers: { 'x-key': 'abc' } }
  }) })
  t.equal((await svc(['traces', 'on', '--url', one.url, '--token', one.token])).status, 0)
  await streamed(one, TTS, does('test/ok', 'count', { chunks: 3 }))
  const { url, key, body } = await until('the trace at the receiver', () => got[0])
  t.same([url, key], ['/v1/traces', 'abc'])
  const spans = body.resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))
  const parentOf = (span: Exported | undefined): Exported | undefined =>
    spans.find(({ spanId }) => spanId === span?.parentSpanId)
  const request = spans.find(({ parentSpanId }) => parentSpanId === undefined || parentSpanId === '')
  t.equal(request?.name, 'text_to_speech test/ok')
  const runner = spans.find(({ name }) => name === 'runner')
  t.equal(parentOf(runner), request, spans.map(({ name }) => name).join())

  await t.test('a change of the receiver is in effect without a restart of the node', async (t) => {
    const next = async (): Promise<unknown[]> => {
      const before = got.length
      await streamed(one, TTS, does('test/ok', 'count', { chunks: 3 }))
      const { url, key } = await until('the next trace at the receiver', () => got[before])
      return [url, key]
    }
    const set = async (key: string, value: string): Promise<void> => {
      const ran = await svc(['config', 'set', key, value, '--home', one.home])
      t.match(ran, { status: 0, stdout: /is set in .*svc\.yaml, and in effect\.\n$/ }, ran.stderr)
    }
    await set('tracing.otlp_url', `http://127.0.0.1:${port}`)
    t.same(await next(), ['/v1/traces', 'abc'])
    await set('tracing.otlp_headers', '{ x-key: def }')
    t.same(await next(), ['/v1/traces', 'def'])
    const file = join(one.home, 'svc.yaml')
    writeFileSync(file, readFileSync(file, 'utf8').replace('def', 'ghi'))
    t.equal((await svc(['plugin', 'enable', 'tracing', '--home', one.home])).status, 0)
    t.same(await next(), ['/v1/traces', 'ghi'])
    t.match((await ask(one, '/config')).json, { restart_needed: false })
    const other = await svc(['config', 'set', 'logging.level', 'warn', '--home', one.home])
    t.match(other.stdout, /takes effect at the next restart/, 'other settings need one')
  })
})
