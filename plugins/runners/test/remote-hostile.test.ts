import t from 'tap'
import { chunkFrame, endFrame, TASK_TYPE } from '../routing/remote/frames.js'
import { caller, hear, pair, query, task, VOICE, type Pair, type Stand } from './remote-kit.js'

const never = new AbortController().signal

const OTHER_TASK = '00000000-0000-4000-8000-0000000000ff'

function body (nodes: Pair): Record<string, unknown> {
  const { instanceId, runnerId } = nodes.runner.options
  return { taskId: OTHER_TASK, commandId: 'C', modelId: VOICE, instanceId, runnerId, capability: 'tts', task }
}

t.test('only members may ask', async (t) => {
  const nodes = await pair(t)
  const answer = await nodes.rig.inject({ method: 'POST', url: '/runners/tasks', payload: body(nodes) })
  t.equal(answer.statusCode, 404)
  t.match(answer.json(), { error: { reason: 'not_found' } })
  const nobody = { ...caller, authorities: new Set<string>() }
  const powerless = await nodes.request({ body: body(nodes), caller: nobody })
  t.equal(powerless.status, 403)
  t.same(nodes.runner.opened, [])
})

const hostile: [string, Record<string, unknown> | string, number][] = [
  ['nothing', '', 400],
  ['text that is not JSON', '{"taskId":', 400],
  ['a list', '[]', 400],
  ['an unknown field', { more: 1 }, 400],
  ['no task', { task: undefined }, 400],
  ['a task that is a text', { task: 'x' }, 400],
  ['a payload that is a list', { task: { kind: 'tts', payload: [] } }, 400],
  ['a task with more in it', { task: { ...task, signal: {} } }, 400],
  ['a task id that is a path', { taskId: '../../../etc/passwd' }, 400],
  ['a task id of the prototype', { taskId: '__proto__' }, 400],
  ['a number for an id', { runnerId: 7 }, 400],
  ['an endless id', { commandId: 'x'.repeat(1000) }, 400],
  ['a key that reaches the prototype', '{"__proto__":{"x":1}}', 400],
  ['9 MiB', { task: { kind: 'tts', payload: { text: 'x'.repeat(9 * 1024 * 1024) } } }, 413]
]
t.test('a hostile body', async (t) => {
  const nodes = await pair(t)
  for (const [name, change, status] of hostile) {
    const sent = typeof change === 'string' ? change : { ...body(nodes), ...change }
    const answer = await nodes.request({ body: sent })
    answer.body.destroy()
    t.equal(answer.status, status, name)
  }
  t.same(nodes.runner.opened, [])
  t.same((await nodes.rig.state())['tasks'], {})
})

const misled: [string, Record<string, unknown>][] = [
  ['a runner that is not here', { runnerId: 'nobody' }],
  ['a runner of another instance', { instanceId: 'another' }],
  ['a runner of another model', { modelId: 'acme/x' }],
  ['a runner of the prototype', { runnerId: '__proto__' }]
]
t.test('a task for a runner that is not the one meant', async (t) => {
  const nodes = await pair(t)
  for (const [name, change] of misled) {
    const answer = await nodes.request({ body: { ...body(nodes), ...change } })
    t.equal(answer.headers['content-type'], TASK_TYPE)
    t.match(await text(answer.body), /"reason":"instance_lost"/, name)
  }
  t.same(nodes.runner.opened, [])
})

t.test('a task id that is taken', async (t) => {
  const nodes = await pair(t)
  const first = await nodes.request({ body: body(nodes) })
  t.match(await text(first.body), /chunk_index/)
  const second = await nodes.request({ body: body(nodes) })
  t.match(await text(second.body), /"reason":"invalid_request"/)
  t.equal(nodes.runner.opened.length, 1)
})

async function text (source: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = []
  for await (const part of source) parts.push(part)
  return Buffer.concat(parts).toString()
}

const json = (status: number, body: unknown): Stand => (_request, response) => {
  response.writeHead(status, { 'content-type': 'application/json', 'retry-after': '9' })
  response.end(JSON.stringify(body))
}
const bytes = (...all: Uint8Array[]): Stand => (_request, response) => {
  response.writeHead(200, { 'content-type': TASK_TYPE })
  for (const part of all) response.write(part)
  response.end()
}
const chunk = chunkFrame(0, { payload: {} })[0]!

const answers: [string, Stand, object][] = [
  ['nonsense', bytes(Buffer.from('<html>nonsense</html>')), { reason: 'instance_lost', retryable: true }],
  ['nothing', bytes(), { reason: 'instance_lost', retryable: true }],
  ['no terminal', bytes(chunk), { reason: 'instance_lost', retryable: true }],
  ['a gap', bytes(chunk, chunkFrame(2, { payload: {} })[0]!, ...endFrame()), { reason: 'instance_lost' }],
  ['a cut body', (_request, response) => {
    response.writeHead(200, { 'content-length': '1000' })
    response.write(chunk)
    setImmediate(() => { response.destroy() })
  }, { reason: 'instance_lost' }],
  ['a page of another server', json(502, '<html>'), { reason: 'instance_lost', message: /502/ }],
  ['an endless refusal', json(500, 'x'.repeat(200_000)), { reason: 'instance_lost' }],
  ['a refusal with a reason of no word', json(400, { error: { reason: 'A b', message: 'x' } }),
    { reason: 'instance_lost' }],
  ['that it has no such route', json(404, { error: { reason: 'not_found', message: 'x', details: {} } }),
    { reason: 'instance_lost' }],
  ['that it is stopping', json(503, { error: { reason: 'shutting_down', message: 'x', details: {} } }),
    { reason: 'instance_lost' }],
  ['that too much is open', json(429, { error: { reason: 'overloaded', message: 'x', details: { a: 1 } } }),
    { reason: 'overloaded', status: 429, retryAfterSeconds: 9, details: { a: 1, node: String } }]
]
t.test('a node that answers anything else', async (t) => {
  const { asker, stand } = await pair(t)
  for (const [name, answer, thrown] of answers) {
    stand.is = answer
    t.match((await hear(asker.open(await asker.route(query), task, never))).error, thrown, name)
  }
})
