import t from 'tap'
import type { EngineChunk } from '../../../kernel/index.js'
import { RunnerError } from '../../runners/process/errors.js'
import { ask, END, event, fakeServer, HELLO, pause, say, start } from './kit.js'

const chunk = (payload: Record<string, unknown>): EngineChunk => ({ payload })
const token = chunk({ choices: [{ index: 0, delta: { content: 'local' } }] })
const finish = chunk({
  choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: { prompt_tokens: 1, completion_tokens: 1 }
})
const admitted = chunk({ choices: [], usage: { prompt_tokens: 1 } })

const queued = (place: number) => async function * (): AsyncGenerator<EngineChunk> {
  yield chunk({ queue: { place, slots: 1 } })
  yield token
  yield finish
}
const lost = (...before: EngineChunk[]) => async function * (): AsyncGenerator<EngineChunk> {
  yield * before
  throw new RunnerError('instance_lost', 'gone')
}
const ways: [string, (signal: AbortSignal) => AsyncIterable<EngineChunk>, string][] = [
  ['it answers', async function * () { yield * [admitted, token, finish] }, 'local'],
  ['a short queue', queued(2), 'local'],
  ['a long queue', queued(3), 'Hello'],
  ['overloaded', async function * () { throw new RunnerError('overloaded', 'full') }, 'Hello'],
  ['lost before the first token', lost(admitted), 'Hello'],
  ['slow', async function * () {
    yield admitted
    await pause(1500)
    yield * [token, finish]
  }, 'Hello'],
  ['hung', async function * (signal) {
    await new Promise((resolve) => { signal.addEventListener('abort', resolve) })
  }, 'Hello'],
  ['lost after the first token', lost(token), 'instance_lost'],
  ['nothing', async function * () { yield admitted }, 'Hello'],
  ['a wrong request', async function * () {
    throw new RunnerError('invalid_request', 'wrong')
  }, 'invalid_request']
]

t.test('from a model of the cluster to a server', async (t) => {
  const fake = await fakeServer(t)
  const rig = await start(t, {
    servers: { up: { url: fake.url, models: ['m'] } },
    models: { chat: { try: ['acme/local', 'up/m'], when: { queue: 2, first_token_seconds: 1 } } }
  }, { place: true })
  for (const [name, answer, expected] of ways) {
    rig.runners.at(-1)!.answer = (_task, signal) => answer(signal)
    const got = await ask(rig, 'chat')
    const { choices, error } = got.json() as
      { choices?: [{ message: { content: string } }], error?: { reason: string } }
    t.equal(choices?.[0].message.content ?? error?.reason, expected, name)
    if (choices === undefined) continue
    t.equal(got.headers['x-svc-model'], expected === 'local' ? 'acme/local' : 'up/m', name)
    t.equal((got.json() as { model: string }).model, 'chat')
  }
})

t.test('a model that is not placed, and none that answers', async (t) => {
  const fake = await fakeServer(t)
  const rig = await start(t, {
    servers: { up: { url: fake.url, models: ['m', 'n'] } },
    models: {
      'chat': { try: ['acme/none', 'up/m'] }, 'acme/all': { try: ['up/m', 'up/n'], spread: true },
      'no': { try: ['acme/none', 'acme/other'] }
    }
  })
  t.equal((await ask(rig, 'chat')).headers['x-svc-model'], 'up/m')
  t.match((await ask(rig, 'no')).json().error, { reason: 'no_instance', message: /acme\/other/ })
  const seen = new Set<unknown>()
  while (seen.size < 2) seen.add((await ask(rig, 'acme/all')).headers['x-svc-model'])
  fake.state.answer = (response, asked) => {
    say(event({ content: 'a' }), { open: true })(response, asked)
    response.socket?.end()
  }
  const { body } = await ask(rig, 'chat', { stream: true })
  t.match(body, /"content":"a"[^]*"reason":"provider_error"/, 'never after the first token')
  fake.state.answer = say(HELLO + END)
  fake.server.close()
  await ask(rig, 'up/m')
  t.match((await ask(rig, 'chat')).json().error,
    { reason: 'upstream_unavailable', message: /up cannot be used since 20.*ECONNREFUSED/ })
  t.match(rig.conflicts(), [{ code: 'upstream_down' }])
})
