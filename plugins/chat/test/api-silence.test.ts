/** Streams while the engine is silent: they start, send keep-alives, and report a failure in one event. */
import t from 'tap'
import { kernelError } from '../../../kernel/index.js'
import { manualClock } from '../../../kernel/testing/index.js'
import { admitted, gate, hello, MODEL, saying, startChat, until, type Open } from './api-kit.js'

const ALIVE = ': keep-alive\n\n'
const COMMENTS = /^: keep-alive\n\n: command_id [\da-f-]{36}\n\n$/
/** Per streaming route: the request body, the first bytes of the stream, and the start of a failure event. */
const ROUTES: [url: string, body: object, opening: RegExp, failure: string][] = [
  ['/v1/chat/completions', hello, COMMENTS, 'data: '],
  ['/v1/completions', { model: MODEL, prompt: 'Hi' }, COMMENTS, 'data: '],
  ['/v1/responses', { model: MODEL, input: 'Hi' }, COMMENTS, 'event: error\ndata: '],
  ['/v1/messages', { ...hello, max_tokens: 5 }, /^: keep-alive\n\n$/, 'event: error\ndata: '],
  ['/ollama/api/chat', hello, /^$/, ''],
  ['/ollama/api/generate', { model: MODEL, prompt: 'Hi' }, /^$/, '']
]

for (const [url, body, opening, failure] of ROUTES) {
  t.test(`${url} opens while the engine is silent, and tells a loss in one event`, async (t) => {
    const clock = manualClock()
    const held = gate()
    const { rig, asked } = await startChat(t, {
      clock,
      open: async function * () {
        await held.opened
        throw kernelError('instance_lost', 'The instance was lost.')
        yield admitted()
      }
    })
    const asking = fetch(`${await rig.listen()}${url}`, {
      method: 'POST', headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...body, stream: true })
    })
    await until(() => asked.tasks.length === 1)
    await clock.advance(1000)
    const { status, body: stream, headers } = await asking
    t.equal(status, 200)
    t.ok(headers.get('x-svc-task-id'))
    const reader = stream!.pipeThrough(new TextDecoderStream()).getReader()
    const more = async (): Promise<string> => (await reader.read()).value ?? ''
    let text = ''
    while (!opening.test(text)) text += await more()
    await clock.advance(10_000)
    if (opening.test(ALIVE)) t.match(await more(), /ping/)
    else if (!opening.test('')) t.equal(await more(), ALIVE)
    held.open()
    let last = ''
    for (let piece = await more(); piece !== ''; piece = await more()) last += piece
    t.ok(last.startsWith(failure), last)
    const said = JSON.parse(last.slice(failure.length)) as object
    t.match(JSON.stringify(said), /The instance was lost/)
    t.match(JSON.stringify(said), /instance_lost/)
  })
}

t.test('an open stream is made elsewhere when its instance is lost before it began', async (t) => {
  const clock = manualClock()
  const held = gate()
  const open: Open = async function * (task, signal, instanceId) {
    if (instanceId === 'i1') {
      await held.opened
      throw kernelError('instance_lost')
    }
    yield * saying('Hello')(task, signal, instanceId)
  }
  const { post, asked } = await startChat(t, { clock, open })
  const answer = post('/v1/chat/completions', { ...hello, stream: true }, { 'x-svc-retry': '1' })
  await until(() => asked.tasks.length === 1)
  await clock.advance(1000)
  held.open()
  const { statusCode, body } = await answer
  t.equal(statusCode, 200)
  t.match(body, /^: keep-alive\n\n.*Hello.*\[DONE\]/s)
})
