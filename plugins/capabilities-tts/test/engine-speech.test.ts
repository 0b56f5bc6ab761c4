import t from 'tap'
import type { EngineSession } from '../../../kernel/api/engine.js'
import engine from '../engine/index.js'
import { walkFrames } from './mp3.js'
import { sentences, splitPhonemes } from '../engine/phonemes.js'
import { embeddedSpec, IPA, quietEnv, refusal, say, type Answer } from './engine-kit.js'

let session: EngineSession
const env = quietEnv()

t.before(async () => {
  session = await engine.load(await embeddedSpec(), env)
  await session.warmup()
})

t.teardown(async () => await session.close?.())

const TEXT = 'The node has joined the cluster. It is ready to speak, and it says so at once!'

function checkChunks (t: Test, answer: Answer, format: string): void {
  answer.chunks.forEach((chunk, i) => {
    const last = i === answer.chunks.length - 1
    t.same(chunk.payload, {
      model: 'svc/voice-en', format, chunk_index: i, sample_rate: 16_000, is_partial: !last
    })
    t.ok((chunk.media?.length ?? 0) > 0, `chunk ${i} has bytes`)
  })
  let at = 0
  for (const { timing } of answer.chunks) {
    t.ok(
      timing !== undefined && Math.abs(timing.timestampSeconds - at) < 1e-9,
      'chunks follow each other in time'
    )
    at += timing?.durationSeconds ?? 0
  }
}

type Test = Pick<typeof t, 'ok' | 'same'>

t.test('an answer is numbered chunks of whole frames, the last one marked', async (t) => {
  const mp3 = await say(session, { text: TEXT, streaming_interval: 0.2 })
  checkChunks(t, mp3, 'mp3')
  t.ok(mp3.chunks.every((c) => walkFrames(c.media ?? new Uint8Array()).rest === 0), 'frames are never cut')
  t.ok(mp3.chunks.length > 5)
  const pcm = await say(session, { text: TEXT, encoding: 'pcm' })
  checkChunks(t, pcm, 'pcm')
  const samples = pcm.bytes.length / 2
  const extra = mp3.seconds * 16_000 - samples
  t.ok(extra >= 1104 && extra <= 1105 + 2 * 576, `MP3 is ${extra} samples longer: delay and one padded frame`)
  const wav = await say(session, { text: TEXT, encoding: 'wav' })
  checkChunks(t, wav, 'wav')
  t.equal(wav.bytes.length, pcm.bytes.length + 44)
})

t.test('streaming_interval is the length of the chunks, and changes nothing else', async (t) => {
  const whole = await say(session, { text: TEXT, streaming_interval: 60, encoding: 'pcm' })
  for (const interval of [0.05, 0.3, 1]) {
    const { chunks, bytes } = await say(
      session, { text: TEXT, streaming_interval: interval, encoding: 'pcm' }
    )
    const lengths = chunks.map((c) => c.timing?.durationSeconds ?? 0)
    t.ok(Math.max(...lengths) <= interval + 0.001, `${interval} s: none longer (${Math.max(...lengths)})`)
    t.ok((lengths[0] ?? 0) <= 0.121, 'the first is short')
    if (lengths.length > 8) t.ok(Math.abs((lengths[6] ?? 0) - interval) < 0.001, `${interval} s: reached`)
    const apart = Array.from(
      { length: bytes.length / 2 },
      (_, i) => Math.abs(bytes.readInt16LE(2 * i) - whole.bytes.readInt16LE(2 * i))
    )
    t.ok(bytes.length === whole.bytes.length && Math.max(...apart) <= 1, `${interval} s: the same sound`)
  }
})

t.test('an abort ends the answer within a chunk, without a last one', async (t) => {
  const stop = new AbortController()
  const chunks = []
  for await (const chunk of session.run(
    { kind: 'tts', payload: { text: TEXT.repeat(20), streaming_interval: 0.1 } }, stop.signal
  )) {
    chunks.push(chunk)
    if (chunks.length === 3) stop.abort()
  }
  t.equal(chunks.length, 3)
  t.ok(chunks.every((c) => c.payload['is_partial'] === true))
  const early = await say(session, { text: TEXT }, AbortSignal.abort())
  t.equal(early.chunks.length, 0)
})

t.test('text without anything to say is refused', async (t) => {
  for (const text of ['...', ' ', '?!', '🙂🙂', '漢字']) {
    t.match(await refusal(session, { text }), { reason: 'text_unspeakable' }, JSON.stringify(text))
  }
  t.match(await refusal(session, { text: '.,;', lang_code: 'ipa' }), { reason: 'text_unspeakable' })
  t.ok((await say(session, { text: 'Hello 🙂 world, 漢字!' })).seconds > 0.5, 'what can be said is said')
})

t.test('another kind of task is refused', async (t) => {
  await t.rejects(session.run(
    { kind: 'chat', payload: {} }, new AbortController().signal
  )[Symbol.asyncIterator]().next(),
  { reason: 'invalid_payload', message: /serves tts, not chat/ })
})

t.test('native runs are announced with their size', async (t) => {
  env.announced.length = 0
  await say(session, { text: TEXT })
  t.ok(env.announced.some((a) => a.label === 'symbols' && a.units > 20))
  t.ok(env.announced.some((a) => a.label === 'frames' && a.units > 20))
})

t.test('a very long text starts at once and is spoken piece by piece', async (t) => {
  const text = 'This is one of a great many sentences, and each of them is short. '.repeat(1600)
  t.ok(text.length > 100_000)
  const stop = new AbortController()
  env.announced.length = 0
  for await (const chunk of session.run({ kind: 'tts', payload: { text } }, stop.signal)) {
    t.equal(chunk.payload['chunk_index'], 0)
    stop.abort()
  }
  t.equal(env.announced.filter((a) => a.label === 'symbols').length, 1, 'one sentence was worked on')
  const blob = 'a'.repeat(100_000)
  const { seconds } = await say(session, { text: blob, lang_code: 'ipa', max_tokens: 400 })
  t.ok(seconds > 1 && seconds < 120, `a text without a single break: ${seconds} s`)
})

t.test('info names rate, voices and limits', async (t) => {
  t.match(session.info(), {
    family: 'flite', sampleRate: 16_000, streams: true, seeded: true, limits: {
      speed: { min: 0.25, max: 4 }
    },
    voices: [{ id: 'rms' }, { id: 'slt' }]
  })
})

t.test('phoneme strings are split at the best place within the limit', async (t) => {
  const check = (text: string, maxSymbols: number, firstSymbols: number, parts: string[]): void => {
    t.same([...splitPhonemes(text, { maxSymbols, firstSymbols }, true)], parts, text)
  }
  check('one two', 20, 20, ['one two'])
  check('one, two; three four', 12, 50, ['one, two;', 'three four'])
  check('one two three', 8, 50, ['one two', 'three'])
  check('abcdefghij', 4, 50, ['abcd', 'efgh', 'ij'])
  check('a first clause, then a long rest', 50, 10, ['a first clause,', 'then a long rest'])
  check(IPA, 200, 60, [IPA.slice(0, IPA.indexOf(',') + 1), IPA.slice(IPA.indexOf(',') + 2)])
})

t.test('sentences are never longer than a page and never cut a symbol', async (t) => {
  t.same([...sentences('One. Two!  Three', 'en')], ['One.', 'Two!', 'Three'])
  t.same([...sentences('  ', 'no-such-language')], [])
  t.same([...sentences('<p>Caf&eacute; <b>noir</b>.</p><p>&Ccedil;a va&nbsp;?</p>', 'fr')],
    ['Café noir.', 'Ça va ?'], 'without markup in every language')
  const emoji = [...sentences('😀'.repeat(700), 'en')]
  t.equal(emoji.join(''), '😀'.repeat(700))
  t.ok(emoji.every((part) => part.length <= 600 && !/\p{Surrogate}/u.test(part)))
})
