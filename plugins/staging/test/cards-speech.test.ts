/** Voice cards in the layouts of public exports; test/models/speech.ts writes the graphs. */
import { rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { ModelCard } from '../../../kernel/index.js'
import {
  KOKORO_VOICES, writeKokoroArchive, writeKokoroCommunity, writePiper
} from '../../../test/models/speech.js'
import { derive, filesOf } from './cards-kit.js'

const cardOf = async (folder: string): Promise<ModelCard> =>
  await derive(folder, { modelId: 'acme/voice', revision: '1', files: filesOf(folder) })
const refused = (message: RegExp): { name: string, message: RegExp } => ({ name: 'CardError', message })
/** Voices in languages that svc supports. */
const SPOKEN = KOKORO_VOICES.filter((voice) => !/^[jz]/.test(voice)).sort()

t.test('Kokoro with its vocabulary in tokenizer.json', async (t) => {
  const folder = t.testdir()
  await writeKokoroCommunity(folder, { precisions: ['fp32', 'fp16', 'q8f16'] })
  const card = await cardOf(folder)
  t.match(card, {
    family: 'kokoro', engine: 'onnx-tts', quantization: 'fp32', defaults: { voice: 'af_heart' },
    description: 'Kokoro with 10 voices, 24,000 Hz.'
  })
  t.same(card.voices.map(({ id }) => id).sort(), SPOKEN, 'voices without rules are not offered')
  t.same([...card.languages].sort(), ['en-gb', 'en-us', 'es', 'fr-fr', 'hi', 'it', 'pt-br'])
  const roles = Object.fromEntries(card.files.map(({ path, role }) => [path, role]))
  t.match(roles, {
    'onnx/model.onnx': 'weights', 'tokenizer.json': 'tokenizer', 'voices/af_heart.bin': 'voice',
    'voices/jf_alpha.bin': 'voice'
  })
  for (const precision of ['fp16', 'q8f16'] as const) {
    const other = t.testdir()
    await writeKokoroCommunity(other, { precisions: [precision] })
    t.equal((await cardOf(other)).family, 'kokoro', precision)
  }
})

t.test('Kokoro with one archive of packs, with and without a config.json', async (t) => {
  for (const config of [false, true]) {
    const folder = t.testdir()
    await writeKokoroArchive(folder, { config })
    writeFileSync(join(folder, 'kokoro-v1.0.int8.onnx'), 'smaller, and not looked at')
    const card = await cardOf(folder)
    t.same(card.voices.map(({ id }) => id).sort(), SPOKEN)
    t.match(card.files.find(({ path }) => path === 'voices-v1.0.bin'), { role: 'voices' })
    t.match(card.files.find(({ role }) => role === 'weights'), { path: 'kokoro-v1.0.onnx' })
  }
})

t.test('what is wrong with a Kokoro is told when it is pulled', async (t) => {
  const check = async (change: (folder: string) => void, says: RegExp, archive = false): Promise<void> => {
    const folder = t.testdir()
    await (archive ? writeKokoroArchive : writeKokoroCommunity)(folder, { voices: ['af_heart'] })
    change(folder)
    await t.rejects(cardOf(folder), refused(says))
  }
  const change = (name: string, content: string | Uint8Array) => (folder: string) => {
    writeFileSync(join(folder, name), content)
  }
  await check((folder) => { rmSync(join(folder, 'voices'), { recursive: true }) },
    /it has no style packs .*--allow 'voices\/\*'/)
  await check((folder) => { rmSync(join(folder, 'voices-v1.0.bin')) }, /it has no style packs/, true)
  await check(change('voices/af_heart.bin', 'short'), /af_heart.bin has 5 bytes/)
  await check(change('tokenizer.json', JSON.stringify({ model: { vocab: { a: 900 } } })),
    /the vocabulary maps "a" to 900, .* 178 symbols/)
  await check((folder) => { truncateSync(join(folder, 'voices-v1.0.bin'), 5000) },
    /voices-v1.0.bin: it has no directory/, true)
  await check(change('voices-v1.0.bin', '\x80\x02pickle'),
    /not a NumPy archive \(svc never opens a pickle\)/, true)
  const japanese = t.testdir()
  await writeKokoroCommunity(japanese, { voices: ['jf_alpha', 'zf_xiaobei'] })
  await t.rejects(cardOf(japanese), refused(/all its voices speak ja, zh, .*does not support.*--allow/))
})

t.test('what is wrong with a Piper voice is told when it is pulled', async (t) => {
  const check = async (config: Record<string, unknown>, says: RegExp): Promise<void> => {
    const folder = t.testdir()
    await writePiper(folder, { config })
    await t.rejects(cardOf(folder), refused(says))
  }
  await check({ phoneme_type: 'pinyin' }, /type "pinyin" is not supported.*svc search piper/)
  await check({ phoneme_id_map: { _: [0], a: [1] } }, /phoneme_id_map has no \^ \$/)
  await check({ phoneme_id_map: { _: [0], '^': [1], $: [2], a: [3] } },
    /not one of an English voice.*onnx.json/)
  await check({ num_speakers: 2 }, /do not match/)
  const fine = t.testdir()
  await writePiper(fine, { name: 'de_DE-eva-medium', config: {
    language: { code: 'de_DE', family: 'de' }, espeak: { voice: 'de' }
  } })
  t.match(await cardOf(fine), { languages: ['de-de', 'de'], support: { lang_code: /piper-phonemize/ } })
})
