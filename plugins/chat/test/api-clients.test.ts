/** Runs the official clients against the plugin's routes on a real port. */
import t, { type Test } from 'tap'
import Anthropic from '@anthropic-ai/sdk'
import { Ollama } from 'ollama'
import OpenAI from 'openai'
import { EngineError, kernelError, type EngineChunk } from '../../../kernel/index.js'
import {
  admitted, calling, delta, done, failure, MODEL, startChat, until, type Kit, type Open
} from './api-kit.js'

interface Clients extends Kit { openai: OpenAI, anthropic: Anthropic, ollama: Ollama }

async function start (t: Test, open?: Open): Promise<Clients> {
  const kit = await startChat(t, open === undefined ? {} : { open })
  const url = await kit.rig.listen()
  return {
    ...kit,
    openai: new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 }),
    anthropic: new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 }),
    ollama: new Ollama({ host: `${url}/ollama` })
  }
}

const messages = [{ role: 'user' as const, content: 'Hi' }]
const asked = { model: MODEL, messages }
const parameters = { type: 'object' as const, properties: { a: { type: 'number' } } }
const openAiTools = [{ type: 'function' as const, function: { name: 'f', parameters } }]
const anthropicTools = [{ name: 'f', input_schema: parameters }]

t.test('openai: texts, streamed and whole', async (t) => {
  const { openai } = await start(t)
  const whole = await openai.chat.completions.create(asked)
  t.match(whole, { object: 'chat.completion', model: MODEL, choices: [{ finish_reason: 'stop',
    message: { role: 'assistant', content: 'Hello there.' } }], usage: { total_tokens: 8 } })
  const stream = openai.chat.completions.stream({ ...asked, stream_options: { include_usage: true } })
  let text = ''
  stream.on('content', (more) => { text += more })
  t.match(await stream.finalChatCompletion(), { choices: [{ message: { content: 'Hello there.' } }],
    usage: { total_tokens: 8 } })
  t.equal(text, 'Hello there.')
  const plain = await openai.completions.create({ model: MODEL, prompt: 'Hi' })
  t.equal(plain.choices[0]?.text, 'Hello there.')
  let pieces = ''
  for await (const chunk of await openai.completions.create({ model: MODEL, prompt: 'Hi', stream: true })) {
    pieces += chunk.choices[0]?.text ?? ''
  }
  t.equal(pieces, 'Hello there.')
  t.equal((await openai.responses.create({ model: MODEL, input: 'Hi' })).output_text, 'Hello there.')
  const response = await openai.responses.stream({ model: MODEL, input: 'Hi' }).finalResponse()
  t.match(response, { status: 'completed', usage: { total_tokens: 8 } })
  t.equal(response.output_text, 'Hello there.')
})

t.test('openai: tools', async (t) => {
  const { openai } = await start(t, calling())
  const made = [{ type: 'function', function: { name: 'f', arguments: '{"a": 1}' } }]
  const whole = await openai.chat.completions.create({ ...asked, tools: openAiTools })
  t.match(whole.choices, [{ finish_reason: 'tool_calls', message: { content: 'Look:', tool_calls: made } }])
  const stream = openai.chat.completions.stream({ ...asked, tools: openAiTools })
  t.match((await stream.finalChatCompletion()).choices,
    [{ finish_reason: 'tool_calls', message: { content: 'Look:', tool_calls: made } }])
  const tools = [{ type: 'function' as const, name: 'f', parameters, strict: false }]
  const items = [{ type: 'reasoning' }, { type: 'message' },
    { type: 'function_call', name: 'f', arguments: '{"a": 1}' }]
  t.match((await openai.responses.create({ model: MODEL, input: 'Hi', tools })).output, items)
  t.match((await openai.responses.stream({ model: MODEL, input: 'Hi', tools }).finalResponse()).output, items)
})

t.test('anthropic: texts and tools, streamed and whole', async (t) => {
  const { anthropic } = await start(t, calling())
  const body = { ...asked, max_tokens: 50, tools: anthropicTools }
  const expected = {
    type: 'message', role: 'assistant', model: MODEL, stop_reason: 'tool_use',
    usage: { input_tokens: 3, cache_read_input_tokens: 2, output_tokens: 3 },
    content: [{ type: 'thinking', thinking: 'Hm.' }, { type: 'text', text: 'Look:' },
      { type: 'tool_use', name: 'f', input: { a: 1 } }]
  }
  t.match(await anthropic.messages.create(body), expected)
  const stream = anthropic.messages.stream(body)
  let text = ''
  stream.on('text', (more) => { text += more })
  t.match(await stream.finalMessage(), expected)
  t.equal(text, 'Look:')
})

t.test('ollama: texts and tools, streamed and whole, and what there is', async (t) => {
  const { ollama } = await start(t, calling())
  const body = { ...asked, tools: openAiTools }
  const tool_calls = [{ function: { name: 'f', arguments: { a: 1 } } }]
  t.match(await ollama.chat({ ...body, stream: false }),
    { done: true, message: { content: 'Look:', thinking: 'Hm.', tool_calls } })
  const said = { content: '', calls: 0, done: false }
  for await (const part of await ollama.chat({ ...body, stream: true })) {
    said.content += part.message.content
    said.calls += part.message.tool_calls?.length ?? 0
    said.done = part.done
  }
  t.same(said, { content: 'Look:', calls: 1, done: true })
  const prompt = { model: MODEL, prompt: 'Hi' }
  t.match(await ollama.generate({ ...prompt, stream: false }), { response: /^Look:/, thinking: 'Hm.' })
  let text = ''
  for await (const part of await ollama.generate({ ...prompt, stream: true })) text += part.response
  t.match(text, /^Look:/)
  t.match(await ollama.list(), { models: [{ name: `${MODEL}:latest` }] })
  t.match(await ollama.ps(), { models: [{ name: `${MODEL}:latest` }] })
  t.match(await ollama.show({ model: MODEL }), { capabilities: ['completion', 'tools'] })
  t.match(await ollama.version(), { version: '0.0.0' })
})

/** An engine whose error depends on the request text. */
const failing: Open = async function * (task): AsyncGenerator<EngineChunk> {
  const text = JSON.stringify(task.payload)
  const reason = 'context_length_exceeded'
  if (text.includes('long')) throw new EngineError(reason, `${reason}: 9 > 8`)
  if (text.includes('busy')) throw kernelError('overloaded', 'Busy.', { retryAfterSeconds: 7 })
  yield admitted()
  yield delta('Hel')
  throw kernelError('instance_lost', 'The instance was lost.')
}
const say = (content: string): { messages: { role: 'user', content: string }[] } =>
  ({ messages: [{ role: 'user', content }] })

async function fails (
  t: Test, call: Promise<unknown>, kind: new (...parts: never[]) => Error
): Promise<void> {
  const error = await failure(call)
  t.ok(error instanceof kind, `${kind.name}, not ${String(error)}`)
}

t.test('openai: errors are of its own classes', async (t) => {
  const { openai } = await start(t, failing)
  for (const stream of [false, true]) {
    const ask = async (more: object): Promise<unknown> =>
      await openai.chat.completions.create({ ...asked, ...more, stream } as never)
    await fails(t, ask({ model: 'acme/none' }), OpenAI.NotFoundError)
    t.match(await failure(ask({ model: 'acme/none' })),
      { status: 404, type: 'invalid_request_error', code: 'model_not_found', message: /acme\/none/ })
    await fails(t, ask({ temperature: 2.1 }), OpenAI.BadRequestError)
    t.match(await failure(ask({ temperature: 2.1 })), { param: 'temperature' })
    t.match(await failure(ask(say('long'))), { status: 400, message: /context_length_exceeded/ })
    await fails(t, ask(say('busy')), OpenAI.RateLimitError)
    const busy = await ask(say('busy')).catch((error: unknown) => error) as { headers: Headers }
    t.equal(busy.headers.get('retry-after'), '7')
  }
  await fails(t, openai.chat.completions.create(asked), OpenAI.InternalServerError)
  const stream = openai.chat.completions.stream(asked)
  t.match(await failure(stream.finalChatCompletion()), { message: /The instance was lost/ },
    'after the first text')
  const responses = openai.responses.stream({ model: MODEL, input: 'Hi' })
  await fails(t, responses.finalResponse(), OpenAI.OpenAIError)
})

t.test('anthropic: errors are of its own classes, with its types', async (t) => {
  const { anthropic } = await start(t, failing)
  for (const stream of [false, true]) {
    const ask = async (more: object): Promise<unknown> =>
      await anthropic.messages.create({ ...asked, max_tokens: 9, ...more, stream } as never)
    await fails(t, ask({ model: 'acme/none' }), Anthropic.NotFoundError)
    const error = { type: 'not_found_error', message: /acme\/none/, reason: 'no_instance' }
    t.match(await failure(ask({ model: 'acme/none' })), { status: 404, error: { type: 'error', error } })
    await fails(t, ask({ temperature: 2 }), Anthropic.BadRequestError)
    t.match(await failure(ask({ temperature: 2 })), { error: { error: { type: 'invalid_request_error' } } })
    t.match(await failure(ask(say('long'))), { status: 400, message: /context_length_exceeded/ })
    await fails(t, ask(say('busy')), Anthropic.RateLimitError)
    t.match(await failure(ask(say('busy'))), { error: { error: { type: 'rate_limit_error' } } })
  }
  const lost = { error: { type: 'error', error: { type: 'api_error', message: 'The instance was lost.' } } }
  t.match(await failure(anthropic.messages.create({ ...asked, max_tokens: 9 })), lost)
  t.match(await failure(anthropic.messages.stream({ ...asked, max_tokens: 9 }).finalMessage()), lost,
    'after the first text')
})

t.test('ollama: errors have a text and a status', async (t) => {
  const { ollama } = await start(t, failing)
  for (const stream of [false, true]) {
    const ask = async (more: object): Promise<unknown> =>
      await ollama.chat({ ...asked, ...more, stream } as never)
    t.match(await failure(ask({ model: 'acme/none' })), { name: 'ResponseError', status_code: 404,
      error: /acme\/none/, message: /acme\/none/ })
    t.match(await failure(ask({ options: { temperature: 101 } })), { status_code: 400, error: /temperature/ })
    t.match(await failure(ask(say('long'))), { status_code: 400, error: /^context_length_exceeded/ })
    t.match(await failure(ask(say('busy'))), { status_code: 429, error: 'Busy.' })
  }
  t.match(await failure(ollama.show({ model: 'acme/none' })), { status_code: 404, error: /acme\/none/ })
  t.match(await failure(ollama.chat({ ...asked, stream: false })), { status_code: 500, error: /lost/ })
  const read = async (): Promise<void> => {
    for await (const part of await ollama.generate({ model: MODEL, prompt: 'Hi', stream: true })) void part
  }
  t.match(await failure(read()), { message: 'The instance was lost.' }, 'after the first text')
})

t.test('a client that gives up ends its work', async (t) => {
  const { openai, anthropic, ollama, asked: seen } = await start(t, async function * (_task, signal) {
    yield admitted()
    yield delta('Hel')
    await new Promise((resolve) => { signal.addEventListener('abort', resolve) })
    yield done()
  })
  const first = async (stream: AsyncIterable<unknown>): Promise<void> => {
    for await (const part of stream) if (JSON.stringify(part).includes('Hel')) return
  }
  const ended = async (count: number): Promise<void> => { await until(() => seen.aborted === count) }
  await first(await openai.chat.completions.create({ ...asked, stream: true }))
  await ended(1)
  await first(await openai.responses.create({ model: MODEL, input: 'Hi', stream: true }))
  await ended(2)
  await first(await anthropic.messages.create({ ...asked, max_tokens: 9, stream: true }))
  await ended(3)
  const lines = await ollama.chat({ ...asked, stream: true })
  // Do not use `for await`: leaving the loop would itself abort the request.
  const reading = lines[Symbol.asyncIterator]()
  await reading.next()
  lines.abort()
  await ended(4)
  for (const ask of [
    async (signal: AbortSignal): Promise<unknown> => await openai.chat.completions.create(asked, { signal }),
    async (signal: AbortSignal): Promise<unknown> =>
      await anthropic.messages.create({ ...asked, max_tokens: 9 }, { signal })
  ]) {
    const away = new AbortController()
    const before = seen.aborted
    const waiting = ask(away.signal)
    await until(() => seen.tasks.length === before + 1)
    away.abort()
    await t.rejects(waiting, /abort/i)
    await ended(before + 1)
  }
  t.equal(seen.aborted, 6, 'a whole answer as well')
})
