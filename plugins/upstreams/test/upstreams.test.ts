import t from 'tap'
import { bodyFor } from '../server.js'
import { ask, END, event, fakeServer, HELLO, say, start, until } from './kit.js'

const NODE = '00000000-0000-4000-8000-000000000000'
const KEY = 'sk-very-secret-0123456789'

t.test('a chat passes to the server and back', async (t) => {
  const fake = await fakeServer(t)
  const rig = await start(t, { servers: {
    up: { url: fake.url, key: KEY, headers: { 'X-Title': 'svc' }, models: ['m'] }
  } })
  const whole = await ask(rig, 'up/m', {
    max_completion_tokens: 9, temperature: 0, top_k: 3, reasoning_effort: 'low', seed: 4,
    response_format: { type: 'json_schema', json_schema: { schema: { type: 'object' } } },
    tools: [{ type: 'function', function: { name: 'f' } }], tool_choice: 'auto',
    draft_model: '/etc/passwd', kv_transfer_params: {}, chat_template: 'x', adapters: ['y'],
    top_a: 0.2, extra_body: { models: ['dear'], best_of: 100, n: 9, parallel_tool_calls: 5,
      max_output_tokens: 9e5, user_tag: 'u' }
  })
  t.equal(whole.statusCode, 200, whole.body)
  t.match(whole.json(), {
    model: 'up/m', choices: [{ message: { content: 'Hello' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 7, completion_tokens: 2 }
  })
  const [{ url, headers, body }] = fake.asked as [typeof fake.asked[number]]
  t.equal(url, '/v1/chat/completions')
  t.match(headers, {
    'authorization': `Bearer ${KEY}`, 'x-title': 'svc', 'x-svc-hops': NODE
  })
  t.match(body, {
    model: 'm', stream: true, stream_options: { include_usage: true }, max_tokens: 9, temperature: 0,
    top_a: 0.2, user_tag: 'u', top_k: 3, reasoning_effort: 'low', seed: 4,
    response_format: { json_schema: { name: 'answer' } },
    tools: [{ function: { name: 'f' } }]
  })
  const never = ['draft_model', 'kv_transfer_params', 'chat_template', 'adapters', 'models',
    'best_of', 'n', 'parallel_tool_calls',
    'max_output_tokens', 'extra_body']
  for (const name of never) {
    t.notOk(name in body, name)
  }
  const stream = await ask(rig, 'up/m', { stream: true, stream_options: { include_usage: true } })
  t.match(stream.body, /"content":"Hel".*\n\n.*"content":"lo"[^]*"prompt_tokens":7[^]*\[DONE\]/)
  const two = await ask(rig, 'up/m', { n: 2 })
  t.match(two.json(), { choices: [{ index: 0 }, { index: 1 }], usage: { completion_tokens: 4 } })
})

t.test('tool calls', async (t) => {
  const call = (part: object) => event({ tool_calls: [{ index: 0, ...part }] })
  const fake = await fakeServer(t, say(
    call({ id: 'c1', type: 'function', function: { name: 'f', arguments: '{"a"' } }) +
    call({ function: { arguments: ':1}' } }) + event({}, { finish_reason: 'tool_calls' }) + 'data: [DONE]\n\n'
  ))
  const rig = await start(t, { servers: { up: fake.url } })
  await until(async () => (await ask(rig, 'up/m')).statusCode === 200)
  const message = { tool_calls: [{ id: 'c1', function: { name: 'f', arguments: '{"a":1}' } }] }
  t.match((await ask(rig, 'up/m')).json(), { choices: [{ finish_reason: 'tool_calls', message }] })
})

t.test('failures', async (t) => {
  const fake = await fakeServer(t)
  const rig = await start(t, { servers: {
    up: { url: fake.url, key: KEY, models: ['m'], timeout_seconds: 1,
      headers: { 'api-key': 'x-hidden-header-9' } }
  } })
  const error = (message: string, more = {}): string => JSON.stringify({ error: { message, ...more } })
  const rows: [string, ReturnType<typeof say>, object][] = [
    ['a refused key', say(error(`bad key ${KEY}`), { status: 401 }),
      { status: 502, reason: 'provider_error', message: 'up refused its key (401).' }],
    ['too many requests', say('{}', { status: 429, headers: { 'retry-after': '17' } }),
      { status: 429, reason: 'overloaded', details: { retryAfterSeconds: 17 } }],
    ['a fault', say(error(`it broke at /srv/x with ${KEY}`), { status: 500 }),
      { status: 502, reason: 'provider_error', message: 'up failed (500)' }],
    ['a path', say(error('it broke at /srv/x'), { status: 500 }),
      { message: 'up failed (500): it broke at [path]' }],
    ['a part of a header', say(error('mid HIDDEN-HEADER'), { status: 500 }), { message: 'up failed (500)' }],
    ['a key in base64', say(error(`x ${Buffer.from(`Bearer ${KEY}`).toString('base64')}`), { status: 500 }),
      { message: 'up failed (500)' }],
    ['a forbidden text', say(error('moderated'), { status: 403 }), { message: 'up failed (403): moderated' }],
    ['a redirect', say('', { status: 302, headers: { location: 'http://127.0.0.1:1/' } }),
      { status: 502, reason: 'provider_error', message: 'up failed (302)' }],
    ['a bad field', say(error('top_k is unknown'), { status: 400 }),
      { status: 400, reason: 'invalid_request', message: 'up failed (400): top_k is unknown' }],
    ['a long prompt', say(error('This model\'s maximum context length is 5', { code: 'x' }), { status: 400 }),
      { status: 400, reason: 'context_length_exceeded' }],
    ['a loop', say(error('loop'), { status: 508 }), { status: 508, reason: 'upstream_loop' }],
    ['nothing', () => {}, { status: 504, reason: 'timeout', message: 'up sent nothing for 1 s.' }],
    ['nothing after a token', say(HELLO, { open: true }), { status: 504, reason: 'timeout' }],
    ['an error event', say(`${HELLO}data: ${error('cuda died')}\n\ndata: [DONE]\n\n`),
      { status: 502, reason: 'provider_error', message: 'up failed (500): cuda died' }],
    ['a huge event', say(`data: ${'x'.repeat(2 ** 22)}\n\n`),
      { status: 502, message: /an event of more than|not JSON/ }],
    ['not JSON', say('data: {oh\n\n'), { status: 502, message: /not JSON/ }],
    ['an early end', say(HELLO), { status: 502, message: 'up ended an answer early.' }]
  ]
  for (const [name, answer, expected] of rows) {
    fake.state.answer = answer
    const refused = await ask(rig, 'up/m')
    const { error: refusal } = refused.json() as { error: object }
    t.match({ ...refusal, status: refused.statusCode }, expected, name)
    t.notMatch(refused.body, KEY, name)
    fake.state.answer = say(HELLO + END)
    await until(async () => (await ask(rig, 'up/m')).statusCode === 200)
  }
  t.notMatch(JSON.stringify([rig.logged, (await rig.inject({ url: '/state' })).json()]), KEY)
})

t.test('a client that leaves ends the request to the server', async (t) => {
  const fake = await fakeServer(t, say(HELLO, { open: true }))
  const rig = await start(t, { servers: { up: { url: fake.url, models: ['m'] } } })
  const url = await rig.listen()
  const leave = new AbortController()
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST', signal: leave.signal, headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'up/m', stream: true, messages: [{ role: 'user', content: 'hi' }] })
  })
  await response.body!.getReader().read()
  t.equal(fake.state.closed, 0)
  leave.abort()
  await until(() => fake.state.closed === 1)
})

t.test('who may leave the cluster', async (t) => {
  const fake = await fakeServer(t)
  const config = { servers: {
    up: { url: fake.url, models: ['m'] }, out: { url: fake.url, models: { m: { external: true } } }
  } }
  const rig = await start(t, config, { allow: ['read', 'invoke'] })
  t.equal((await ask(rig, 'up/m')).statusCode, 200)
  t.match((await ask(rig, 'out/m')).json().error,
    { reason: 'unauthenticated', details: { authority: 'external' } })
  t.equal(fake.asked.length, 1)
  t.equal((await ask(await start(t, config), 'out/m')).statusCode, 200)
  const at = (host: string): object => ({ url: `http://${host}/v1`, models: ['m'] })
  const away = await start(t, { servers: { pub: at('8.8.8.8'), meta: at('169.254.169.254') } })
  for (const [model, message] of [['pub/m', /external: true/], ['meta/m', /metadata/]] as const) {
    t.match((await ask(away, model)).json().error, { reason: 'upstream_unavailable', message })
  }
})

t.test('loops', async (t) => {
  const fake = await fakeServer(t)
  const rig = await start(t, { servers: { up: { url: fake.url, models: ['m'] } } })
  const rows: [string, number][] =
    [['a', 200], ['a,b', 200], ['a, b, c', 508], [NODE, 508], [`a,${NODE}`, 508]]
  for (const [hops, status] of rows) {
    t.equal((await ask(rig, 'up/m', {}, { 'x-svc-hops': hops })).statusCode, status, hops)
  }
  t.equal(fake.asked.at(-1)!.headers['x-svc-hops'], `a,b,${NODE}`)
})

t.test('a price is spending', async (t) => {
  const fake = await fakeServer(t)
  const price = { currency: 'EUR', prompt: 1, completion: 10 }
  const config = { servers: { up: { url: fake.url, models: { m: { price, max_tokens: 1000 } } } } }
  const rig = await start(t, config)
  const answer = ask(rig, 'up/m')
  type Approvals = { approvals: { id: string, cost: string, capability: string }[] }
  const waiting = async (): Promise<Approvals> => (await rig.inject({ url: '/v1/approvals' })).json()
  await until(async () => (await waiting()).approvals.length === 1)
  const [approval] = (await waiting()).approvals
  // 1,000 tokens for 10 EUR per million, and 13 for the prompt.
  t.match(approval, { cost: '0.010013 EUR', capability: 'up/m' })
  t.equal(fake.asked.length, 0)
  await rig.inject({ method: 'POST', url: `/v1/approvals/${approval!.id}`, payload: { decision: 'approve' } })
  t.equal((await answer).statusCode, 200)
  t.equal(fake.asked[0]!.body['max_tokens'], 1000)
})

t.test('mistakes in the settings', async (t) => {
  const url = 'http://10.0.0.1/v1'
  const rows: [object, RegExp][] = [
    [{ servers: { a: 'ftp://x' } }, /servers\.a.*expected an address/],
    [{ servers: { a: 'http://u:p@x/v1' } }, /servers\.a/],
    [{ servers: { a: { models: ['m'] } } }, /servers\.a.*url/],
    [{ servers: { a: { url: 'http://x:99999/v1' } } }, /servers\.a\.url: expected a URI/],
    [{ servers: { a: { url, kye: 'x' } } }, /servers\.a\.kye/],
    [{ servers: { a: { url, models: { m: { price: { currency: 'EUR' } } } } } }, /prompt/],
    [{ servers: { 'a/b': url } }, /servers/],
    [{ models: { chat: { try: [] } } }, /models\.chat\.try/],
    [{ models: { chat: { try: ['a/b'], when: { queue: -1 } } } }, /models\.chat\.when\.queue/],
    [{ models: { a: { try: ['x/y', 'b'] }, b: { try: ['a'] } } }, /models\.a\.try\.1: b is a chain/],
    [{ models: { a: { try: ['a'] } } }, /models\.a\.try\.0: a is a chain/]
  ]
  for (const [config, message] of rows) {
    await t.rejects(start(t, config as Record<string, unknown>), { message }, String(message))
  }
})

t.test('names that a list must not use', async (t) => {
  const fake = await fakeServer(t)
  const ids = ['constructor', 'a'.repeat(199), 'a+b', 'good', 5]
  fake.state.models = { data: ids.map((id) => ({ id })) }
  const rig = await start(t, { servers: { up: fake.url } })
  await until(async () => (await ask(rig, 'up/good')).statusCode === 200)
  t.same(rig.logged.filter(({ level }) => level === 'error'), [])
  await t.rejects(start(t, { servers: { up: { url: fake.url, key_file: '/' } } }),
    /servers\.up\.key_file is not a file/)
})

t.test('a model with files keeps its name, and a price keeps unknown fields away', async (t) => {
  const fake = await fakeServer(t)
  const price = { currency: 'EUR', prompt: 1, completion: 1 }
  const entry = { id: 'm', context: 1, weight: 1, maxTokens: 5, price }
  t.notOk('web_search' in bodyFor({ extra_body: { web_search: true } }, entry))
  t.ok('web_search' in bodyFor({ extra_body: { web_search: true } }, { ...entry, price: undefined }))
  const rig = await start(t, { servers: { acme: { url: fake.url, models: ['local'] } } })
  t.not((await ask(rig, 'acme/local')).statusCode, 200)
  t.equal(fake.asked.length, 0)
})
