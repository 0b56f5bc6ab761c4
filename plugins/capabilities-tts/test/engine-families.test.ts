import { createHash } from 'node:crypto'
import { access, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { EngineSession, ModelSpec } from '../../../kernel/api/engine.js'
import engine, { openSpeech } from '../engine/index.js'
import { seedScale } from '../engine/vits.js'
import { styleRow } from '../engine/kokoro.js'
import { loadFamily } from '../engine/load.js'
import { walkFrames } from './mp3.js'
import { espeakFront, findEspeak, type Espeak } from '../engine/phonemes.js'
import { supportOf } from '../card-reader.js'
import { packOf } from '../style-packs.js'
import { symbolSubstitutes } from '../text/symbols.js'
import { FIXTURE_SYMBOLS, TINY } from './fixtures/make-graphs.js'
import {
  cardOf, DATA_DIR, embeddedSpec, IPA, kokoroSpec, piperSpec, quietEnv, refusal, say
} from './engine-kit.js'

const none = async (): Promise<undefined> => undefined

async function open (
  spec: ModelSpec, espeak: () => Promise<Espeak | undefined> = none
): Promise<EngineSession> {
  return openSpeech(await loadFamily(spec, quietEnv(), espeak), spec)
}

const FIELDS = ['text', 'voice', 'speed', 'temperature', 'seed', 'max_tokens', 'top_p', 'top_k', 'lang_code',
  'repetition_penalty', 'instruct', 'streaming_interval', 'response_format']

interface Case { name: string, spec: ModelSpec, voices: [string, string] }

async function families (dir: string): Promise<Case[]> {
  return [
    { name: 'flite', spec: await embeddedSpec(), voices: ['rms', 'slt'] },
    { name: 'piper', spec: await piperSpec(join(dir, 'one')), voices: ['default', 'default'] },
    {
      name: 'piper, speakers', spec: await piperSpec(join(dir, 'many'), { shape: { ...TINY, speakers: 3 } }),
      voices: ['s0', 's2']
    },
    {
      name: 'kokoro',
      spec: await kokoroSpec(join(dir, 'kokoro'), { tokens: 'input_ids', speed: 'float32', noise: true }),
      voices: ['af_one', 'bm_two']
    }
  ]
}

t.test('every family: seed, speed, voice and max_tokens do what they mean', async (t) => {
  for (const { name, spec, voices } of await families(t.testdir())) {
    const session = await open(spec)
    await session.warmup()
    const ask = async (fields: Record<string, unknown>): ReturnType<typeof say> =>
      await say(session, { text: IPA, lang_code: 'ipa', voice: voices[0], seed: 1, ...fields })
    const plain = await ask({})
    t.ok(plain.bytes.equals((await ask({})).bytes), `${name}: same seed, same bytes`)
    t.notOk(
      plain.bytes.equals((await ask({ seed: 4_294_967_295 })).bytes), `${name}: other seed, other bytes`
    )
    const ratio = (await ask({ speed: 0.5 })).seconds / plain.seconds
    t.ok(ratio > 1.4 && ratio < 2.2, `${name}: half speed takes ${ratio.toFixed(2)} times as long`)
    if (voices[0] !== voices[1]) {
      t.notOk(
        plain.bytes.equals((await ask({ voice: voices[1] })).bytes), `${name}: another voice sounds different`
      )
    }
    const cut = await ask({ max_tokens: 30 })
    t.ok(
      cut.seconds < plain.seconds * 0.6,
      `${name}: 30 symbols of ${IPA.length} take ${cut.seconds.toFixed(2)} s`
    )
    await session.close?.()
  }
})

t.test('temperature scales the noise of VITS voices', async (t) => {
  const session = await open(await piperSpec(t.testdir()))
  const ask = async (temperature: number): Promise<Buffer> =>
    (await say(session, { text: IPA, lang_code: 'ipa', seed: 3, temperature })).bytes
  t.ok(
    (await ask(1)).equals((await say(session, { text: IPA, lang_code: 'ipa', seed: 3 })).bytes),
    '1 is the default'
  )
  t.notOk((await ask(0)).equals(await ask(2)))
})

t.test('every family refuses what it cannot honour, naming field and range', async (t) => {
  const check = async (
    session: EngineSession, payload: Record<string, unknown>, path: string, says: RegExp
  ): Promise<void> => {
    const error = await refusal(session, { text: 'hello', lang_code: 'ipa', ...payload })
    t.equal(error.reason, 'invalid_payload', JSON.stringify(payload))
    const told = { param: path, remedy: /svc show/, issues: [{ path, message: says }] }
    t.match(error.details, told, JSON.stringify(payload))
  }
  for (const { name, spec } of await families(t.testdir())) {
    const session = await open(spec)
    const kokoro = name === 'kokoro'
    const outside: Array<[string, number[], RegExp]> = [
      ['speed', kokoro ? [0.49, 2.01] : [0.24, 4.01], kokoro ? /from 0\.5 to 2/ : /from 0\.25 to 4/],
      ['speed', [50, Infinity, NaN], /a number from/],
      ['streaming_interval', [0.039, 61], /from 0\.04 to 60/],
      ['seed', [-1, 2 ** 32, 1.5], /whole number from 0 to 4294967295/],
      ['max_tokens', [0, 1.5], /whole number from 1/]
    ]
    for (const [field, values, says] of outside) {
      for (const value of values) await check(session, { [field]: value }, field, says)
    }
    await check(session, { voice: 'nobody' }, 'voice', /no voice "nobody": it has \w+/)
    await check(session, { lang_code: 'xx' }, 'lang_code', /speaks .*ipa/)
    await check(session, { text: '' }, 'text', /not be empty/)
    await check(session, { encoding: 'mp4' }, 'response_format', /mp3, opus, aac, flac, wav, pcm/)
    const both = await refusal(session, { text: 'hello', speed: 50, voice: 'nobody' })
    t.equal((both.details['issues'] as unknown[]).length, 2, `${name}: all problems at once`)
    await session.close?.()
  }
})

t.test('the bounds themselves are served', async (t) => {
  for (const { name, spec } of await families(t.testdir())) {
    const session = await open(spec)
    const [slow, fast] = name === 'kokoro' ? [0.5, 2] : [0.25, 4]
    const bounds = [
      { speed: slow }, { speed: fast }, { streaming_interval: 0.04 }, { streaming_interval: 60 },
      { temperature: 0 }, { temperature: 2 }, { temperature: -3 }, { temperature: 1e9 }, { seed: 0 },
      { max_tokens: 1 }
    ]
    for (const fields of bounds) {
      const { bytes } = await say(session, { text: 'ola ola', lang_code: 'ipa', ...fields })
      t.ok(walkFrames(bytes).frames.length > 0, `${name}: ${JSON.stringify(fields)}`)
    }
    if (name === 'flite') {
      t.ok((await say(session, { text: 'ola', lang_code: '' })).bytes.length > 0, 'an empty language')
    }
    const inert = { top_p: -5, top_k: 0, repetition_penalty: 9, instruct: 'whisper', response_format: 'mp3' }
    const plain = await say(session, { text: 'ola', lang_code: 'ipa', seed: 1 })
    t.ok(plain.bytes.equals((await say(session, { text: 'ola', lang_code: 'ipa', seed: 1, ...inert })).bytes),
      `${name}: fields without meaning change nothing`)
    for (const field of FIELDS) {
      t.ok(supportOf(spec.card.family)[field], `${name}: the card says what ${field} does`)
    }
    await session.close?.()
  }
})

t.test('seeds of the embedded voice: small ones are themselves, large ones stay in range', async (t) => {
  t.equal(seedScale(0), 0)
  t.equal(seedScale(1), 0.001)
  for (const seed of [4_194_303, 4_194_304, 2 ** 31, 2 ** 32 - 1]) {
    // Recover the seed as the graph does, by float32 arithmetic and rounding.
    const back = Math.round(Math.fround(Math.fround(seedScale(seed)) * 1000))
    t.ok(back >= 0 && back < 2 ** 22, `seed ${seed} → ${back}`)
    t.equal(back, Math.round(seedScale(seed) * 1000), 'nothing is lost on the way')
  }
  t.equal(
    new Set(Array.from({ length: 1000 }, (_, i) => seedScale(2 ** 31 + i))).size, 1000, 'neighbours differ'
  )
})

const GERMAN = { espeak: { voice: 'de' }, language: { code: 'de_DE', family: 'de' } }

t.test('a language that needs espeak is refused at the load, and served where it is', async (t) => {
  const spec = await piperSpec(t.testdir(), { config: GERMAN })
  await t.rejects(open(spec), {
    reason: 'phonemizer_missing', message: /to read de, .*npm install piper-phonemize/,
    details: { command: 'npm install piper-phonemize', language: 'de' }
  })
  const phonemes = await open(await piperSpec(t.testdir(), {
    config: GERMAN, card: { defaults: { phonemizer: 'ipa' } }
  }))
  t.ok((await say(phonemes, { text: IPA, lang_code: 'ipa' })).seconds > 0.1)
  t.match(await refusal(phonemes, { text: 'Hallo.' }), { reason: 'phonemizer_missing' })
  const asked: string[] = []
  const espeak: Espeak = (text, voice) => {
    asked.push(`${voice}: ${text}`)
    return ['(en)hɛloʊ, (de)wɜld.']
  }
  const session = await open(spec, async () => espeak)
  asked.length = 0
  const { bytes } = await say(session, { text: 'Hallo Welt. Noch einmal.', seed: 1, lang_code: 'de_DE' })
  t.same(asked, ['de: Hallo Welt.', 'de: Noch einmal.'])
  const plain = await say(
    await open(spec, async () => () => ['hɛloʊ, wɜld.']), { text: 'Hallo Welt. Noch einmal.', seed: 1 }
  )
  t.ok(bytes.equals(plain.bytes), 'language marks are not spoken')
  await t.rejects(open(spec, async () => () => null), {
    reason: 'language_unsupported', message: /does not support "de".*svc search/
  })
})

t.test('a language is asked for without its region where espeak has no such one', (t) => {
  const has = (...names: string[]): Espeak =>
    (text, voice) => names.includes(voice) ? [`${voice} ${text}`] : null
  const voiceOf = (espeak: Espeak, wanted: string): string =>
    [...espeakFront(espeak, wanted)('bon.', { maxSymbols: 99, firstSymbols: 99 })][0]!.phonemes.split(' ')[0]!
  t.equal(voiceOf(has('fr', 'fr-fr'), 'fr-fr'), 'fr-fr')
  t.equal(voiceOf(has('fr'), 'fr-fr'), 'fr')
  t.equal(voiceOf(has('en-gb-x-rp', 'en'), 'en-gb'), 'en-gb-x-rp')
  t.end()
})

t.test('the package of espeak is looked for, not required', async (t) => {
  const missing = Object.assign(new Error('no package'), { code: 'ERR_MODULE_NOT_FOUND' })
  t.equal(await findEspeak(async () => { throw missing }), undefined)
  await t.rejects(findEspeak(async () => { throw new Error('broken') }), { message: 'broken' })
  const phonemizeToString: Espeak = () => []
  t.equal(await findEspeak(async () => ({ default: { phonemizeToString } })), phonemizeToString)
  t.equal(await findEspeak(async () => ({ phonemizeToString })), phonemizeToString)
})

t.test('English voices are read by the front end here unless the card asks for espeak', async (t) => {
  const dir = t.testdir()
  const never = async (): Promise<Espeak> => () => { throw new Error('espeak was asked') }
  for (const config of [
    {}, { language: {}, espeak: { voice: 'en' } },
    { espeak: { voice: 'en-gb-x-rp' }, language: { code: 'en_GB' } }
  ]) {
    const session = await open(await piperSpec(join(dir, 'a'), { config }), never)
    t.ok((await say(session, { text: 'Hello there.' })).seconds > 0.1, JSON.stringify(config))
  }
  const spoken: string[] = []
  const espeak = async (): Promise<Espeak> => (text, voice) => { spoken.push(voice); return [text] }
  const card = { defaults: { phonemizer: 'espeak' } }
  await say(await open(await piperSpec(join(dir, 'b'), { card }), espeak), { text: 'Hello there.' })
  t.ok(spoken.length > 0 && spoken.every((voice) => voice === 'en-us'))
})

t.test('symbols that an English voice lacks have stand-ins, or it is none', async (t) => {
  const dir = t.testdir()
  const without = (...symbols: string[]): Record<string, unknown> => {
    const kept = ['_', '^', '$', ...FIXTURE_SYMBOLS].filter((symbol) => !symbols.includes(symbol))
    return { phoneme_id_map: Object.fromEntries(kept.map((symbol, id) => [symbol, [id]])) }
  }
  const poor = await open(await piperSpec(join(dir, 'a'), { config: without('ɹ', 'ˈ', 'ˌ', 'ː') }))
  t.ok((await say(poor, { text: 'Red water.' })).seconds > 0.1)
  await t.rejects(open(await piperSpec(join(dir, 'b'), { config: without('ʃ', 'θ') })), {
    reason: 'model_invalid', message: /no ʃ θ|no θ ʃ/
  })
  t.same([...symbolSubstitutes(new Set(FIXTURE_SYMBOLS)).found.keys()].sort(), [...'ɾʔ\u0329ᵻɒ'].sort())
})

t.test('phoneme type text needs no espeak, other types are not supported', async (t) => {
  const dir = t.testdir()
  const text = await open(await piperSpec(join(dir, 'c'), { config: { phoneme_type: 'text' } }))
  t.ok((await say(text, { text: 'hello there.' })).seconds > 0.1)
  await t.rejects(
    open(await piperSpec(join(dir, 'd'), { config: { phoneme_type: 'pinyin' } })),
    { reason: 'language_unsupported', message: /"pinyin".*only espeak and text.*svc search/ }
  )
})

t.test('kokoro: both signatures, styles by length, mixes, languages', async (t) => {
  const dir = t.testdir()
  const integer = await open(
    await kokoroSpec(join(dir, 'int'), { tokens: 'tokens', speed: 'int32', noise: false })
  )
  t.ok((await say(integer, { text: IPA, lang_code: 'ipa', speed: 2 })).seconds > 0.5)
  t.match(
    await refusal(integer, { text: IPA, lang_code: 'ipa', speed: 1.5 }),
    { message: /whole number from 1 to 2/ }
  )
  const spec = await kokoroSpec(join(dir, 'float'), { tokens: 'input_ids', speed: 'float32', noise: false })
  const spoken: string[] = []
  const session = await open(spec, async () => (text, voice) => { spoken.push(voice); return [text] })
  const ask = async (fields: Record<string, unknown>): Promise<Buffer> =>
    (await say(session, { text: 'ola ola', lang_code: 'ipa', ...fields })).bytes
  const mixed = await ask({ voice: 'af_one, bm_two' })
  t.notOk(mixed.equals(await ask({ voice: 'af_one' })))
  t.ok(mixed.equals(await ask({ voice: 'bm_two,af_one' })), 'a mix has no order')
  for (const fields of [
    { voice: 'af_one' }, { voice: 'bm_two' }, { lang_code: 'f' }, { lang_code: 'pt_BR' }, { lang_code: 'en' }
  ]) {
    t.ok((await say(session, { text: 'ola', ...fields })).seconds > 0, JSON.stringify(fields))
  }
  t.same([...new Set(spoken)], ['fr', 'pt-br'], 'English needs no espeak')
  t.match(
    await refusal(session, { text: 'ola', voice: 'jf_three' }),
    { message: /"jf_three" has a language that svc cannot read: set lang_code to .* speaks en-us, / }
  )
  const without = await open(spec)
  t.match(await refusal(without, { text: 'ola', lang_code: 'es' }), {
    reason: 'phonemizer_missing', message: /to read es,.*npm install piper-phonemize/
  })
})

t.test('style rows: the row of the length, kept inside the pack, averaged over a mix', async (t) => {
  const pack = (value: number): Float32Array => new Float32Array(3 * 256).map(
    (_, i) => value + Math.floor(i / 256)
  )
  const check = (packs: number[], length: number, value: number): void => {
    const row = styleRow(packs.map(pack), length)
    t.ok(row.length === 256 && row.every((v) => v === value), `length ${length} of ${packs.join('+')}`)
  }
  check([0], 1, 0)
  check([0], 3, 2)
  check([0], 0, 0)
  check([0], 99, 2)
  check([10, 20], 2, 16)
  t.throws(() => packOf(new Uint8Array(1000), 'x.bin'), /1000 bytes/)
})

t.test('a broken model is refused with what is wrong', async (t) => {
  const spec = await piperSpec(t.testdir())
  const check = async (
    change: Partial<ModelSpec['card']>, reason: string, says: RegExp, backend = 'cpu'
  ): Promise<void> => {
    const card = cardOf({ ...spec.card, ...change })
    await t.rejects(engine.load({ ...spec, card, backend }, quietEnv()), { reason, message: says })
  }
  const files = (...paths: string[]): Partial<ModelSpec['card']> =>
    ({ files: paths.map((path) => ({ path, role: 'f', bytes: 0 })) })
  await check({ family: 'nope' }, 'model_invalid', /no family "nope": it has flite, piper, kokoro/)
  await check(files('voice.onnx.json'), 'model_incomplete', /lists no file .*\.onnx/)
  await check(files('voice.onnx.json', 'gone.onnx'), 'model_incomplete', /cannot read gone\.onnx/)
  const swapped = (config: string, weights: string): Partial<ModelSpec['card']> =>
    ({ files: [{ path: config, role: 'config', bytes: 0 }, { path: weights, role: 'weights', bytes: 0 }] })
  await check(swapped('voice.onnx', 'voice.onnx'), 'model_invalid', /voice\.onnx is not JSON/)
  await check(swapped('voice.onnx.json', 'voice.onnx.json'), 'model_invalid', /voice\.onnx\.json/)
  await check({}, 'no_backend', /does not support backend "tpu"/, 'tpu')
})

t.test('the card of the voice that ships is true', async (t) => {
  const { card, directory } = await embeddedSpec()
  for (const { path, bytes, sha256 } of card.files) {
    const content = await readFile(join(directory, path))
    t.match(
      { bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') },
      { bytes, sha256 }, path
    )
  }
  t.equal(card.totalBytes, card.files.reduce((sum, file) => sum + file.bytes, 0))
  t.same(card.support, supportOf('flite'))
  const session = await open(await embeddedSpec())
  t.same(session.info()['voices'], card.voices)
  t.same(session.info()['languages'], [...card.languages, 'ipa'])
})

t.test('the official Piper test voice', async (t) => {
  const dir = join(DATA_DIR, 'piper-test-voice')
  const there = await access(join(dir, 'test_voice.onnx')).then(() => true, () => false)
  if (!there) {
    t.comment('skipped: no test_voice.onnx; set SVC_TEST_DATA to a folder with piper-test-voice/')
    return
  }
  const files = ['test_voice.onnx', 'test_voice.onnx.json'].map((path) => ({ path, role: 'f', bytes: 0 }))
  const spec: ModelSpec = {
    card: cardOf({ modelId: 'piper/test', family: 'piper', files }),
    directory: dir,
    backend: 'cpu',
    threads: 1,
    options: {}
  }
  const session = await open(spec, async () => () => ['həlˈoʊ.'])
  await session.warmup()
  const { bytes } = await say(session, { text: 'Hello.', encoding: 'pcm' })
  t.equal(bytes.length, 22_050 * 2, 'one second')
  t.ok(bytes.every((b) => b === 0), 'of silence')
})
