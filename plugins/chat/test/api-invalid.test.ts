/** Answers that violate their schema, as the engine reports them. */
import t from 'tap'
import { EngineError } from '../../../kernel/index.js'
import { admitted, delta, done, hello, MODEL, startChat, values, type Open } from './api-kit.js'

const remedy = 'leave multipleOf out'
/** The engine's next `left` answers produce text and then fail with `reason`. */
let [left, reason] = [0, 'invalid_result']
const open: Open = async function * () {
  yield admitted()
  yield delta('{"a":3}')
  if (left-- > 0) throw new EngineError(reason, 'the answer, at /a: must be multiple of 2', { remedy })
  yield done()
}
const { post, asked } = await startChat(t, { open })
/** The response, and how many tasks the engine got. */
async function ask (url: string, body: object, invalid: number) {
  const before = asked.tasks.length
  left = invalid
  const answer = await post(url, body)
  return { answer, tasks: asked.tasks.slice(before) }
}

const input = { model: MODEL, input: 'Hi' }
const APIS: [url: string, body: object][] = [
  ['/v1/chat/completions', hello], ['/v1/completions', { model: MODEL, prompt: 'Hi' }],
  ['/v1/responses', input], ['/v1/messages', { ...hello, max_tokens: 9 }],
  ['/ollama/api/chat', { ...hello, stream: false }]
]

t.test('an invalid answer that was not streamed is asked for once more', async (t) => {
  for (const each of ['tool_call_unreadable', 'invalid_result']) {
    reason = each
    for (const [url, body] of APIS) {
      const { answer, tasks } = await ask(url, body, 1)
      t.equal(answer.statusCode, 200, `${url} ${answer.body}`)
      t.match(answer.body, /a\\":3/)
      t.equal(tasks.length, 2)
    }
  }
  const { tasks } = await ask(APIS[0]![0], { ...hello, seed: 7 }, 1)
  t.same(tasks.map(({ payload }) => payload['seed']), [7, 8], 'the same seed gives the same answer')
})

t.test('a second invalid answer is an error with its place and a remedy', async (t) => {
  for (const [url, body] of APIS) {
    const { answer, tasks } = await ask(url, body, 2)
    t.equal(answer.statusCode, 502, url)
    t.match(answer.body, /the answer, at \/a: must be multiple of 2/)
    t.equal(answer.headers['x-should-retry'], 'false', 'clients ask no third time')
    t.equal(tasks.length, 2)
  }
  const { answer } = await ask(APIS[0]![0], hello, 2)
  t.match(answer.json(), { error: { reason: 'invalid_result', details: { remedy } } })
})

t.test('an invalid answer that was streamed ends with one error and no end of its own', async (t) => {
  for (const [url, body] of APIS) {
    const { answer, tasks } = await ask(url, { ...body, stream: true }, 2)
    t.match(answer.body, /must be multiple of 2/, url)
    t.notMatch(answer.body, /"(finish|stop|done)_reason":"|response\.completed|\[DONE\]|"done":true/, url)
    t.equal(tasks.length, 1, 'what was sent cannot be taken back')
  }
  const events = values((await ask(APIS[0]![0], { ...hello, stream: true }, 2)).answer.body)
  t.equal(events.filter((event) => 'error' in event).length, 1)
  t.match(events.at(-1), { error: { reason: 'invalid_result' } })
})
