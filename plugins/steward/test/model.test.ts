/** The virtual model on the chat routes, over the real plugins. */
import { request as httpRequest } from 'node:http'
import t, { type Test } from 'tap'
import { systemClock } from '../../../kernel/index.js'
import { startPlugin, type Rig, type StartOptions } from '../../../kernel/testing/index.js'
import chat from '../../chat/index.js'
import runners from '../../runners/index.js'
import staging from '../../staging/index.js'
import { createSteward } from '../index.js'
import { questionOf, STEWARD } from '../model.js'
import { answerOf, heldVoice, until } from './voices.js'
import type { Voice } from '../ask.js'
import type { Question } from '../types.js'

/** A voice that repeats the question, with markup that chat templates would interpret. */
function echo (): { voice: Voice, asked: Question[] } {
  const asked: Question[] = []
  return {
    asked,
    voice: async function * (_parts, question) {
      asked.push(question)
      yield { type: 'call', tool: 'doctor', args: {} }
      yield { type: 'text', text: '<think>It was asked: ' }
      yield { type: 'text', text: `${question.text} <tool_call>{"name":"f"}</tool_call>` }
      yield { type: 'answer', answer: answerOf('x') }
    }
  }
}
const ECHO = '<think>It was asked: all fine? <tool_call>{"name":"f"}</tool_call>'

const start = async (t: Test, voice: Voice, options: StartOptions = {}): Promise<Rig> =>
  await startPlugin(t, createSteward(voice),
    { plugins: [staging, runners, chat], clock: systemClock, ...options })
const post = async (rig: Rig, url: string, payload: object, headers: Record<string, string> = {}) =>
  await rig.inject({ method: 'POST', url, payload: { model: STEWARD, ...payload }, headers })

const messages = [{ role: 'user', content: 'all fine?' }]
/** A request for each API, and a function that gets the text of its answer. */
const APIS: readonly [url: string, body: object, text: (answer: never) => unknown][] = [
  ['/v1/chat/completions', { messages },
    ({ choices }: { choices: { message: { content: string } }[] }) => choices[0]?.message.content],
  ['/v1/responses', { input: 'all fine?' },
    ({ output }: { output: { content: { text: string }[] }[] }) => output[0]?.content[0]?.text],
  ['/v1/messages', { messages, max_tokens: 10 },
    ({ content }: { content: { text: string }[] }) => content[0]?.text],
  ['/ollama/api/chat', { messages, stream: false },
    ({ message }: { message: { content: string } }) => message.content],
  ['/ollama/api/generate', { prompt: 'all fine?', stream: false },
    ({ response }: { response: string }) => response]
]

t.test('every chat API gives the same answer, and none of its marks means anything', async (t) => {
  const { voice, asked } = echo()
  const rig = await start(t, voice)
  for (const [url, body, text] of APIS) {
    const whole = await post(rig, url, body)
    t.equal(whole.statusCode, 200, whole.body)
    t.equal(text(whole.json() as never), ECHO, url)
    const streamed = await post(rig, url, { ...body, stream: true })
    t.match(streamed.body, 'It was asked: ', url)
    t.notMatch(streamed.body, /"tool_calls"|"tool_use"|thinking|reasoning_content/, url)
  }
  t.strictSame(asked, Array.from({ length: 10 }, () => ({ text: 'all fine?', thread: [] })))
  const { revisions } = (await rig.inject({ url: '/v1/capabilities' })).json<{ revisions: object }>()
  const call = await rig.inject({
    method: 'POST', url: '/v1/capabilities/stream',
    payload: {
      capability_id: 'chat', version: '1.0.0', payload: { model: STEWARD, messages },
      descriptor_revision: (revisions as Record<string, string>)['chat@1.0.0']
    }
  })
  t.match(call.body, /It was asked: /)
})

t.test('it is listed as a model, and nowhere as a thing with files or an instance', async (t) => {
  const rig = await start(t, echo().voice)
  const json = async (url: string): Promise<never> => (await rig.inject({ url })).json()
  const { data } = await json('/v1/models') as { data: { id: string }[] }
  t.match(data.find(({ id }) => id === STEWARD), {
    available: true, ready: true, installed: false, virtual: true, tasks: ['chat'], storage_size_megabytes: 0
  })
  const { models } = await json('/ollama/api/tags') as { models: { name: string }[] }
  t.ok(models.some(({ name }) => name === `${STEWARD}:latest`))
  t.match(await json(`/models/${STEWARD}/availability`), { available: true })
  t.match(await json(`/models/${STEWARD}/card`), { card: { modelId: STEWARD }, copies: [] })
  const state = await json('/state') as Record<string, object>
  t.strictSame([state['instances'], state['tasks']], [{}, {}])
  const pull = await rig.inject({ method: 'POST', url: `/store/models/${STEWARD}/download`, payload: {} })
  t.equal(pull.statusCode, 400, pull.body)
  t.match(pull.json(), { error: { message: /virtual model of every node/, details: { remedy: /svc run/ } } })
})

t.test('messages become a question with its thread', async (t) => {
  const said = (role: string, content: string | null): object => ({ role, content })
  const of = (...messages: object[]): Question => questionOf({ kind: 'chat', payload: { messages } })!
  t.strictSame(of(said('system', 'Obey me'), said('user', 'a'), said('assistant', 'b'), said('tool', 'c'),
    said('user', 'd')),
  { text: 'd', thread: [{ role: 'user', text: 'a' }, { role: 'assistant', text: 'b' }] })
  t.strictSame(of(said('user', 'a'), said('assistant', 'b')), { text: 'a', thread: [] })
  t.strictSame(of(said('user', 'a'), said('user', ' '), said('assistant', null)), { text: 'a', thread: [] })
  t.equal(of(...Array.from({ length: 300 }, () => said('user', 'x'))).thread.length, 100)
  t.throws(() => of(said('system', 'x')), /messages have no text of the user/)
  t.throws(() => of(said('user', 'x'.repeat(4001))), /messages end with a question of over 4000 characters/)
})

t.test('a prompt of a chat client for a title or the like gets an empty object', async (t) => {
  const { voice, asked } = echo()
  const rig = await start(t, voice)
  const chat = `<chat_history>\nUSER: all fine?\nASSISTANT: ${'Yes. '.repeat(2000)}\n</chat_history>`
  const shape = '### Output:\nJSON format: { "title": "your concise title here" }'
  const title = `### Task:\nGenerate a concise title summarizing the chat history.\n${shape}\n${chat}`
  const ask = async (content: string, more: object = {}): Promise<Awaited<ReturnType<typeof post>>> =>
    await post(rig, '/v1/chat/completions', { messages: [{ role: 'user', content }], ...more })
  const answer = await ask(title)
  t.match(answer.json(), { choices: [{ message: { content: '{}' }, finish_reason: 'stop' }] })
  t.match(answer.headers['x-svc-warning'], /^messages: svc\/steward answers questions about the cluster only/)
  t.match((await ask(title, { stream: true })).body, /"content":"\{\}"[^]*\[DONE\]/)
  t.same(asked, [])
  await ask('### Task: why is node2 down? Answer as JSON.')
  t.match(asked, [{ text: /why is node2 down/ }], 'a question that only begins alike')
})

t.test('a question about documents is read without them', async (t) => {
  const context = `<context>\n<source id="1">${'{"format": "JSON"} '.repeat(3000)}</source>\n</context>`
  const template = `### Task:\nRespond to the user query using the provided context.\n${context}\n`
  const { voice, asked } = echo()
  const rig = await start(t, voice)
  const content = `${template}\nall fine?`
  const answer = await post(rig, '/v1/chat/completions', { messages: [{ role: 'user', content }] })
  t.match(answer.json(), { choices: [{ message: { content: ECHO } }] })
  t.match(asked, [{ text: 'all fine?' }])
})

t.test('what it cannot do is refused in the words of the API', async (t) => {
  const { voice, asked } = echo()
  const rig = await start(t, voice)
  const parameters = { type: 'object', properties: {} }
  const tools = [{ type: 'function', function: { name: 'f', parameters } }]
  const image = [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:' } }] }]
  const wrong: [string, object, RegExp][] = [
    ['/v1/chat/completions', { messages, tools, tool_choice: 'required' }, /tool_choice requires a call/],
    ['/v1/chat/completions', { messages: image }, /is an image/],
    ['/v1/chat/completions', { messages, n: 2 }, /n is 2/],
    ['/v1/chat/completions', { messages, response_format: { type: 'json_object' } },
      /response_format is not/],
    ['/v1/messages', {
      messages, max_tokens: 9, tools: [{ name: 'f', input_schema: parameters }], tool_choice: { type: 'any' }
    }, /"type":"error".*tool_choice requires a call/],
    ['/ollama/api/generate', { prompt: 'x', images: ['AA'] }, /images.0 is an image/],
    ['/v1/tokenize', { messages }, /has no tokens/]
  ]
  for (const [url, body, words] of wrong) {
    const answer = await post(rig, url, body)
    t.equal(answer.statusCode, 400, answer.body)
    t.match(answer.body, words)
  }
  const others = [['/v1/completions', { prompt: 'x' }], ['/v1/embeddings', { input: 'x' }]] as const
  for (const [url, body] of others) {
    const { error } = (await post(rig, url, body)).json<{ error: object }>()
    t.match(error, { code: 'wrong_task', reason: 'wrong_task', message: /only chat/ })
  }
  t.strictSame(asked, [])
})

t.test('switched off it is in no list, and its requests say how to switch it on', async (t) => {
  const rig = await start(t, echo().voice, { settings: { steward: { enabled: false } } })
  for (const [url, body] of APIS) {
    const answer = await post(rig, url, body)
    t.equal(answer.statusCode, 404, url)
    t.match(answer.body, /steward_disabled/)
    t.match(answer.body, /svc config set steward.enabled true/)
  }
  t.notMatch((await rig.inject({ url: '/v1/models' })).body, STEWARD)
  t.match((await rig.inject({ url: `/models/${STEWARD}/availability` })).json(),
    { available: false, broken_link: 'card', remedy: /steward.enabled/ })
})

t.test('a token that may invoke only gets to know that', async (t) => {
  const { voice, asked } = echo()
  const rig = await start(t, voice, { allow: ['invoke'] })
  const { statusCode, body } = await post(rig, '/v1/chat/completions', { messages })
  t.equal(statusCode, 200)
  t.match(body, /lacks the authority `read`[^]*svc token create asker --authority read invoke/)
  t.strictSame(asked, [])
})

t.test('a cancel, and a client that goes away, end the turn', async (t) => {
  const held = heldVoice()
  const rig = await start(t, held.voice)
  const { hostname, port } = new URL(await rig.listen())
  const open = (): ReturnType<typeof httpRequest> => {
    const request = httpRequest({ hostname, port, method: 'POST', path: '/v1/chat/completions',
      headers: { 'content-type': 'application/json' } })
    request.on('error', () => {}).end(JSON.stringify({ model: STEWARD, messages, stream: true }))
    return request
  }
  const gone = open()
  await new Promise((resolve) => { gone.once('response', resolve) })
  gone.destroy()
  await until(() => held.ended === 1)
  const cancelled = open()
  const id = await new Promise<string>((resolve) => {
    cancelled.once('response', (response) => {
      response.resume()
      resolve(String(response.headers['x-svc-command-id']))
    })
  })
  t.equal((await rig.inject({ method: 'POST', url: `/v1/cancel/${id}` })).statusCode, 200)
  await until(() => held.ended === 2)
  t.equal(held.asked.length, 2)
})

t.test('with too many turns a chat route says when to come again', async (t) => {
  const held = heldVoice('')
  const rig = await start(t, held.voice)
  const ask = async (): Promise<unknown> =>
    await post(rig, '/v1/steward/ask', { question: 'x', model: undefined })
  const running = Array.from({ length: 24 }, ask)
  await until(() => held.asked.length === 8)
  for (const stream of [false, true]) {
    const refused = await post(rig, '/v1/chat/completions', { messages, stream })
    t.match([refused.statusCode, refused.headers['retry-after']], [429, /^\d+$/])
  }
  for (let turn = 0; turn < running.length; turn++) {
    await until(() => held.asked.length > turn)
    held.speak(turn)
  }
  await Promise.all(running)
})
