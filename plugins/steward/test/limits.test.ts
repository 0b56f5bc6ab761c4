/** Tests the limits on turns, and how their streams start, run and end. */
import { request as httpRequest, type IncomingMessage } from 'node:http'
import t, { type Test } from 'tap'
import { startPlugin, type Rig, type StartOptions } from '../../../kernel/testing/index.js'
import { createSteward } from '../index.js'
import { heldVoice, until, type HeldVoice } from './voices.js'
import type { Voice } from '../ask.js'

const body = (more: object = {}): object => ({ question: 'is everything fine?', ...more })
const post = (rig: Rig, payload: object = body()): ReturnType<Rig['inject']> =>
  rig.inject({ method: 'POST', url: '/v1/steward/ask', payload })
const start = async (t: Test, voice: Voice, options: StartOptions = {}): Promise<Rig> =>
  await startPlugin(t, createSteward(voice), options)
const tick = async (): Promise<void> => { await new Promise((resolve) => { setImmediate(resolve) }) }
/** Lets `turns` turns finish, in order of arrival. */
async function speakAll ({ asked, speak }: HeldVoice, turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn++) {
    await until(() => asked.length > turn)
    speak(turn)
  }
}
const events = (text: string): object[] => text.split('\n').filter((line) => line.startsWith('data: '))
  .map((line) => JSON.parse(line.slice(6)) as object)

/** A question over a real connection; `gone` aborts it, as a client that disconnects does. */
function asking (t: Test, url: string, payload = body({ stream: true })): {
  answered: Promise<IncomingMessage>, gone: () => void
} {
  const { hostname, port } = new URL(url)
  const request = httpRequest({ hostname, port, method: 'POST', path: '/v1/steward/ask', agent: false,
    headers: { 'content-type': 'application/json' } })
  const gone = (): void => { request.destroy() }
  t.teardown(gone)
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    request.on('error', reject).on('response', resolve).end(JSON.stringify(payload))
  })
  answered.catch(() => {})
  return { answered, gone }
}

/** A stream over a real connection, and its received data. */
async function streamed (t: Test, rig: Rig): Promise<{ response: IncomingMessage, text: () => string }> {
  const response = await asking(t, await rig.listen()).answered
  let text = ''
  response.setEncoding('utf8').on('data', (part: string) => { text += part }).on('error', () => {})
  return { response, text: () => text }
}

t.test('an answer streams, and a silent stream shows that it is alive', async (t) => {
  const held = heldVoice()
  const rig = await start(t, held.voice)
  const { response, text } = await streamed(t, rig)
  await until(() => text() !== '')
  t.match(response.headers, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
  t.equal(text(), 'data: {"type":"text","text":"So: "}\n\n')
  await rig.clock.advance(10_000)
  await until(() => text().includes('alive'))
  t.match(text(), /: keep-alive\n\n$/)
  held.speak(0)
  await until(() => response.complete)
  t.match(events(text()), [{ text: 'So: ' }, { text: 'Fine.' }, { type: 'answer', answer: { sure: true } }])
  t.equal(held.ended, 1)
})

t.test('eight turns run, sixteen wait, and the next is told when to come again', async (t) => {
  const held = heldVoice()
  const rig = await start(t, held.voice)
  const running = Array.from({ length: 24 }, async () => await post(rig))
  await until(() => held.asked.length === 8)
  const refused = await post(rig)
  t.equal(refused.statusCode, 429)
  t.match(refused.headers, { 'retry-after': /^\d+$/ })
  t.match(JSON.parse(refused.body), { error: { reason: 'overloaded', retryable: true } })
  await speakAll(held, 24)
  for (const answer of await Promise.all(running)) {
    t.match(JSON.parse(answer.body), { diagnosis: 'Fine.', text: 'So: Fine.' })
  }
})

t.test('a turn ends after 30 s, with an error body or an event', async (t) => {
  for (const [stream, first] of [[false, 'So: '], [true, 'So: '], [true, '']] as const) {
    let asked = false
    // A voice that hangs after its first word and ignores its signal.
    const deaf: Voice = async function * () {
      asked = true
      if (first !== '') yield { type: 'text', text: first }
      await new Promise(() => {})
    }
    const rig = await start(t, deaf)
    const answer = post(rig, body({ stream }))
    await until(() => asked)
    for (let i = 0; i < 3; i++) await rig.clock.advance(10_000)
    const { statusCode, body: text } = await answer
    const error = { error: { reason: 'timeout', code: 504, message: /within 30 seconds/, requestId: String } }
    t.equal(statusCode, stream ? 200 : 504)
    t.match(stream ? events(text).at(-1) : JSON.parse(text), error)
  }
})

t.test('who goes away ends the turn', async (t) => {
  const held = heldVoice()
  const rig = await start(t, held.voice)
  const { response, text } = await streamed(t, rig)
  await until(() => text() !== '')
  response.destroy()
  await until(() => held.ended === 1)
  t.equal((await rig.inject({ url: '/v1/steward' })).statusCode, 200)
})

t.test('who goes away makes room at once for who waits, streamed or whole', async (t) => {
  const held = heldVoice('')
  const rig = await start(t, held.voice)
  const url = await rig.listen()
  const all = Array.from({ length: 8 }, (_, i) => asking(t, url, body({ stream: i % 2 === 0 })))
  await until(() => held.asked.length === 8)
  const waiting = Array.from({ length: 16 }, async () => await post(rig))
  t.equal((await post(rig)).statusCode, 429, 'all places are taken')
  for (const { gone } of all) gone()
  await until(() => held.ended === 8)
  await until(() => held.asked.length === 16)
  const more = Array.from({ length: 8 }, async () => await post(rig))
  await speakAll(held, 32)
  const answers = await Promise.all([...waiting, ...more])
  t.strictSame(answers.map(({ statusCode }) => statusCode), Array(24).fill(200))
})

t.test('who does not read loses his place', async (t) => {
  let [begun, ended] = [0, 0]
  const flood: Voice = async function * () {
    begun++
    try {
      for (;;) yield { type: 'text', text: 'x'.repeat(64 * 1024) }
    } finally {
      ended++
    }
  }
  const held = heldVoice('')
  const rig = await start(t, (...asked) => begun < 8 ? flood(...asked) : held.voice(...asked))
  const url = await rig.listen()
  const streams = await Promise.all(Array.from({ length: 8 }, async () => await asking(t, url).answered))
  while (ended < 8) {
    await rig.clock.advance(1000)
    await tick()
  }
  const [{ statusCode }] = await Promise.all([post(rig), speakAll(held, 1)])
  t.equal(statusCode, 200)
  await rig.clock.advance(60_000)
  await Promise.all(streams.map(async (stream) => {
    await new Promise<void>((resolve) => { stream.on('error', () => {}).once('close', resolve).resume() })
  }))
})

t.test('what fails before the first word is an ordinary error, and shows nothing of its cause', async (t) => {
  for (const [first, status] of [['', 500], ['So: ', 200]] as const) {
    const broken: Voice = async function * () {
      if (first !== '') yield { type: 'text', text: first }
      throw new Error('secret')
    }
    const rig = await start(t, broken)
    const { statusCode, body: text } = await post(rig, body({ stream: true }))
    t.equal(statusCode, status)
    t.match(status === 200 ? events(text)[1] : JSON.parse(text), { error: { reason: 'internal', code: 500 } })
    t.notMatch(text, /secret/)
    t.ok(rig.logged.some(({ level, fields }) => level === 'error' && /secret/.test(String(fields['err']))))
  }
})

t.test('a wrong body is refused with the field', async (t) => {
  const rig = await start(t, heldVoice().voice)
  const wrong: [object, string][] = [
    [{}, 'question'], [{ question: 7 }, 'question'], [{ question: '' }, 'question'],
    [{ question: ' \n' }, 'question'], [{ question: 'x'.repeat(4001) }, 'question'],
    [body({ thread: 'x' }), 'thread'], [body({ thread: [{ role: 'system', text: 'x' }] }), 'thread/0/role'],
    [body({ thread: [{ role: 'user' }] }), 'thread/0/text'], [body({ stream: 1 }), 'stream'],
    [body({ model: 'x' }), 'model']
  ]
  for (const [payload, field] of wrong) {
    const { statusCode, body: text } = await post(rig, payload)
    t.equal(statusCode, 400, text)
    const { error: { param, message } } = JSON.parse(text) as { error: Record<string, string> }
    t.match(`${param} ${message}`.replaceAll('.', '/'), field, JSON.stringify(payload).slice(0, 60))
  }
})
