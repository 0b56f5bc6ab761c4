/** Tests Kokoro models as public exports lay them out (test/models/speech.ts), and symbols by language. */
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { EngineSession, ModelSpec } from '../../../kernel/api/engine.js'
import { writeKokoroArchive, writeKokoroCommunity } from '../../../test/models/speech.js'
import { openSpeech } from '../engine/index.js'
import { kokoroPhonemes } from '../engine/kokoro.js'
import { loadFamily } from '../engine/load.js'
import type { Espeak } from '../engine/phonemes.js'
import { kokoroVocabulary, vocabularyOf } from '../vocabulary.js'
import { cardOf, quietEnv, refusal, say } from './engine-kit.js'

function specOf (directory: string, voices: string[] = []): ModelSpec {
  const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((e) => e.isFile())
    .map((e) => ({ path: join(e.parentPath, e.name).slice(directory.length + 1), bytes: 0 }))
    .map((file) => ({ ...file, role: file.path.endsWith('.onnx') ? 'weights' : 'other' }))
  const card = cardOf({ modelId: 'acme/kokoro', family: 'kokoro', files,
    voices: voices.map((id) => ({ id, name: id, language: '' })), defaults: { voice: 'af_heart' } })
  return { card, directory, backend: 'cpu', threads: 1, options: {} }
}

async function open (spec: ModelSpec, espeak?: Espeak): Promise<EngineSession> {
  const session = openSpeech(await loadFamily(spec, quietEnv(), async () => espeak), spec)
  await session.warmup()
  return session
}

t.test('both public layouts speak, and the same text with the same voice alike', async (t) => {
  const ask = { text: 'The little water bottle.', voice: 'am_echo', encoding: 'pcm', seed: 1 }
  const voices = ['af_heart', 'am_echo']
  const spoken: Record<string, Buffer> = {}
  for (const [name, write] of Object.entries({
    community: async (folder: string) => await writeKokoroCommunity(folder, { voices }),
    fp16: async (folder: string) => await writeKokoroCommunity(folder, { voices, precisions: ['fp16'] }),
    q8f16: async (folder: string) => await writeKokoroCommunity(folder, { voices, precisions: ['q8f16'] }),
    archive: async (folder: string) => await writeKokoroArchive(folder, { voices }),
    config: async (folder: string) => await writeKokoroArchive(folder, { voices, config: true })
  })) {
    const folder = t.testdir()
    await write(folder)
    const session = await open(specOf(folder))
    t.same((session.info()['voices'] as { id: string }[]).map(({ id }) => id).sort(), voices)
    spoken[name] = (await say(session, ask)).bytes
    t.ok(spoken[name].length > 24_000, `${name}: ${spoken[name].length} bytes`)
    await session.close?.()
  }
  t.ok(spoken['community']!.equals(spoken['archive']!) && spoken['archive']!.equals(spoken['config']!))
  t.notOk(spoken['community']!.equals(spoken['fp16']!), 'weights in half precision are used')
})

t.test('without the package English is spoken, other languages say what they need', async (t) => {
  const folder = t.testdir()
  await writeKokoroCommunity(folder, { voices: ['af_heart', 'bf_emma', 'ef_dora', 'jf_alpha'] })
  const session = await open(specOf(folder))
  for (const voice of ['af_heart', 'bf_emma']) {
    t.ok((await say(session, { text: 'Hello.', voice })).seconds > 0, voice)
  }
  t.match(await refusal(session, { text: 'Hola.', voice: 'ef_dora' }), {
    reason: 'phonemizer_missing', message: /npm install piper-phonemize/
  })
  t.match(await refusal(session, { text: 'ola', voice: 'jf_alpha' }), { message: /speaks en-us, en-gb, es/ })
  t.ok((await say(session, { text: 'ola', voice: 'jf_alpha', lang_code: 'en-us' })).seconds > 0)
  const spanish = t.testdir()
  await writeKokoroCommunity(spanish, { voices: ['ef_dora', 'ff_siwis'] })
  await t.rejects(open(specOf(spanish)), { reason: 'phonemizer_missing', message: /to read es, fr-fr/ })
})

t.test('the package is advised only for voices that it helps', async (t) => {
  const logged = async (voices: string[]): Promise<[string, unknown][]> => {
    const folder = t.testdir()
    await writeKokoroCommunity(folder, { voices })
    const lines: [string, unknown][] = []
    const log = (_level: string, message: string, fields: unknown): void => { lines.push([message, fields]) }
    const family = await loadFamily(specOf(folder), { ...quietEnv(), log }, async () => undefined)
    await family.close()
    return lines
  }
  const unread = [/languages that svc cannot read.* lang_code/, { voices: ['jf_alpha', 'zf_xiaobei'] }]
  t.match(await logged(['af_heart', 'jf_alpha', 'zf_xiaobei']), [unread])
  t.match(await logged(['jf_alpha', 'zf_xiaobei']), [unread])
  t.match(await logged(['af_heart', 'ef_dora', 'jf_alpha']),
    [[/svc cannot read/, { voices: ['jf_alpha'] }], [/to read es, .*npm install/, { voices: 1 }]])
  await t.rejects(logged(['ef_dora', 'jf_alpha']), { reason: 'phonemizer_missing', message: /to read es,/ })
})

t.test('a pack that the card names and the folder lacks is told at the load', async (t) => {
  const folder = t.testdir()
  await writeKokoroCommunity(folder, { voices: ['af_heart'] })
  await t.rejects(open(specOf(folder, ['af_heart', 'am_echo'])), {
    reason: 'model_incomplete', message: /no style pack of am_echo.*svc pull acme\/kokoro/
  })
  rmSync(join(folder, 'voices/af_heart.bin'))
  await t.rejects(open(specOf(folder)), { reason: 'model_incomplete', message: /no style pack of any voice/ })
})

t.test('espeak\'s IPA becomes the symbols that misaki gives Kokoro', (t) => {
  const check = (language: string, ipa: string, expected: string): void => {
    t.equal(kokoroPhonemes(ipa, language), expected, `${language} ${ipa}`)
    const vocab = kokoroVocabulary()
    t.same([...expected].filter((symbol) => !vocab.has(symbol)), [], 'all of them known to Kokoro')
  }
  check('es', 'el pˈero xaɾðˈin rˈeɪ kˈaʊsa pˈitsas tʃˈiko', 'el pˈero xaɾðˈin rˈA kˈWsa pˈiʦas ʧˈiko')
  check('it', 'pˈitsːa ʎɪ amˈitʃɪ dʒˈorno dzˈia pˈasso', 'pˈiʦːa ʎɪ amˈiʧɪ ʤˈorno ʣˈia pˈaSo')
  check('fr-fr', 'lə- ʁˈuʒ le-z ɑ̃fˈɑ̃ œ̃ bˈɔ̃', 'lə ʁˈuʒ lez ɑ̃fˈɑ̃ œ̃ bˈɔ̃')
  check('pt-br', 'ũŋ pˈɐ̃ʊ̃ xˈeɪ dʒˈiæ', 'ũŋ pˈɐ̃ʊ̃ xˈA ʤˈiæ'.normalize('NFD'))
  check('hi', 'nəmˈʌsteː', 'nəmˈʌsteː')
  check('en-us', 'ðə lˈɪɾəl wˈɔːɾɚ, ænd dʒˈoʊ sˈɛd həlˈoʊ.', 'ðə lˈɪTᵊl wˈɔTəɹ, ænd ʤˈO sˈɛd həlˈO.')
  check('en-us', 'aɪ dʒˈɔɪnd ɐ bˈɔɪ baɪ ðə tʃˈɜːtʃ bˈʌʔn\u0329', 'I ʤˈYnd ə bˈY bI ðə ʧˈɜɹʧ bˈʌtn')
  check('en-us', 'mˈɛmɚɹi hˈɜːɹi ˈæftɚɹ ˈɔːl', 'mˈɛməɹi hˈɜɹi ˈæftəɹ ˈɔl')
  check('en-gb', 'dʒˈəʊ sˈɛd həlˈəʊ baɪ ðə tʃˈeə hˈiə kˈæt', 'ʤˈQ sˈɛd həlˈQ bI ðə ʧˈɛː hˈɪə kˈat')
  check('ipa', 'rex aɪ', 'rex aɪ')
  t.end()
})

t.test('vocabularies are found in both files, and nowhere else', (t) => {
  t.same([...vocabularyOf({ vocab: { a: 1 } }) ?? []], [['a', 1]])
  t.same([...vocabularyOf({ model: { vocab: { b: 2 } } }) ?? []], [['b', 2]])
  const none = [
    null, {}, { vocab: {} }, { vocab: ['a'] }, { vocab: { a: 'x' } }, { model: { vocab: [['a', 1]] } }
  ]
  for (const json of none) {
    t.equal(vocabularyOf(json), undefined, JSON.stringify(json))
  }
  t.equal(kokoroVocabulary().size, 114)
  t.end()
})
