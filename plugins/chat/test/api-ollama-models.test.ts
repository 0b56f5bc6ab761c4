/** Ollama's model names, and `keep_alive`. */
import t from 'tap'
import { systemClock, type ModelCard, type RouteRequest } from '../../../kernel/index.js'
import { keepAliveSeconds, loadFor, loadOnly } from '../api/ollama/load.js'
import { ollamaDelete } from '../api/ollama/manage.js'
import { ollamaShow, ollamaTags } from '../api/ollama/models.js'
import { running, unload } from '../api/swapping.js'
import { canonical, parsePullSource } from '../api/ollama/names.js'
import { card as plainCard, MODEL, namesField, startChat } from './api-kit.js'
import type { ApiParts } from '../api/types.js'

t.test('how long a model is to stay', (t) => {
  const rows: [string | number | null | undefined, number | null][] = [
    [undefined, 300], [null, 300], ['', 300], [0, 0], ['0', 0], ['0s', 0], [-1, null], ['-1', null],
    ['-1m', null], [90, 90], ['90', 90], ['5m', 300], ['1h30m', 5400], ['1.5h', 5400], ['250ms', 1],
    ['8760h', null]
  ]
  for (const [given, seconds] of rows) t.equal(keepAliveSeconds(given), seconds, String(given))
  for (const wrong of ['soon', '5 m', 'm', '5x']) namesField(t, () => keepAliveSeconds(wrong), 'keep_alive')
  t.end()
})

t.test('names', (t) => {
  const cards: Record<string, object> = { 'acme/writer': { quantization: 'Q4_K_M' }, 'acme/odd:v2': {} }
  const parts = {
    aliases: { small: 'acme/writer' }, runners: { card: (id: string) => cards[id] }
  } as unknown as ApiParts
  const rows: [string, string][] = [
    ['acme/writer', 'acme/writer'], ['acme/writer:latest', 'acme/writer'], ['small:latest', 'small'],
    ['acme/writer:q4_k_m', 'acme/writer'],
    ['hf.co/acme/writer:Q4_K_M', 'acme/writer'], ['acme/writer:Q8_0', 'acme/writer:Q8_0'],
    ['acme/odd:v2', 'acme/odd:v2'], ['none:latest', 'none'], ['none', 'none']
  ]
  for (const [given, name] of rows) t.equal(canonical(parts, given), name, given)
  t.same(parsePullSource('hf.co/acme/x:Q4_K_M'), { modelId: 'acme/x', variant: 'Q4_K_M' })
  t.same(parsePullSource('https://huggingface.co/acme/x:latest'), { modelId: 'acme/x' })
  for (const name of ['llama3.2', 'llama3.2:1b', 'a/b/c']) namesField(t, () => parsePullSource(name), 'model')
  t.end()
})

t.test('what there is', async (t) => {
  const { rig, post } = await startChat(t, { config: { model_aliases: { small: MODEL } } })
  const get = async (path: string) => (await rig.inject({ url: `/ollama/api/${path}` })).json() as object
  const details = { format: 'onnx', family: 'llama', parameter_size: '' }
  const name = `${MODEL}:latest`
  const model = { name, model: name, size: 1234, digest: /^[0-9a-f]{64}$/, details }
  t.match(await get('tags'), { models: [model] })
  t.match(await get('ps'), { models: [{ ...model, expires_at: String }] })
  t.same(await get('version'), { version: '0.0.0' })
  const shown = { details: { quantization_level: 'q4' }, capabilities: ['completion', 'tools'],
    model_info: { 'general.architecture': 'llama', 'llama.context_length': 128 } }
  t.match((await post('/ollama/api/show', { model: 'small' })).json(), shown)
  t.match((await post('/ollama/api/show', { name })).json(), shown)
  t.equal((await post('/ollama/api/show', { model: 'acme/none' })).statusCode, 404)
  t.equal((await post('/ollama/api/show', {})).statusCode, 400)
})

t.test('what LM Studio and llama-swap list, and unloading', async (t) => {
  const { rig, post, asked } = await startChat(t)
  t.match((await rig.inject({ url: '/api/v0/models' })).json(), { object: 'list', data: [{
    id: MODEL, object: 'model', type: 'llm', state: 'loaded', max_context_length: 128, quantization: 'q4'
  }] })
  const ring = (modelId: string, more: object, instanceId = `i-${modelId}`): object =>
    ({ RingInstance: { instanceId, shardAssignments: { modelId }, ...more } })
  const placement = { ttlSeconds: 5 }
  const deleted: string[] = []
  const parts = {
    runners: { models: () => [{ card: plainCard, ready: true }] },
    instances: { placed: () => ({ instances: {
      a: ring(MODEL, { placement }), b: ring('acme/b', { drainUntil: '' }), c: ring('acme/c', {}),
      pinned: ring(MODEL, {}, 'pinned'), gone: ring('acme/gone', { placement }, 'gone')
    } }) },
    own: { ask: async ({ path }: { path: string }) => {
      deleted.push(path)
      if (!path.includes('gone')) return { status: 200, text: '{}' }
      const error = { code: 404, reason: 'instance_not_found', message: 'gone' }
      return { status: 404, text: JSON.stringify({ error }) }
    } }
  } as unknown as ApiParts
  t.strictSame(running(parts), { running: [
    { model: MODEL, state: 'ready' }, { model: 'acme/b', state: 'stopping' },
    { model: 'acme/c', state: 'starting' }, { model: MODEL, state: 'ready' },
    { model: 'acme/gone', state: 'starting' }
  ] })
  t.strictSame(await unload(parts, {} as RouteRequest), { unloaded: [MODEL] })
  t.strictSame(deleted, [`/instance/i-${MODEL}?unload=true`, '/instance/gone?unload=true'],
    'what has no time to live stays')
  const messages = [{ role: 'user', content: 'hi' }]
  for (const ttl of [90, null]) {
    t.equal((await post('/v1/chat/completions', { model: MODEL, messages, ttl })).statusCode, 200)
    t.equal((await post('/v1/completions', { model: MODEL, prompt: 'hi', ttl })).statusCode, 200)
  }
  t.equal((await post('/v1/chat/completions', { model: MODEL, messages, ttl: 0 })).statusCode, 400)
  t.strictSame(asked.ttls, [90, 90, undefined, undefined])
})

t.test('deleting a model that is loaded', async (t) => {
  const alive = setInterval(() => undefined, 1000)
  t.teardown(() => { clearInterval(alive) })
  const card: ModelCard = { ...plainCard }
  const asked: string[] = []
  let [loaded, used] = [true, 2]
  const parts = {
    aliases: { small: MODEL }, clock: systemClock, startedMs: 0,
    runners: {
      card: (id: string) => id === MODEL ? card : undefined,
      models: (task: string) => card.tasks.includes(task) ? [{ card, ready: true }] : []
    },
    instances: { placed: () => ({ instances: loaded
      ? { i1: { RingInstance: { instanceId: 'i1', shardAssignments: { modelId: MODEL } } } } : {} }) },
    own: {
      ask: async ({ method, path, body }: { method: string, path: string, body?: { dryRun: boolean } }) => {
        asked.push(`${method} ${path}${body === undefined ? '' : ` ${body.dryRun}`}`)
        if (path.startsWith('/instance')) loaded = false
        const skippedInUse = body?.dryRun === true && used-- > 1 ? [MODEL] : []
        return { status: 200, text: JSON.stringify({ nodes: [{ skippedInUse }] }) }
      }
    }
  } as unknown as ApiParts
  const ask = (body: object) =>
    ({ body, caller: {}, signal: new AbortController().signal }) as unknown as RouteRequest<never>
  const remove = async (model: string): Promise<object> => await ollamaDelete(parts, ask({ model }))
  for (const [parameters, size] of [[134_515_008, '135M'], [8_030_261_312, '8.03B'], [999_600_000, '1B'],
    [260_096, '260K'], [12, '12']] as const) {
    card.parameters = parameters
    t.match(await ollamaTags(parts, ask({})), { models: [{ details: { parameter_size: size } }] })
  }
  t.match(await ollamaShow(parts, ask({ model: MODEL })), { model_info: { 'general.parameter_count': 12 } })
  await t.rejects(remove('small'), { message: /is an alias in the settings/ })
  await t.rejects(remove('acme/none'), { message: /not found/ })
  t.same(asked, [])
  await remove(MODEL)
  t.same(asked, [`DELETE /store/models/${MODEL}`, 'DELETE /instance/i1?unload=true',
    'POST /store/purge-staging true', 'POST /store/purge-staging true', 'POST /store/purge-staging false'])
})

t.test('a request waits for a model that starts, but not for one that was given up', async (t) => {
  const alive = setInterval(() => undefined, 1000)
  t.teardown(() => { clearInterval(alive) })
  const placed = { instances: {
    i1: { RingInstance: { instanceId: 'i1', shardAssignments: { modelId: MODEL } } },
    i2: { RingInstance: { instanceId: 'i2', shardAssignments: { modelId: MODEL } } }
  }, failures: [{ instanceId: 'i1', errorMessage: 'its template is broken' }] }
  let polls = 0
  const parts = {
    aliases: {}, clock: systemClock, loading: new Map(),
    runners: {
      card: () => plainCard,
      models: () => [{ card: plainCard, ready: ++polls > 5 && placed.failures.length < 2 }]
    },
    instances: { placed: () => placed }
  } as unknown as ApiParts
  const caller = { authorities: new Set(['cluster:write']) }
  const request = { caller, signal: new AbortController().signal }
  const load = async (): Promise<number> =>
    await loadFor(parts, request as unknown as RouteRequest<never>, { model: MODEL }, ['chat'])
  t.ok(await load() > 0, 'one instance may still start')
  placed.failures.push({ instanceId: 'i2', errorMessage: 'its template is broken' })
  const error = { reason: 'no_instance', status: 503, message: /cannot start: its template is broken/ }
  await t.rejects(load(), error)
  const reader = { ...request, caller: { authorities: new Set() }, body: { model: MODEL } }
  placed.instances = {} as never
  await t.rejects(loadOnly(parts, reader as unknown as RouteRequest<never>, { model: MODEL }, ['chat'], {}),
    { reason: 'no_instance', message: /only with the authority cluster:write$/ })
})

t.test('a model of another task is refused before it is loaded, with what it does', async (t) => {
  const [voice, encoder] = [['acme/voice', 'tts'], ['acme/encoder', 'embeddings']].map(([modelId, task]) =>
    ({ ...plainCard, modelId, tasks: [task] }) as ModelCard)
  const { rig, post } = await startChat(t, { cards: [voice!, encoder!] })
  const messages = [{ role: 'user', content: 'Hi' }]
  const noVectors = /^"acme\/writer" does not support embeddings, only chat and completions$/
  const rows: [string, object, RegExp][] = [
    ['chat', { model: 'acme/voice' }, /^"acme\/voice" does not support chat, only tts$/],
    ['chat', { model: 'acme/voice', messages: [] }, /acme\/voice.* tts/],
    ['chat', { model: 'acme/voice:latest', messages }, /acme\/voice.* tts/],
    ['generate', { model: 'acme/encoder' }, /acme\/encoder.* embeddings/],
    ['generate', { model: 'acme/voice', prompt: 'Hi' }, /acme\/voice.* tts/],
    ['embed', { model: MODEL }, noVectors],
    ['embed', { model: MODEL, input: 'x' }, noVectors],
    ['embeddings', { model: MODEL }, noVectors],
    ['embeddings', { model: MODEL, input: 'x' }, /^input .*prompt/],
    ['embeddings', { model: 'acme/encoder', input: ['x'] }, /^input .*prompt/],
    ['embed', { model: 'acme/encoder', prompt: 'x' }, /^prompt .*input/]
  ]
  for (const [route, body, message] of rows) {
    const answer = await post(`/ollama/api/${route}`, body)
    t.equal(answer.statusCode, 400, `${route} ${JSON.stringify(body)}: ${answer.body}`)
    const { error, reason } = answer.json<{ error: string, reason: string }>()
    t.match(error, message)
    t.equal(reason, /does not support/.test(error) ? 'wrong_task' : 'invalid_request')
  }
  const unloads = await post('/ollama/api/generate', { model: 'acme/encoder', keep_alive: 0 })
  t.match(unloads.json(), { done_reason: 'unload' }, 'what another program has loaded may go')
  t.match((await post('/ollama/api/embeddings', { model: 'acme/encoder' })).json(), { embedding: [] })
  await rig.stop()
})
