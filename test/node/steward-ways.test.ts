/** A question through any client gets the same answer, streamed or whole. */
import t from 'tap'
import Anthropic from '@anthropic-ai/sdk'
import { Ollama } from 'ollama'
import OpenAI from 'openai'
import { ask, refusal } from './http.js'
import { startNode, svc, type TestNode } from './kit.js'
import { tokenWith } from './routes.js'

const model = 'svc/steward'
const question = 'what is running?'
const messages = [{ role: 'user' as const, content: question }]

interface Reply { text: string, diagnosis: string, evidence: object[], voice: string }

/** Joins the pieces of a streamed answer. */
async function joined<T> (
  pieces: AsyncIterable<T>, textOf: (piece: T) => string | null | undefined
): Promise<string> {
  let text = ''
  for await (const piece of pieces) text += textOf(piece) ?? ''
  return text
}

/** Each client's answers to the same question, streamed and whole. */
async function answers ({ url, token, home }: TestNode): Promise<Record<string, string>> {
  const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: token, maxRetries: 0 })
  const anthropic = new Anthropic({ baseURL: url, apiKey: token, maxRetries: 0 })
  const ollama = new Ollama({ host: `${url}/ollama`, headers: { authorization: `Bearer ${token}` } })
  const claude = { model, messages, max_tokens: 100 }
  const chat = { model, messages }
  const [choice] = (await openai.chat.completions.create(chat)).choices
  const [block] = (await anthropic.messages.create(claude)).content
  return {
    'chat, whole': choice?.message.content ?? '',
    'chat, streamed': await joined(await openai.chat.completions.create({ ...chat, stream: true }),
      ({ choices }) => choices[0]?.delta.content),
    'responses, whole': (await openai.responses.create({ model, input: question })).output_text ?? '',
    'responses, streamed': await joined(
      await openai.responses.create({ model, input: question, stream: true }),
      (event) => event.type === 'response.output_text.delta' ? event.delta : ''),
    'messages, whole': block?.type === 'text' ? block.text : '',
    'messages, streamed': await anthropic.messages.stream(claude).finalText(),
    'ollama chat, whole': (await ollama.chat(chat)).message.content,
    'ollama chat, streamed': await joined(await ollama.chat({ ...chat, stream: true }),
      ({ message }) => message.content),
    'ollama generate, whole': (await ollama.generate({ model, prompt: question })).response ?? '',
    'ollama generate, streamed': await joined(
      await ollama.generate({ model, prompt: question, stream: true }), ({ response }) => response),
    'svc run': (await svc(['run', model, question, '--home', home])).stdout
  }
}

t.test('the steward gives every client the same answer', async (t) => {
  const node = await startNode(t)
  const { status, json, text: body } = await ask(node, '/v1/steward/ask', { body: { question } })
  t.equal(status, 200, body)
  const whole = json as Reply
  t.match(whole, { diagnosis: /2/, voice: 'reader' })
  t.match(whole.text, /svc\/voice-en/)

  t.test('svc ask with arguments, a pipe and --json', async (t) => {
    const args = ['--home', node.home]
    t.strictSame(await svc(['ask', ...question.split(' '), ...args]),
      { status: 0, stdout: whole.text, stderr: '' })
    t.equal((await svc(['ask', ...args], { input: `${question}\n` })).stdout, whole.text)
    const told = JSON.parse((await svc(['ask', question, '--json', ...args])).stdout) as Reply
    t.match(told, { diagnosis: whole.diagnosis, text: whole.text, evidence: whole.evidence })
  })

  t.test('the route, streamed', async (t) => {
    const { headers, text } = await ask(node, '/v1/steward/ask', { body: { question, stream: true } })
    t.match(headers, { 'content-type': 'text/event-stream' })
    const events = text.split('\n').filter((line) => line.startsWith('data: '))
      .map((line) => JSON.parse(line.slice(6)) as { type: string, text: string })
    t.equal(events[0]?.type, 'call')
    t.equal(events.at(-1)?.type, 'answer')
    t.equal(events.map(({ type, text }) => type === 'text' ? text : '').join(''), whole.text)
  })

  t.test('every chat API, with real clients', async (t) => {
    for (const [way, text] of Object.entries(await answers(node))) {
      t.equal(text.trim(), whole.text.trim(), way)
    }
  })

  t.test('it is listed as a model without an instance', async (t) => {
    const { data } = (await ask(node, '/v1/models')).json as { data: { id: string }[] }
    t.match(data.find(({ id }) => id === model), { ready: true, available: true, virtual: true })
    for (const verb of ['ls', 'ps']) {
      t.notMatch((await svc([verb, '--home', node.home])).stdout, model, verb)
    }
    t.match((await svc(['why', model, '--home', node.home])).stdout, /ok {2}request/)
    for (const verb of ['place', 'pull', 'rm']) {
      t.match(await svc([verb, model, '--home', node.home]),
        { status: 2, stderr: /svc\/steward is a virtual model of every node/ }, verb)
    }
    t.equal(node.runners().length, 2, 'the voice and the guide, as before')
  })

  t.test('a token with only `invoke` is refused the cluster\'s data', async (t) => {
    const token = await tokenWith(node, ['invoke'])
    const { status, text } = await ask(node, '/v1/chat/completions', { body: { model, messages }, token })
    t.equal(status, 200)
    t.match(text, /lacks the authority `read`/)
    t.notMatch(text, /voice-en/)
    const refused = await ask(node, '/v1/steward/ask', { body: { question }, token })
    t.match(refusal(refused), { reason: 'missing_grant' })
  })
})

t.test('switched off, every client gets the reason and the remedy', async (t) => {
  const config = { steward: { enabled: false }, plugins: { placement: { autoplace: [] } } }
  const node = await startNode(t, { config })
  const remedy = /svc config set steward\.enabled true/
  const off = { reason: 'steward_disabled', code: 404, details: { remedy } }
  t.match(refusal(await ask(node, '/v1/steward/ask', { body: { question } })), off)
  t.match(refusal(await ask(node, '/v1/chat/completions', { body: { model, messages } })),
    { ...off, code: 'steward_disabled' })
  t.match(refusal(await ask(node, '/ollama/api/chat', { body: { model, messages } })), off)
  t.match(await svc(['ask', question, '--home', node.home]), { status: 3, stderr: /steward_disabled/ })
  t.match(await svc(['run', model, question, '--home', node.home]), { status: 3, stderr: /steward_disabled/ })
  t.match((await ask(node, '/v1/steward')).json, { enabled: false, ready: false, state: 'disabled' })
  await node.kill()
  t.match(await svc(['ask', question, '--url', node.url]),
    { status: 7, stderr: /no node answers at [^]*svc up[^]*svc doctor/ })
})
