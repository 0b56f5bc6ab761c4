/** Threads of Anthropic's API that a node stores. */
import t from 'tap'
import Anthropic from '@anthropic-ai/sdk'
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema'
import { ResponseStore } from '../api/response-store.js'
import { admitted, call, delta, done, failure, MODEL, startChat, type Kit, type Open } from './api-kit.js'
import type { EngineTask } from '../../../kernel/index.js'

t.test('what is kept is its owner\'s, and the oldest goes first', (t) => {
  const kept = new ResponseStore<{ text: string }>(50)
  const value = (text: string) => ({ text })
  kept.put('a', 'me', value('aaaa'))
  kept.put('b', 'me', value('bbbb'))
  kept.put('c', 'me', value('cccc'))
  t.same(kept.get('a', 'me'), value('aaaa'))
  t.equal(kept.get('a', 'you'), undefined)
  t.equal(kept.delete('a', 'you'), false)
  kept.put('d', 'me', value('dddd'))
  t.equal(kept.get('b', 'me'), undefined, 'the one that was not used for longest')
  t.same(['a', 'c', 'd'].map((id) => kept.get(id, 'me')?.text), ['aaaa', 'cccc', 'dddd'])
  kept.put('e', 'me', value('e'.repeat(60)))
  t.equal(kept.get('e', 'me'), undefined, 'more than all the room')
  t.equal(kept.delete('c', 'me'), true)
  t.equal(kept.get('c', 'me'), undefined)
  t.end()
})

/** An engine that answers with the number of messages it got, and counts 10 tokens per message. */
const counting: Open = async function * ({ kind, payload }: EngineTask) {
  const { messages } = payload as { messages: unknown[] }
  if (kind === 'tokenize') {
    yield { payload: { kind: 'tokens', tokens: [], count: messages.length * 10, context_length: 128 } }
    return
  }
  yield admitted()
  yield delta(`I know ${messages.length}.`)
  yield done()
}

const messagesIn = ({ asked }: Kit): unknown =>
  (asked.tasks.at(-1)?.payload as { messages: unknown }).messages
const user = (content: string): { role: 'user', content: string } => ({ role: 'user', content })

t.test('anthropic: threads, counts, and ids of requests', async (t) => {
  const kit = await startChat(t, { open: counting })
  const baseURL = await kit.rig.listen()
  const client = new Anthropic({ baseURL, apiKey: 'none', maxRetries: 0 })
  const thread = client.beta.messages.thread({ model: MODEL, max_tokens: 9, system: 'Be brief.' })
  const first = await thread.send({ role: 'user', content: 'One?' })
  await thread.stream({ role: 'user', content: 'Two?' }).finalMessage()
  t.same(messagesIn(kit), [{ role: 'system', content: 'Be brief.' }, user('One?'),
    { role: 'assistant', content: 'I know 2.' }, user('Two?')])
  t.match(await thread.send({ role: 'user', content: 'Three?' }), { content: [{ text: 'I know 6.' }] })
  const go = (id: string, more: object = {}) => client.beta.messages.create({
    model: MODEL, max_tokens: 9, messages: [user('Go on.')],
    thread: { type: 'continue', previous_message_id: id }, ...more
  })
  const error = { type: 'not_found_error', reason: 'not_kept', details: { error_code: 'thread_not_found' } }
  t.match(await failure(go('msg_none')), { status: 404, error: { error }, requestID: /^[0-9a-f-]{36}$/ })
  t.match(await failure(go(first.id, { system: 'x' })),
    { status: 400, message: /system belongs to the thread/ })
  t.match(await client.messages.countTokens({ model: MODEL, messages: [user('a'), user('b')], system: 'x' }),
    { input_tokens: 30 })
  const { request_id: id } = await client.messages.create({
    model: MODEL, max_tokens: 9, messages: [user('Hi')]
  }).withResponse()
  t.match(id, /^[0-9a-f-]{36}$/)
  const begun = client.messages.create({
    model: MODEL, max_tokens: 9, messages: [user('Hi'), { role: 'assistant', content: 'So' }]
  })
  t.match(await failure(begun), { status: 400, message: /must end with a user message/ })
})

t.test('anthropic: the tool runner over several turns, with a thread and without', async (t) => {
  const kit = await startChat(t, { open: async function * ({ payload }) {
    const { messages } = payload as { messages: { role: string, content: string }[] }
    const results = messages.filter(({ role }) => role === 'tool').map(({ content }) => content)
    yield admitted()
    yield results.length < 2
      ? call('add', `{"a": ${results.length + 1}}`)
      : delta(`The sum is ${results.join(' and ')}.`)
    yield done(results.length < 2 ? 'tool_calls' : 'stop')
  } })
  const client = new Anthropic({ baseURL: await kit.rig.listen(), apiKey: 'none', maxRetries: 0 })
  const add = betaTool({
    name: 'add', description: 'Adds one.',
    inputSchema: { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] },
    run: ({ a }) => a === 2 ? Promise.reject(new Error('no two')) : String(a + 1)
  })
  for (const thread of [undefined, false] as const) {
    const runner = client.beta.messages.toolRunner({
      model: MODEL, max_tokens: 99, messages: [user('Add.')], tools: [add],
      ...thread === undefined ? {} : { thread }
    })
    const last = await runner.runUntilDone()
    t.match(last.content, [{ type: 'text', text: /^The sum is 2 and Error: .*no two/ }])
  }
})
