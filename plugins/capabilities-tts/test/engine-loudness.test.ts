import t from 'tap'
import type { EngineSession } from '../../../kernel/api/engine.js'
import { ENCODINGS } from '../engine/encoder.js'
import engine, { openSpeech } from '../engine/index.js'
import { loadFamily } from '../engine/load.js'
import { amplified } from '../engine/loudness.js'
import { foreignLanguage } from '../engine/index.js'
import { embeddedSpec, piperSpec, quietEnv, refusal, say } from './engine-kit.js'

let session: EngineSession
const env = quietEnv()

t.before(async () => { session = await engine.load(await embeddedSpec(), env) })
t.teardown(async () => await session.close?.())

const TEXT = 'The birch canoe slid on the smooth planks. Glue the sheet to the dark blue background. ' +
  'It is easy to tell the depth of a well.'

function level (pcm: Buffer): { rms: number, peak: number } {
  const samples = Array.from({ length: pcm.length / 2 }, (_, i) => pcm.readInt16LE(2 * i) / 32_767)
  const squares = samples.reduce((sum, v) => sum + v * v, 0)
  const peak = samples.reduce((most, v) => Math.max(most, Math.abs(v)), 0)
  return { rms: 10 * Math.log10(squares / samples.length), peak }
}

t.test('each voice speaks at the requested loudness, without clipping', async (t) => {
  const spoken = async (fields: object): Promise<ReturnType<typeof level>> =>
    level((await say(session, { text: TEXT, encoding: 'pcm', ...fields })).bytes)
  const own = [await spoken({ voice: 'rms' }), await spoken({ voice: 'slt' })]
  t.ok(Math.abs(own[0]!.rms - own[1]!.rms) > 3, 'the voices differ by themselves')
  for (const voice of ['rms', 'slt']) {
    for (const loudness of [-20, -26]) {
      const { rms } = await spoken({ voice, loudness })
      t.ok(Math.abs(rms - loudness) < 1, `${voice}: ${rms.toFixed(1)} dBFS for ${loudness}`)
    }
  }
  const { peak } = await spoken({ voice: 'slt', loudness: -10 })
  t.ok(peak > 0.9 && peak < 1, `peak ${peak}`)
  t.same(await spoken({ voice: 'slt', loudness: null }), own[1])
  t.match(await refusal(session, { text: TEXT, loudness: 0 }),
    { reason: 'invalid_payload', message: /-40 to -10/ })
})

t.test('a voice is measured once, and an unmeasurable one keeps its level', async (t) => {
  env.announced.length = 0
  const units = async (fields: object): Promise<number> => {
    env.announced.length = 0
    await say(session, { text: 'Hello.', loudness: -20, ...fields })
    return env.announced.filter((a) => a.label === 'symbols').length
  }
  const fresh = await engine.load(await embeddedSpec(), env)
  t.teardown(async () => await fresh.close?.())
  const both = async (): Promise<number> => {
    env.announced.length = 0
    await Promise.all([1, 2].map(async () => await say(fresh, { text: 'Hello.', loudness: -20 })))
    return env.announced.filter((a) => a.label === 'symbols').length
  }
  t.equal(await both(), 3, 'two requests at once share the measurement')
  t.equal(await both(), 2)
  t.equal(await units({}), 1)

  const spec = await piperSpec(t.testdir())
  const family = await loadFamily(spec, env)
  const mute = openSpeech({ ...family, async * synth () { yield new Float32Array(4000).fill(1e-4) } }, spec)
  const quiet = await say(mute, { text: 'aaa', lang_code: 'ipa', loudness: -20, encoding: 'pcm' })
  t.ok(level(quiet.bytes).peak < 2e-4)
  await family.close()
})

t.test('samples above the knee are compressed in order, and none clips', (t) => {
  const loud = amplified(Float32Array.of(-3, -1, -0.5, 0, 0.39, 0.5, 1, 3), 2)
  t.same(loud.slice(3, 5), Float32Array.of(0, 0.78))
  t.ok(loud.every((v, i) => Math.abs(v) <= 1 && (i === 0 || v >= loud[i - 1]!)))
  t.end()
})

t.test('a text without words is silence where the client prefers it', async (t) => {
  for (const encoding of ENCODINGS) {
    const { chunks, seconds } = await say(session, { text: '🙂 漢字', encoding, silence: 0.2, loudness: -20 })
    t.same(chunks[0]!.payload, { warnings: ['words in Han are not spoken'] })
    t.same(chunks[1]!.payload,
      { warnings: ['0.2 s of silence: this voice cannot speak the text: it has words only in Han'] })
    t.ok(seconds > 0.19 && seconds < 0.4, `${encoding}: ${seconds} s`)
    t.equal(chunks.at(-1)!.payload['is_partial'], false)
  }
  const { bytes } = await say(session, { text: '🙂', encoding: 'pcm', silence: 0.2 })
  t.same(bytes, Buffer.alloc(3200 * 2))
  t.match(await refusal(session, { text: '🙂' }), { reason: 'text_unspeakable' })
})

t.test('an answer begins with what it lacks', async (t) => {
  const warnings = async (text: string, fields = {}): Promise<unknown> =>
    (await say(session, { text, max_tokens: 5, ...fields })).chunks[0]!.payload['warnings']
  t.same(await warnings('The word こんにちは means hello.'), ['words in Hiragana are not spoken'])
  t.same(await warnings('Das ist ein Test, und er ist nicht auf Englisch.'),
    ['the text is German, but is read as en-us'])
  t.equal(await warnings('Hello 🙂, naïve café, α = 2.'), undefined)
  t.equal(await warnings('das ist und nicht', { lang_code: 'ipa' }), undefined)
})

t.test('a language is foreign only if that is evident', (t) => {
  const rows: [string, string, string | undefined][] = [
    ['Der Zug nach Berlin fährt um neun Uhr von Gleis vier ab.', 'en-us', 'de'],
    ['Bonjour, je voudrais un café et des croissants pour ma fille.', 'en-us', 'fr'],
    ["La nature n'est pas un lieu que l'on visite, c'est notre maison.", 'en-gb', 'fr'],
    ['El tren para Madrid sale a las nueve de la mañana y no se puede fumar.', 'en', 'es'],
    ['Il treno per Roma parte alle nove e non si ferma a Pisa, che è una bella città.', 'en', 'it'],
    ['O trem para Lisboa sai às nove e não para em Coimbra, que é uma cidade bonita.', 'en', 'pt'],
    ['De trein naar Amsterdam vertrekt om negen uur van het vierde spoor en is niet te laat.', 'en', 'nl'],
    ['This is a test of the German voice, and it is in English.', 'de-de', 'en'],
    ['Der Zug fährt ab, und das ist gut.', 'de', undefined],
    ['Los Angeles, La Jolla, El Paso, Las Cruces', 'en-us', undefined],
    ['He said "je ne sais pas" and left; c\'est la vie.', 'en-us', undefined],
    ['Doctor de la Cruz and la Señora del Mar met in Rio de Janeiro.', 'en', undefined],
    ['I do not die in war. No.', 'en-us', undefined],
    ['This is English and it is the text', 'ca', undefined],
    ['', 'en', undefined]
  ]
  for (const [text, spoken, expected] of rows) t.equal(foreignLanguage(text, spoken), expected, text)
  t.end()
})
