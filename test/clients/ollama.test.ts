/** Ollama's client library and CLI, and Open WebUI, against Ollama's API at the root of a node. */
import t, { type Test } from 'tap'
import { Ollama } from 'ollama'
import { failure } from '../../plugins/chat/test/api-kit.js'
import { tinyModel } from '../../plugins/llama-cpp/test/gguf-kit.js'
import { startHub } from '../../plugins/staging/test/hub-kit.js'
import { dial } from '../node/http.js'
import { until } from '../node/kit.js'
import { recorder } from '../real/recorder.js'
import { MODEL, QUESTION, report, startClients, withoutClients } from './kit.js'

const TINY = 'acme/tiny'
const files = { 'tiny-F32.gguf': tinyModel() }

interface Place { host: string, token: string }

/** Starts a node with a stub hub. */
async function startOllama (t: Test): Promise<Place> {
  const hub = await startHub({ models: { [TINY]: { files } } })
  t.teardown(async () => { await hub.close() })
  const { url, token } = await startClients(t, {
    model_store: { store_path: 'store', hub: { url: hub.url, redirect_hosts: [hub.cdnHost] } }
  })
  return { host: url, token }
}

t.test('ollama 0.6.4: pull, load, ask, unload, remove', { skip: withoutClients }, async (t) => {
  const { host: at, token } = await startOllama(t)
  const { url: host, exchanges } = await recorder(t, { url: at })
  const client = new Ollama({ host, headers: { authorization: `Bearer ${token}` } })
  const statuses: string[] = []
  let far = 0
  const pulling = await client.pull({ model: `hf.co/${TINY}`, stream: true })
  for await (const { status, completed, total } of pulling) {
    statuses.push(status)
    if (total !== undefined) far = completed / total
  }
  t.equal(statuses[0], 'pulling manifest')
  t.equal(statuses.at(-1), 'success')
  t.ok(statuses.some((status) => /^pulling [0-9a-f]{12}$/.test(status)))
  t.equal(far, 1, 'progress up to the end')
  const listed = (await client.list()).models.find(({ name }) => name === `${TINY}:latest`)
  t.match(listed, { digest: /^[0-9a-f]{64}$/, size: Number, details: { family: 'llama' } })
  t.ok(Math.abs(Date.parse(String(listed?.modified_at)) - Date.now()) < 600_000, 'when it came')
  const running = async (): Promise<string[]> => (await client.ps()).models.map(({ name }) => name)
  t.notOk((await running()).includes(`${TINY}:latest`))
  const messages = [{ role: 'user', content: 'hi' }]
  const options = { num_predict: 2, num_ctx: 64 }
  const asked = { model: `${TINY}:latest`, messages, options, keep_alive: '10m' }
  const answer = await client.chat(asked)
  t.match(answer, { model: asked.model, done: true, done_reason: 'length', eval_count: 2 })
  t.ok(answer.load_duration > 0, 'it was loaded for the request')
  t.match((await client.ps()).models.find(({ name }) => name === asked.model), { context_length: 64 })
  t.match(await failure(client.chat({ ...asked, options: { num_ctx: 128 } })),
    { status_code: 400, error: /^options.num_ctx is 128, and acme\/tiny is loaded with a context of 64/ })
  await client.generate({ model: TINY, prompt: '', keep_alive: 0 })
  await until('it to be unloaded', async () => !(await running()).includes(asked.model))
  await client.delete({ model: TINY })
  const names = async (): Promise<string[]> => (await client.list()).models.map(({ name }) => name)
  await until('it to be gone', async () => !(await names()).includes(asked.model))
  t.match(await failure(client.show({ model: TINY })),
    { status_code: 404, error: `model '${TINY}' not found` })
  const unallowed = new Ollama({ host })
  t.match(await failure(unallowed.delete({ model: MODEL })), { status_code: 401, error: /cluster:write/ })
  report(t, {
    client: 'ollama (JavaScript)', packages: ['ollama'],
    set: "`host: 'URL'`",
    works: ['pull', 'list', 'ps', 'chat', 'generate', 'show', 'delete', 'load and unload']
  }, exchanges, [
    { path: '/api/chat', status: 400, sent: /"num_ctx":128/, got: /num_ctx is 128/,
      why: 'another `num_ctx` than that of the loaded model' },
    { path: '/api/show', status: 404, sent: /acme/, got: /not found/, why: 'no such model' },
    { path: '/api/delete', status: 401, sent: /guide/, got: /cluster:write/, why: 'no token' }
  ])
})

/** A request from the `ollama` CLI as Go serialises it: with all fields, including empty ones. */
type Sent = [method: string, path: string, body: object | null]

t.test('the requests of the program ollama, byte by byte', { skip: withoutClients }, async (t) => {
  const { host, token } = await startOllama(t)
  const port = Number(new URL(host).port)
  const ask = async ([method, path, body]: Sent): Promise<{ status: number, type: string, text: string }> => {
    const json = body === null ? '' : JSON.stringify(body)
    const accept = /chat|generate|pull/.test(path) ? 'application/x-ndjson' : 'application/json'
    const { socket, text, closed } = await dial(port)
    socket.write(`${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n` +
      'User-Agent: ollama/0.13.5 (amd64 linux) Go/go1.24.1\r\nConnection: close\r\n' +
      (body === null ? '' : `Content-Length: ${json.length}\r\n`) + `Accept: ${accept}\r\n` +
      `Authorization: Bearer ${token}\r\nContent-Type: application/json\r\n` +
      `Accept-Encoding: gzip\r\n\r\n${json}`)
    await closed
    const [head = '', ...rest] = text().split('\r\n\r\n')
    return {
      status: Number(/^HTTP\/1.1 (\d+)/.exec(head)?.[1]), type: /content-type: (.*)/i.exec(head)?.[1] ?? '',
      text: rest.join('\r\n\r\n')
    }
  }
  const generate = { model: MODEL, prompt: '', suffix: '', system: '', template: '', options: null }
  const rows: [what: string, Sent, status: number, answer: RegExp][] = [
    ['the heartbeat', ['HEAD', '/', null], 200, /^$/],
    ['ollama -v', ['GET', '/api/version', null], 200, /^\{"version":"/],
    ['ollama list', ['GET', '/api/tags', null], 200, /"name":"svc\/guide:latest"/],
    ['ollama ps', ['GET', '/api/ps', null], 200, /"expires_at":"/],
    ['ollama show', ['POST', '/api/show', { model: MODEL, system: '', template: '', verbose: false,
      options: null, name: '' }], 200, /"general.architecture":"llama"/],
    ['ollama run, which loads', ['POST', '/api/generate', generate], 200, /"done_reason":"load"/],
    ['ollama run, with a prompt', ['POST', '/api/generate', { ...generate, prompt: QUESTION, options: {} }],
      200, /"response":".*"done":true,"done_reason":"stop"/s],
    ['ollama run, a conversation', ['POST', '/api/chat', { model: MODEL,
      messages: [{ role: 'user', content: QUESTION }], options: {} }], 200, /"done":true/],
    ['ollama rm of what is not there', ['DELETE', '/api/delete', { model: 'copied', name: '' }],
      404, /^\{"error":"model 'copied' not found"/],
    ['ollama pull', ['POST', '/api/pull',
      { model: `hf.co/${TINY}`, username: '', password: '', name: '' }],
    200, /\{"status":"pulling manifest"\}.*\{"status":"success"\}/s],
    ['ollama pull of Ollama\'s library', ['POST', '/api/pull', { model: 'llama3.2', name: '' }],
      400, /^\{"error":"model /],
    ['ollama stop', ['POST', '/api/generate', { ...generate, keep_alive: 0 }],
      200, /"done_reason":"unload"/],
    ['ollama push', ['POST', '/api/push', { model: 'saved', name: '' }], 404, /^\{"error":"There is no/],
    ['ollama signin', ['POST', '/api/me', null], 404, /^\{"error":"/]
  ]
  for (const [what, sent, status, answer] of rows) {
    const { text, ...head } = await ask(sent)
    t.equal(head.status, status, `${what}: ${text.slice(0, 200)}`)
    t.match(text.replace(/(^|\r\n)[0-9a-f]+\r\n/g, '').replace(/\r\n$/, ''), answer, what)
  }
})

/** Repeats the requests of backend/open_webui/routers/ollama.py in open-webui/open-webui, by function. */
t.test('the requests of Open WebUI', { skip: withoutClients }, async (t) => {
  const { host, token } = await startOllama(t)
  const headers = {
    'content-type': 'application/json', authorization: `Bearer ${token}`,
    // Headers that Open WebUI sends with ENABLE_FORWARD_USER_INFO_HEADERS.
    'x-openwebui-user-name': 'A%20B', 'x-openwebui-user-id': '1', 'x-openwebui-user-role': 'admin',
    'x-openwebui-chat-id': 'c1'
  }
  const ask = async (method: string, path: string, body?: object): Promise<Response> =>
    await fetch(host + path, {
      method, headers, ...body === undefined ? {} : { body: JSON.stringify(body) }
    })
  const json = async (answer: Promise<Response>): Promise<object> => await (await answer).json() as object
  t.match(await json(ask('GET', '/api/version')), { version: String })
  const { models } = await json(ask('GET', '/api/tags')) as { models: { model: string }[] }
  const model = models.find((one) => one.model.startsWith(MODEL))!.model
  t.match(await json(ask('GET', '/api/ps')), { models: [{ name: model, expires_at: /T/ }] })
  t.match(await json(ask('POST', '/api/show', { name: model, model })), { capabilities: ['completion'] })
  const options = { temperature: 0, num_ctx: 512, num_predict: 30, repeat_last_n: 64, mirostat: 0, tfs_z: 1,
    num_batch: 512, num_thread: 2, num_gpu: 0, use_mmap: true, use_mlock: false, num_keep: 24, seed: 1 }
  const chat = await ask('POST', '/api/chat', { model, messages: [{ role: 'user', content: QUESTION }],
    options, stream: true, keep_alive: '5m', think: false })
  t.equal(chat.headers.get('content-type'), 'application/x-ndjson')
  const lines = (await chat.text()).trim().split('\n').map((line) => JSON.parse(line) as object)
  t.match(lines.at(-1), { done: true, model, eval_count: Number })
  t.match(await json(ask('POST', '/v1/chat/completions', { model: MODEL, stream: false,
    messages: [{ role: 'user', content: QUESTION }] })), { choices: [{ message: { content: /svc stop/ } }] })
  t.match(await json(ask('GET', '/v1/models')), { object: 'list' })
  t.match(await json(ask('POST', '/v1/completions', { model: MODEL, prompt: 'x', max_tokens: 2 })),
    { object: 'text_completion' })
  // Open WebUI's pull_model sends every field of its form, and `insecure`.
  const named = { name: `hf.co/${TINY}`, model: `hf.co/${TINY}` }
  const pulled = await ask('POST', '/api/pull', { ...named, insecure: true })
  const steps = (await pulled.text()).trim().split('\n').map((line) => JSON.parse(line) as object)
  t.match(steps.at(-1), { status: 'success' })
  t.ok(steps.some((step) => 'digest' in step && 'total' in step), 'progress that it can show')
  t.match(await json(ask('POST', '/api/chat', { model, messages: [{ role: 'user', content: 'x' }],
    options: { mirostat: 1 } })), { error: /^options.mirostat is not served/ })
  const unload = { model, keep_alive: 0, prompt: '' }
  t.match(await json(ask('POST', '/api/generate', { ...unload, stream: false })), { done_reason: 'unload' })
  t.match(await json(ask('POST', '/api/embed', { model, input: ['x'] })), { error: String })
  t.match(await json(ask('GET', '/api/nothing')), { error: String })
  t.equal(await (await ask('GET', '/ollama')).text(), 'Ollama is running')
})
