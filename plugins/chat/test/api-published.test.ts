/** Answers have every field that the types of the official clients declare as always present. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { answering, calling, card, delta, done, hello, MODEL, startChat, values } from './api-kit.js'

const files = {
  anthropic: '@anthropic-ai/sdk/resources/messages/messages.d.ts',
  chat: 'openai/resources/chat/completions/completions.d.ts',
  completion: 'openai/resources/completions.d.ts',
  responses: 'openai/resources/responses/responses.d.ts'
} as const

/** Names of the required fields in an interface from a client's declarations. */
function required (file: keyof typeof files, name: string): string[] {
  const text = readFileSync(new URL(`../../../node_modules/${files[file]}`, import.meta.url), 'utf8')
    .replace(/\/\*\*[^]*?\*\//g, '')
  const own = new RegExp(`^( *)(?:export )?interface ${name} (?:extends .*)?\\{\n([^]*?)^\\1\\}`, 'm')
    .exec(text)
  if (own === null) throw new Error(`${files[file]} has no interface ${name}`)
  // A field that the client adds itself and no server sends.
  return [...own[2]!.matchAll(/^ *(\w+): /gm)].map(([, key]) => key!).filter((key) => key !== 'output_text')
}

interface Answer {
  type: string, choices: { message: object }[], message: { usage: object }, delta: object
  usage: { input_tokens_details: object }
}

t.test('every field that the clients\' types require', async (t) => {
  const { post } = await startChat(t, { open: answering(delta('Hello'), done('stop')) })
  const has = (value: unknown, file: keyof typeof files, name: string): void => {
    const wanted = required(file, name)
    t.ok(wanted.length > 1, `${name}: ${wanted.join(', ')}`)
    t.strictSame(wanted.filter((key) => (value as Record<string, unknown>)[key] === undefined), [], name)
  }
  const ask = async (url: string, body: object): Promise<Answer> => (await post(url, body)).json<Answer>()
  const events = async (url: string, body: object): Promise<Answer[]> =>
    values((await post(url, { ...body, stream: true })).body) as unknown as Answer[]

  const chat = await ask('/v1/chat/completions', hello)
  has(chat, 'chat', 'ChatCompletion')
  has(chat.choices[0]!.message, 'chat', 'ChatCompletionMessage')
  for (const chunk of await events('/v1/chat/completions', hello)) has(chunk, 'chat', 'ChatCompletionChunk')
  t.notOk('system_fingerprint' in chat, 'optional, and never null')
  const text = await ask('/v1/completions', { model: MODEL, prompt: 'Hi' })
  has(text, 'completion', 'Completion')
  has(text.choices[0], 'completion', 'CompletionChoice')

  const response = await ask('/v1/responses', { model: MODEL, input: 'Hi' })
  has(response, 'responses', 'Response')
  has(response.usage, 'responses', 'ResponseUsage')
  has(response.usage.input_tokens_details, 'responses', 'InputTokensDetails')
  const open = ['completed_at', 'service_tier', 'top_logprobs', 'max_tool_calls', 'presence_penalty',
    'frequency_penalty', 'safety_identifier', 'prompt_cache_key']
  t.strictSame(open.filter((key) => !(key in response)), [], 'required by Open Responses')

  const message = await ask('/v1/messages', { ...hello, max_tokens: 9 })
  has(message, 'anthropic', 'Message')
  has(message.usage, 'anthropic', 'Usage')
  const streamed = await events('/v1/messages', { ...hello, max_tokens: 9 })
  const of = (type: string): Answer => streamed.find((event) => event.type === type)!
  has(of('message_start').message, 'anthropic', 'Message')
  has(of('message_start').message.usage, 'anthropic', 'Usage')
  has(of('message_delta').usage, 'anthropic', 'MessageDeltaUsage')
  has(of('message_delta').delta, 'anthropic', 'Delta')
  t.strictSame(Object.keys(of('message_delta').usage).sort(),
    required('anthropic', 'MessageDeltaUsage').sort(), 'and no others')
})

t.test('every field of the blocks of a message', async (t) => {
  const { post } = await startChat(t, { open: calling() })
  const asked = { ...hello, max_tokens: 9, tools: [{ name: 'f', input_schema: { type: 'object' } }] }
  const { content } = (await post('/v1/messages', asked)).json<{ content: { type: string }[] }>()
  const { body } = await post('/v1/messages', { ...asked, stream: true })
  const begun = (values(body) as unknown as { type: string, content_block: { type: string } }[])
    .filter(({ type }) => type === 'content_block_start').map((event) => event.content_block)
  for (const blocks of [content, begun]) {
    t.strictSame(blocks.map(({ type }) => type), ['thinking', 'text', 'tool_use'])
    for (const [i, name] of ['ThinkingBlock', 'TextBlock', 'ToolUseBlock'].entries()) {
      // @ai-sdk/anthropic refuses an answer in which `citations` is null.
      const wanted = required('anthropic', name).filter((key) => key !== 'citations')
      t.strictSame(Object.keys(blocks[i]!).sort(), wanted.sort(), name)
    }
  }
})

t.test('a response shows the sampling that was used, complete tools, and the format', async (t) => {
  const defaults = { temperature: 0.3 }
  const { post } = await startChat(t, { cards: [{ ...card, defaults }] })
  const rows: [object, object][] = [
    [{}, { temperature: 0.3, top_p: 0.95 }],
    [{ text: { verbosity: 'low' } }, { text: { format: { type: 'text' } } }],
    [{ text: { format: { type: 'json_object' } } }, { text: { format: { type: 'json_object' } } }],
    [{ temperature: 0, top_p: 0.5 }, { temperature: 0, top_p: 0.5 }],
    [{ tools: [{ type: 'function', name: 'f' }] },
      { tools: [{ type: 'function', name: 'f', description: null, parameters: null, strict: null }] }],
    [{ tools: [{ type: 'function', name: 'f', parameters: { type: 'object' }, strict: true }] },
      { tools: [{ type: 'function', parameters: { type: 'object' }, strict: true }] }]
  ]
  for (const [more, shown] of rows) {
    const answer = await post('/v1/responses', { model: MODEL, input: 'Hi', ...more })
    t.match(answer.json(), shown, answer.body)
    const { body } = await post('/v1/responses', { model: MODEL, input: 'Hi', ...more, stream: true })
    for (const { response } of values(body)) if (response !== undefined) t.match(response, shown)
  }
})

t.test('a path that no API has is refused in the form of OpenAI', async (t) => {
  const { rig } = await startChat(t, { open: calling() })
  const answer = await rig.inject({ method: 'POST', url: '/v1/assistants', payload: {} })
  t.match(answer.json(), { error: { type: 'invalid_request_error', code: 'unknown_url', message: String } })
})
