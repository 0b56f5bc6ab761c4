import t from 'tap'
import { kernelError, SvcError } from '../../../kernel/api/errors.js'
import { ask, bench, caller, errorOf, eventually, gate, NODE, piece, probe } from './kit.js'
import { at, callsOf, GONE, OTHER, pair } from './remote-kit.js'
import type { CallRequest } from '../routes.js'
import type { Request, Source, View } from './kit.js'

const counts: Source = async function * ({ n = 0 }) { for (let i = 0; i < n; i++) yield piece(i, 1000) }
const sum = (n = 0): object => ({ sum: n })
/** The error for a refused request; this node throws it, other nodes send it as a response. */
const refusal = async (request: Request): Promise<object> =>
  await request.answer.then((answer) => errorOf(request, answer), (error: SvcError) => error)

t.test('the listing of another node', async (t) => {
  const nodes = await pair(t)
  probe(nodes.here, 'unary', () => sum())
  probe(nodes.there, 'server_streaming', counts, { media_type: 'audio/mpeg' })
  const list = async (nodeId?: string): Promise<unknown> =>
    (await ask(nodes.here, 'list', undefined, nodeId === undefined ? {} : { query: { node_id: nodeId } })
      .answer)!.body
  const own = nodes.here.capabilities.registry.list()
  for (const ref of [undefined, 'local', NODE.nodeId, NODE.installId, 'alpha']) t.equal(await list(ref), own)
  const theirs = JSON.stringify(nodes.there.capabilities.registry.list())
  for (const ref of [OTHER.nodeId, OTHER.installId, 'beta']) t.equal(JSON.stringify(await list(ref)), theirs)
  const check = async (ref: string, status: number, reason: string, words: RegExp): Promise<void> => {
    const request = ask(nodes.here, 'list', undefined, { query: { node_id: ref } })
    t.match(await refusal(request), { status, reason, message: words })
  }
  await check('nobody', 404, 'node_not_found', /nobody/)
  nodes.names.splice(1, 2, 'twin', 'twin')
  await check('twin', 404, 'node_not_found',
    new RegExp(`2 nodes have the name "twin": use the id of one, ${OTHER.nodeId} or ${GONE.nodeId}\\.`))
  nodes.names.splice(1, 2, 'beta', 'gamma')
  await check(GONE.nodeId, 502, 'unreachable', /gamma \(node-3\) is a member/)
  nodes.stand.is = (_request, response) => { response.end('[]') }
  await check(OTHER.nodeId, 502, 'unreachable', /invalid listing/)
  nodes.stand.is = (_request, response) => { response.writeHead(500).end('oh') }
  await check(OTHER.nodeId, 502, 'unreachable', /status 500/)
  nodes.stand.is = (request) => { request.socket.destroy() }
  await check(OTHER.nodeId, 502, 'unreachable', /did not answer/)
  nodes.stand.is = (_request, response) => { response.writeHead(200, { 'content-length': 9 }).write('{') }
  const slow = ask(nodes.here, 'list', undefined, { query: { node_id: OTHER.nodeId } })
  await eventually(() => nodes.passed.length === 7, 'the request')
  await nodes.here.clock.advance(5000)
  t.match(errorOf(slow, await slow.answer), { status: 502, reason: 'unreachable', message: /within 5 s/ })
})

t.test('a unary call', async (t) => {
  const nodes = await pair(t)
  const seen: View[] = []
  const body = probe(nodes.there, 'unary', (input: { n?: number }, call: View) => {
    seen.push(call)
    call.setHeader('x-svc-task-id', 'task-7')
    return sum(input.n)
  })
  const who = caller('ann', 'cluster:write')
  const answer = await ask(nodes.here, 'call', at(body, { call_id: 'mine', payload: { n: 4 } }),
    { caller: who, headers: { 'content-length': '300' } }).answer
  t.same([answer!.status, answer!.body], [200, { call_id: 'mine', ok: true, result: { sum: 4 } }])
  t.equal(answer!.headers['x-svc-task-id'], 'task-7')
  t.equal(answer!.headers['x-svc-command-id'], seen[0]!.commandId, 'one command id on both nodes')
  t.same([seen[0]!.caller.id, [...seen[0]!.caller.authorities].sort()],
    ['ann', ['cluster:write', 'invoke', 'read']])
  const { payload, target_node: target, call_id: callId, timeout_seconds: seconds } = callsOf(nodes)[0]!.body
  t.same([payload, target, callId, seconds], [{ n: 4 }, OTHER.installId, seen[0]!.commandId, 30])
  t.equal(seen[0]!.pinned, true, 'the node that was named knows that it was')
  t.match(nodes.here.outcomes,
    [{ callId: 'mine', kind: 'completed', commandId: seen[0]!.commandId, taskId: 'task-7' }])
  t.match(nodes.there.outcomes, [{ kind: 'completed', commandId: seen[0]!.commandId }])
  t.equal(nodes.here.capabilities.invoker.calls.size, 0)

  const own = probe(nodes.here, 'unary', () => sum())
  const id = '00000000-1111-4222-8333-444444444444'
  const local = await ask(nodes.here, 'call', own, { headers: { 'x-svc-command-id': id } }).answer
  t.not(local!.headers['x-svc-command-id'], id, 'only a member may say the command id')
  const member = { member: OTHER.installId }
  for (const [given, same] of [[id, true], ['odd', false]] as const) {
    const headers = { 'x-svc-command-id': given }
    const passed = await ask(nodes.here, 'call', own, { headers, ...member }).answer
    t.equal(passed!.headers['x-svc-command-id'] === given, same)
  }
})

t.test('every framing', async (t) => {
  const nodes = await pair(t)
  const body = probe(nodes.there, 'server_streaming', async function * (input: { n?: number }, call: View) {
    call.setHeader('x-svc-task-id', 'task-8')
    for (let i = 0; i < (input.n ?? 0); i++) yield piece(i, 1000)
  }, { media_type: 'audio/mpeg' })
  const check = async (accept: string): Promise<void> => {
    const payload = { call_id: 'same', payload: { n: 3 } }
    const remote = ask(nodes.here, 'stream', at(body, payload), { accept })
    const direct = ask(nodes.there, 'stream', { ...body, ...payload }, { accept })
    await Promise.all([remote.answer, direct.answer])
    const ids = (text: string, id: string | undefined): string => text.replaceAll(id ?? '?', 'ID')
    t.same([remote.reader.status, remote.reader.contentType, remote.reader.ended], [200, accept, true])
    t.equal(ids(remote.reader.text, remote.reader.headers['x-svc-command-id']),
      ids(direct.reader.text, direct.reader.headers['x-svc-command-id']), accept)
    t.equal(remote.reader.headers['x-svc-task-id'], 'task-8')
    t.ok(remote.reader.bytes > 0)
  }
  for (const accept of ['application/vnd.svc.frames', 'text/event-stream', 'audio/mpeg']) await check(accept)
  const refused = ask(nodes.here, 'stream', at(body), { accept: 'video/mp4' })
  t.match(errorOf(refused, await refused.answer), { status: 400, param: 'accept' })
  t.equal(nodes.sockets.size, 1, 'one connection served them all')
})

t.test('the other node decides', async (t) => {
  const nodes = await pair(t, { there: { limits: { concurrency: 1, queue: 0 } } })
  const unary = probe(nodes.there, 'unary', (input: { n?: number }) => {
    if (input.n === 1) throw new Error('secret')
    if (input.n === 2) throw kernelError('no_instance', 'No voice.', { model: 'm', hint: ['a'] })
    throw new SvcError('voice_odd', { status: 418, retryable: true, message: 'Odd.', remedy: 'Sing.' })
  })
  const stream = probe(nodes.there, 'server_streaming', counts)
  const bidi = probe(nodes.there, 'bidirectional', counts)
  const upload = probe(nodes.there, 'client_streaming', () => sum())
  const check = async (
    route: 'call' | 'stream', body: object, fields: object, headers: Record<string, string> = {}
  ): Promise<void> => {
    const request = ask(nodes.here, route, body, { headers })
    const answer = await request.answer
    t.match(errorOf(request, answer), fields)
    t.match((answer?.headers ?? request.reader.headers)['x-svc-command-id'], /^.{36}$/)
  }
  for (const [route, body] of [['call', unary], ['stream', stream]] as const) {
    await check(route, at(body, { capability_id: 'nothing' }),
      { status: 404, reason: 'capability_not_found', message: /nothing/ })
    await check(route, at(body, { version: '9.0.0' }),
      { status: 409, reason: 'version_mismatch', details: { versions: ['1.0.0'] } })
    await check(route, at(body, { descriptor_revision: 'old' }),
      { status: 409, reason: 'revision_mismatch', details: { revision: body['descriptor_revision'] } })
    await check(route, at(body, { payload: { n: -1 } }),
      { status: 400, reason: 'invalid_payload', param: 'n' })
    await check(route, at(body, { payload: { x: 'x'.repeat(1024 * 1024) } }),
      { status: 413, reason: 'payload_too_large' })
    // The original request is within the limit; the forwarded one is slightly longer but must be accepted.
    await check(route, at(body, { payload: { x: 'x'.repeat(1024 * 1024 - 150) } }),
      { status: 400, reason: 'invalid_payload' }, { 'content-length': String(1024 * 1024) })
  }
  await check('stream', at(unary), { status: 400, reason: 'invalid_request', details: { io_mode: 'unary' } })
  await check('call', at(stream), { status: 400, details: { io_mode: 'server_streaming' } })
  for (const body of [bidi, upload]) {
    await check('stream', at(body), { status: 400, reason: 'invalid_request', param: 'capability_id',
      details: { route: '/v1/capabilities/session' } })
  }
  await check('call', at(unary, { payload: { n: 1 } }),
    { status: 502, reason: 'provider_error', message: /log has the cause/ })
  await check('call', at(unary, { payload: { n: 2 } }),
    { status: 404, reason: 'no_instance', message: 'No voice.',
      details: { model: 'm', hint: ['a'], node: 'beta' } })
  await check('call', at(unary, { payload: { n: 3 } }),
    { status: 418, reason: 'voice_odd', retryable: true, details: { remedy: 'Sing.' } })
  await check('call', at(unary, { target_node: 'nobody' }),
    { status: 404, reason: 'node_not_found', param: 'target_node' })
  await check('call', at(unary, { target_node: 'gamma' }), { status: 502, reason: 'unreachable' })
  t.ok(nodes.here.outcomes.every((o) => o.kind === 'failed' && o.passedOn))
  t.ok(nodes.there.outcomes.every((o) => !o.passedOn))
  nodes.stand.call = (_request, response) => {
    response.writeHead(502)
      .end('{"error":{"reason":"unreachable","message":"x","code":502,"details":{"begun":false}}}')
  }
  await check('call', at(unary), { status: 502, reason: 'unreachable' })
  t.equal(nodes.here.outcomes.at(-1)!.passedOn, false, 'nobody began with it')
  nodes.stand.call = null

  const { opened, open } = gate()
  const held = probe(nodes.there, 'unary', async () => { await opened; return sum() }, { id: 'held' })
  const first = ask(nodes.here, 'call', at(held))
  await eventually(() => nodes.there.capabilities.invoker.calls.size === 1, 'the first call')
  const second = ask(nodes.here, 'call', at(held))
  const refusal = await second.answer
  t.match(errorOf(second, refusal), { status: 429, reason: 'overloaded', message: /held@1\.0\.0/ })
  t.equal(refusal!.headers['retry-after'], '1')
  open()
  t.equal((await first.answer)!.status, 200)
})

t.test('at most 64 calls to one node at once', async (t) => {
  const nodes = await pair(t,
    { there: { limits: { concurrency: 100 } }, here: { limits: { concurrency: 1 } } })
  const { opened, open } = gate()
  const body = probe(nodes.there, 'unary', async () => { await opened; return sum() })
  const calls = Array.from({ length: 64 }, () => ask(nodes.here, 'call', at(body)))
  await eventually(() => nodes.there.capabilities.invoker.calls.size === 64, '64 calls')
  const more = ask(nodes.here, 'call', at(body))
  t.match(errorOf(more, await more.answer),
    { status: 429, reason: 'overloaded', message: /to node beta .* has 64 calls running/,
      details: { running: 64, retryAfterSeconds: 1 } })
  open()
  for (const { answer } of calls) t.equal((await answer)!.status, 200)
  t.equal((await ask(nodes.here, 'call', at(body)).answer)!.status, 200)
})

t.test('a node that serves the capability is found', async (t) => {
  const where: { is: string | null } = { is: OTHER.installId }
  const asked: string[] = []
  const elsewhere = (id: string): string | null => { asked.push(id); return where.is }
  const nodes = await pair(t, {
    here: { elsewhere }, there: { elsewhere: () => NODE.installId }
  })
  const body = probe(nodes.there, 'unary', () => sum(2))
  const result = async (more = {}): Promise<unknown> => {
    const request = ask(nodes.here, 'call', { ...body, ...more })
    const answer = await request.answer
    if (answer!.status !== 200) return errorOf(request, answer).reason
    return (answer!.body as { result: unknown }).result
  }
  t.same(await result(), { sum: 2 }, 'not registered here')
  t.same(await result({ target_node: null }), { sum: 2 })
  for (const place of [null, NODE.installId, GONE.installId, 'unknown']) {
    where.is = place
    t.same(await result(), 'capability_not_found', String(place))
  }
  t.same(new Set(asked), new Set([body['capability_id']]))
  where.is = OTHER.installId
  probe(nodes.here, 'unary', () => sum(1))
  asked.length = 0
  t.same(await result(), { sum: 1 }, 'what a plugin here serves finds its own way')
  t.same(await result({ target_node: OTHER.nodeId }), { sum: 2 }, 'a named node is meant')
  t.same(asked, [])

  t.test('and what a member passed on goes nowhere else', async (t) => {
    where.is = OTHER.installId
    const only = probe(nodes.here, 'unary', () => sum(), { id: 'only-here' })
    const back = ask(nodes.here, 'call', { ...only, capability_id: 'nowhere' })
    t.match(errorOf(back, await back.answer), { status: 404, reason: 'capability_not_found' })
    const posts = callsOf(nodes).length
    const member = { caller: caller(), requestId: 'r', signal: new AbortController().signal, viaMember: true }
    const { invoker } = nodes.there.capabilities
    const call = async (wanted: CallRequest): Promise<unknown> =>
      await invoker.unary(wanted, member, () => {})
    const request = only as unknown as CallRequest
    await t.rejects(call(request), { reason: 'capability_not_found' } as unknown as Error)
    await t.rejects(call({ ...request, target_node: NODE.nodeId }),
      { reason: 'node_not_found' } as unknown as Error)
    await t.rejects(call({ ...request, target_node: 'beta' }),
      { reason: 'capability_not_found' } as unknown as Error)
    t.equal(callsOf(nodes).length, posts)
    const listing = ask(nodes.there, 'list', undefined,
      { query: { node_id: NODE.nodeId }, member: NODE.installId })
    t.match(await refusal(listing), { status: 404, reason: 'node_not_found' })
  })
})

t.test('without a cluster', async (t) => {
  const alone = bench({ elsewhere: () => OTHER.installId })
  const body = probe(alone, 'unary', () => sum(1))
  t.equal((await ask(alone, 'call', body).answer)!.status, 200)
  const request = ask(alone, 'call', at(body))
  t.match(errorOf(request, await request.answer), { status: 404, reason: 'node_not_found' })
})
