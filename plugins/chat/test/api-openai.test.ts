import t from 'tap'
import OpenAI from 'openai'
import { EngineError } from '../../../kernel/index.js'
import {
  admitted, answering, call, delta, done, gate, hello, MODEL, saying, startChat, until, type Kit, type Open
} from './api-kit.js'

const messages = [{ role: 'user' as const, content: 'Hi' }]

/** Starts a node and connects the official OpenAI client to it. */
async function official (t: Parameters<typeof startChat>[0], open?: Open): Promise<Kit & { client: OpenAI }> {
  const kit = await startChat(t, open === undefined ? {} : { open })
  const client = new OpenAI({
    baseURL: `${await kit.rig.listen()}/v1`, apiKey: 'none', maxRetries: 0,
    defaultHeaders: { authorization: null }
  })
  return { ...kit, client }
}

t.test('the official client\'s tool loop', async (t) => {
  const open: Open = (task) => {
    const told = task.payload['messages'] as { role: string, content: string }[]
    const answer = told.find(({ role }) => role === 'tool')?.content
    return answer === undefined
      ? answering(call('weather', '{"city": "Ulm"}'), done('tool_calls'))(task, never, '')
      : saying(`It is ${answer}.`)(task, never, '')
  }
  const { client, asked } = await official(t, open)
  const cities: unknown[] = []
  const runner = client.chat.completions.runTools({
    model: MODEL,
    stream: true,
    messages,
    tools: [{
      type: 'function',
      function: {
        name: 'weather', description: 'The weather', parse: JSON.parse,
        parameters: { type: 'object', properties: { city: { type: 'string' } } },
        function: (args: { city: string }) => { cities.push(args.city); return 'sunny' }
      }
    }]
  })
  t.equal(await runner.finalContent(), 'It is sunny.')
  t.same(cities, ['Ulm'])
  t.match(asked.tasks[1]?.payload['messages'], [
    { role: 'user' },
    { role: 'assistant', tool_calls: [{ function: { name: 'weather', arguments: '{"city": "Ulm"}' } }] },
    { role: 'tool', content: 'sunny', tool_call_id: /^call_/ }
  ])
})

const never = new AbortController().signal

t.test('prompts of a list are answered together, their order kept', async (t) => {
  const open = new Set<string>()
  let most = 0
  const last = gate()
  // The engine answers only once four prompts run at once, and finishes p0 after all others.
  const together: Open = async function * ({ payload: { prompt: given } }) {
    const prompt = String(given)
    open.add(prompt)
    most = Math.max(most, open.size)
    yield admitted()
    await until(() => most === 4)
    yield delta(`${prompt} `)
    if (prompt === 'p0') await last.opened
    yield delta('!')
    yield done()
    open.delete(prompt)
    if (prompt === 'p9') last.open()
  }
  const { client, asked } = await official(t, together)
  const prompt = Array.from({ length: 10 }, (_, i) => `p${i}`)
  const whole = await client.completions.create({ model: MODEL, prompt, n: 2 })
  t.same(whole.choices.map(({ index }) => index), prompt.map((_, i) => 2 * i))
  t.same(whole.choices.map(({ text }) => text), prompt.map((one) => `${one} !`))
  t.match(whole.usage, { prompt_tokens: 50, completion_tokens: 30,
    prompt_tokens_details: { cached_tokens: 20 } })
  t.equal(most, 4, 'the answers of four are as many as one request may have')
  const texts = new Map<number, string>()
  const stream = await client.completions.create({
    model: MODEL, prompt, n: 2, stream: true, stream_options: { include_usage: true }
  })
  for await (const { choices: [choice], usage } of stream) {
    if (choice !== undefined) texts.set(choice.index, (texts.get(choice.index) ?? '') + choice.text)
    else t.match(usage, { prompt_tokens: 50, total_tokens: 80 })
  }
  t.same([...texts].sort(([a], [b]) => a - b).map(([, text]) => text), prompt.map((one) => `${one} !`))
  t.equal(asked.tasks.length, 20)
})

t.test('where one prompt of a list fails the others are ended', async (t) => {
  const failing: Open = async function * ({ payload: { prompt } }, signal) {
    yield admitted()
    if (prompt === 'bad') throw new EngineError('invalid_request', 'no')
    await new Promise<void>((resolve) => { signal.addEventListener('abort', () => { resolve() }) })
  }
  const { post, asked } = await startChat(t, { open: failing })
  for (const stream of [false, true]) {
    asked.aborted = 0
    const answer = await post('/v1/completions', { model: MODEL, prompt: ['a', 'bad', 'c'], stream })
    t.match(answer.body, /"reason":"invalid_request"/)
    await until(() => asked.aborted >= 2)
  }
  t.pass('the runners were told')
})

t.test('tokens there and back', async (t) => {
  const open: Open = async function * ({ kind, payload }) {
    if (kind === 'detokenize') {
      yield { payload: { kind: 'text', text: `${String(payload['tokens'])}` } }
      return
    }
    if (payload['prompt'] === 'bad') {
      throw new EngineError('invalid_request', 'no', { issues: [{ path: 'prompt', message: 'no' }] })
    }
    yield { payload: { kind: 'tokens', tokens: [1, 2], count: 2, context_length: 128 } }
  }
  const { post, asked } = await startChat(t, { open })
  const two = { tokens: [1, 2], count: 2, max_model_len: 128 }
  t.same((await post('/v1/tokenize', { model: MODEL, prompt: 'ab', add_special_tokens: false })).json(), two)
  t.same((await post('/v1/tokenize', { ...hello, add_generation_prompt: false })).json(), two)
  t.same(asked.tasks, [
    { kind: 'tokenize', payload: { prompt: 'ab', add_special_tokens: false } },
    { kind: 'tokenize', payload: { messages: hello.messages, add_generation_prompt: false } }
  ])
  t.same((await post('/v1/detokenize', { model: MODEL, tokens: [5, 6] })).json(), { prompt: '5,6' })
  const rows: [string, object, number, RegExp][] = [
    ['tokenize', { model: MODEL }, 400, /prompt or messages is required/],
    ['tokenize', { ...hello, prompt: 'x' }, 400, /but not both/],
    ['tokenize', { model: MODEL, prompt: 'bad' }, 400, /"param":"prompt"/],
    ['tokenize', { model: 'acme/none', prompt: 'x' }, 404, /no_instance/],
    ['detokenize', { model: MODEL, tokens: [-1] }, 400, /tokens/]
  ]
  for (const [route, body, status, expect] of rows) {
    const answer = await post(`/v1/${route}`, body)
    t.equal(answer.statusCode, status, answer.body)
    t.match(answer.body, expect)
  }
})

t.test('a body of 5 MB is refused', async (t) => {
  const { post, asked } = await startChat(t)
  const answer = await post('/v1/chat/completions', {
    model: MODEL, messages: [{ role: 'user', content: 'x'.repeat(5e6) }]
  })
  t.equal(answer.statusCode, 413)
  t.match(answer.json(), { error: { reason: 'payload_too_large' } })
  t.equal(asked.tasks.length, 0)
})

t.test('256 clients are served at once, some more wait, the others hear when to come again', async (t) => {
  const held = gate()
  const open: Open = async function * (task, signal) {
    yield admitted()
    await held.opened
    yield * saying('Hello')(task, signal, '')
  }
  const { post, asked } = await startChat(t, { open, callLimits: { queue: 3 } })
  const ask = async (_: unknown, i: number) =>
    await post('/v1/chat/completions', { ...hello, stream: i % 2 === 0 })
  const first = Array.from({ length: 259 }, ask)
  await until(() => asked.tasks.length === 256)
  const over = await Promise.all(Array.from({ length: 5 }, ask))
  for (const answer of over) {
    t.equal(answer.statusCode, 429, answer.body)
    t.ok(Number(answer.headers['retry-after']) >= 1)
    t.match(answer.json(), { error: { reason: 'overloaded', details: { running: 256, waiting: 3 } } })
  }
  t.equal(asked.tasks.length, 256)
  held.open()
  const answers = await Promise.all(first)
  t.ok(answers.every(({ statusCode, body }) => statusCode === 200 && body.includes('Hello')))
  t.equal(asked.tasks.length, 259, 'those that waited too')
})

t.test('256 clients that connect and vanish, before or after the first byte', async (t) => {
  const open: Open = async function * (task, signal) {
    const { content } = (task.payload['messages'] as { content: string }[])[0]!
    if (content === 'stay') {
      yield * saying('still here')(task, signal, '')
      return
    }
    if (content === 'odd') yield admitted()
    await new Promise((resolve) => { signal.addEventListener('abort', resolve) })
  }
  const { rig, asked } = await startChat(t, { open })
  const url = `${await rig.listen()}/v1/chat/completions`
  const ask = async (content: string, stream: boolean, signal: AbortSignal): Promise<Response> =>
    await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: MODEL, stream, messages: [{ role: 'user', content }] }),
      signal
    })
  for (let round = 0; round < 8; round++) {
    const away = new AbortController()
    const before = asked.tasks.length
    const answers = Array.from({ length: 8 }, async (_, i) =>
      await (await ask(i % 2 === 0 ? 'even' : 'odd', i < 4, away.signal)).text())
    await until(() => asked.tasks.length === before + 8)
    away.abort()
    await Promise.allSettled(answers)
    await until(() => asked.aborted === asked.tasks.length)
  }
  t.equal(asked.tasks.length, 64)
  const stayed = await (await ask('stay', false, never)).json()
  t.match(stayed, { choices: [{ message: { content: 'still here' } }] })
  t.notOk(rig.logged.some(({ level }) => level === 'error'), 'nothing went wrong in the node')
})

t.test('the limits of svc.yaml', async (t) => {
  const config = { max_answers: 1, max_messages: 1, max_stops: 1, max_tools: 1 }
  const { post } = await startChat(t, { config })
  const tool = { type: 'function', function: { name: 'f' } }
  const rows: [object, string][] = [
    [{ n: 2 }, 'n'], [{ stop: ['a', 'b'] }, 'stop'], [{ tools: [tool, tool] }, 'tools'],
    [{ messages: [...hello.messages, ...hello.messages] }, 'messages']
  ]
  for (const [more, param] of rows) {
    const answer = await post('/v1/chat/completions', { ...hello, ...more })
    t.equal(answer.statusCode, 400)
    t.match(answer.json(), { error: { param } })
  }
  let deep: object = {}
  for (let level = 0; level < 64; level++) deep = { type: 'object', properties: { a: deep } }
  const format = { type: 'json_schema', json_schema: { name: 'x', schema: deep } }
  const answer = await post('/v1/chat/completions', { ...hello, response_format: format })
  t.equal(answer.statusCode, 400)
  t.match(answer.json(), { error: { message: /nested deeper than 32 levels/ } })
})
