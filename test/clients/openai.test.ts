/** OpenAI's client library, and clients built for its API, against a node. */
import t from 'tap'
import OpenAI from 'openai'
import { failure } from '../../plugins/chat/test/api-kit.js'
import { MODEL, QUESTION, report, script, startRecorded, withoutClients, withoutNode22 } from './kit.js'
import type { Expected } from '../real/recorder.js'

const REFUSED: Expected[] = [
  { path: '/v1/models/svc%2Fnone', status: 404, sent: /^$/, got: /model_not_found/, why: 'no such model' },
  { path: '/v1/chat/completions', status: 400, sent: /"temperature":9/, got: /invalid_value/,
    why: 'a temperature above 2' },
  { path: '/v1/chat/completions', status: 400, sent: /"functions"/, got: /unsupported_parameter/,
    why: '`functions`, which `tools` has replaced' },
  { path: '/v1/chat/completions', status: 400, sent: /^\{(?!.*messages)/, got: /missing_required_parameter/,
    why: 'no messages' }
]

t.test('openai 6.49.0', { skip: withoutClients }, async (t) => {
  const { url, exchanges } = await startRecorded(t)
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 })
  const messages = [{ role: 'user' as const, content: QUESTION }]
  const asked = { model: MODEL, messages, temperature: 0 }

  t.match(await client.models.retrieve(MODEL), { id: MODEL, object: 'model' })
  const ids: string[] = []
  for await (const { id } of client.models.list()) ids.push(id)
  t.ok(ids.includes(MODEL) && ids.includes('svc/voice-en'))
  t.match(await failure(client.models.retrieve('svc/none')),
    { status: 404, code: 'model_not_found', type: 'invalid_request_error', requestID: /^[0-9a-f-]{36}$/ })

  const whole = await client.chat.completions.create({ ...asked, logprobs: true, top_logprobs: 2 })
  const [{ message: { content }, logprobs } = { message: { content: null } }] = whole.choices
  t.match(content, /svc stop/)
  t.equal(logprobs?.content?.map(({ token }) => token).join('').trim(), content, 'tokens have their spaces')
  const bytes = logprobs?.content?.flatMap((token) => token.bytes ?? []) ?? []
  t.equal(Buffer.from(bytes).toString().trim(), content)
  const stream = client.chat.completions.stream({ ...asked, stream_options: { include_usage: true } })
  const streamed = await stream.finalChatCompletion()
  t.equal(streamed.choices[0]?.message.content, content)
  t.equal(streamed.usage?.total_tokens, whole.usage?.total_tokens)

  const prompt = ['how do i stop', 'what is a node']
  const both = { model: MODEL, prompt, max_tokens: 4, temperature: 0, echo: true }
  const list = await client.completions.create(both)
  t.equal(list.choices.length, 2)
  list.choices.forEach(({ text, index }, i) => {
    t.equal(index, i)
    t.ok(text.startsWith(prompt[i]!) && text.length > prompt[i]!.length, text)
  })
  let pieces = ['', '']
  for await (const { choices } of await client.completions.create({ ...both, stream: true })) {
    pieces = pieces.map((text, i) =>
      text + choices.filter(({ index }) => index === i).map((choice) => choice.text).join(''))
  }
  t.same(pieces, list.choices.map(({ text }) => text), 'streamed as well')

  const first = await client.responses.create({ model: MODEL, input: QUESTION })
  t.match(first.output_text, /svc stop/)
  t.match(await client.responses.inputTokens.count({ model: MODEL, input: QUESTION }), { input_tokens: 9 })

  const refused: [object, object][] = [
    [{ temperature: 9 }, { param: 'temperature', code: 'invalid_value' }],
    [{ functions: [{ name: 'f' }] }, { param: 'functions', code: 'unsupported_parameter' }],
    [{ messages: undefined }, { param: 'messages', code: 'missing_required_parameter' }]
  ]
  for (const [more, error] of refused) {
    const answer = await failure(client.chat.completions.create({ ...asked, ...more } as never))
    t.match(answer, { status: 400, type: 'invalid_request_error', ...error })
  }
  const spoken = { model: 'svc/voice-en', voice: 'slt', input: 'Hello.' }
  const sound = await client.audio.speech.create(spoken as never)
  t.ok((await sound.arrayBuffer()).byteLength > 1000, 'and speech')
  report(t, {
    client: 'openai (JavaScript)', packages: ['openai'], set: "`baseURL: 'URL/v1'`, `apiKey: 'none'`",
    works: ['models', 'chat', 'stream', 'log probabilities', 'completions', 'responses', 'speech']
  }, exchanges, REFUSED)
})

t.test('ai 6.0.325 with @ai-sdk/openai-compatible 2.0.92', { skip: withoutClients }, async (t) => {
  const { url, exchanges } = await startRecorded(t)
  const said = JSON.parse(await script(t, 'ai', `
    import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
    import { generateText, streamText } from 'ai'
    const [url, model, prompt] = process.argv.slice(2)
    const svc = createOpenAICompatible({ name: 'svc', baseURL: url + '/v1', includeUsage: true })
    const { text, usage } = await generateText({ model: svc(model), prompt, temperature: 0 })
    const stream = streamText({ model: svc(model), prompt, temperature: 0 })
    let streamed = ''
    for await (const piece of stream.textStream) streamed += piece
    console.log(JSON.stringify({ text, usage, streamed, tokens: await stream.usage }))
  `, [url, MODEL, QUESTION])) as Record<string, unknown>
  t.match(said, { text: /svc stop/, usage: { inputTokens: 9 }, tokens: { inputTokens: 9 } })
  t.equal(said['streamed'], said['text'])
  report(t, {
    client: 'AI SDK, compatible provider', packages: ['ai', '@ai-sdk/openai-compatible'],
    set: "`baseURL: 'URL/v1'`", works: ['chat', 'stream', 'usage']
  }, exchanges)
})

t.test('@langchain/openai 1.5.8', { skip: withoutClients }, async (t) => {
  const { url, exchanges } = await startRecorded(t)
  const said = JSON.parse(await script(t, 'langchain', `
    import { ChatOpenAI } from '@langchain/openai'
    const [url, model, question] = process.argv.slice(2)
    const configuration = { baseURL: url + '/v1' }
    const chat = new ChatOpenAI({ model, apiKey: 'none', temperature: 0, configuration })
    const { content, usage_metadata: usage } = await chat.invoke(question)
    let streamed = ''
    for await (const piece of await chat.stream(question)) streamed += piece.content
    const responses = new ChatOpenAI({ model, apiKey: 'none', useResponsesApi: true, configuration })
    const { content: other } = await responses.invoke(question)
    console.log(JSON.stringify({ content, usage, streamed, other }))
  `, [url, MODEL, QUESTION])) as Record<string, unknown>
  const other = [{ type: 'text', text: /svc stop/ }]
  t.match(said, { content: /svc stop/, usage: { input_tokens: 9 }, other })
  t.equal(said['streamed'], said['content'])
  report(t, {
    client: 'LangChain (JavaScript), OpenAI', packages: ['@langchain/openai'],
    set: "`configuration: { baseURL: 'URL/v1' }`, `apiKey: 'none'`", works: ['chat', 'stream', 'responses']
  }, exchanges)
})

t.test('@openai/agents 0.20.0', { skip: withoutNode22 }, async (t) => {
  const { url, exchanges } = await startRecorded(t)
  const said = await script(t, 'agents', `
    import { Agent, OpenAIProvider, Runner, setTracingDisabled } from '@openai/agents'
    const [url, model, question] = process.argv.slice(2)
    setTracingDisabled(true)
    for (const useResponses of [true, false]) {
      const modelProvider = new OpenAIProvider({ baseURL: url + '/v1', apiKey: 'none', useResponses })
      const runner = new Runner({ modelProvider })
      const { finalOutput } = await runner.run(new Agent({ name: 'a', model }), question)
      console.log(finalOutput)
    }
  `, [url, MODEL, QUESTION], { newer: true })
  t.equal(said.match(/svc stop/g)?.length, 2)
  report(t, {
    client: 'OpenAI Agents SDK (JavaScript)', packages: ['@openai/agents'],
    set: "`new OpenAIProvider({ baseURL: 'URL/v1', apiKey: 'none' })`", works: ['chat', 'responses']
  }, exchanges)
})
