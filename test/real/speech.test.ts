/**
 * Voices that people run, in whole nodes: without noise the samples of the reference programs on the same
 * files and phonemes, and speech that Whisper understands as well as that of piper-tts.
 * `npm run test:real -- speech`.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { folder, startNode, type TestNode } from '../node/kit.js'
import {
  englishKokoro, errorRate, heardBy, madeBy, piperAll, quietVoice, speakAll, spokenBy, withoutPrograms,
  type Made, type Run
} from './speech-kit.js'
import { folderOf, withoutModels } from './weights.js'
import { pullAndPlace } from './weights-kit.js'

/** Allowed difference of samples in -1…1. */
const SAMPLE = 1e-3
/** Percentage points by which the word error rate may exceed that of piper-tts. */
const POINTS = 1
/** Silence between sentences in s, and what stays of a sentence's own silence, whose level is below LEVEL. */
const PAUSE = 0.36
const MARGIN = 0.02
const LEVEL = 0.004

const skip = withoutModels(['joe', 'kokoro', 'whisper']) || withoutPrograms()

const startSpeech = async (t: Test): Promise<TestNode> => await startNode(t, { config: {
  cluster: { discovery: false },
  plugins: { placement: { autoplace: [] }, runners: { threads: 1 } },
  model_store: { hub: { enabled: false } }
} })

/** The samples that svc makes of sentences: their own silence is cut, and pauses are between them. */
function joined (sentences: readonly Float32Array[], rate: number, speed: number): number[] {
  const pause = Array<number>(Math.round(PAUSE / speed * rate)).fill(0)
  const margin = Math.round(MARGIN * rate)
  const isSound = (sample: number): boolean => Math.abs(sample) >= LEVEL
  return sentences.flatMap((samples, i) => {
    const from = Math.max(0, samples.findIndex(isSound) - margin)
    return [...i > 0 ? pause : [], ...samples.subarray(from, samples.findLastIndex(isSound) + 1 + margin)]
  })
}

/** Compares answers of a node with what a reference program made of the same sentences. */
async function compare (
  t: Test, speak: (text: string, speed: number) => Promise<Float32Array>, made: readonly Made[],
  runs: readonly Run[], rate: number
): Promise<void> {
  const all = runs.map((run, i) => [...run, made[i]!.samples] as const)
  for (const speed of new Set(runs.map(([, speed]) => speed))) {
    const same = all.filter((one) => one[1] === speed)
    const own = await speak(same.map(([phonemes]) => phonemes).join(' '), speed)
    const wanted = joined(same.map((one) => one[2]), rate, speed)
    t.equal(own.length, wanted.length, `speed ${speed}: as many samples`)
    const off = own.reduce((most, sample, i) => Math.max(most, Math.abs(sample - (wanted[i] ?? 0))), 0)
    t.comment(`speed ${speed}: ${own.length} samples differ by at most ${off.toExponential(1)}`)
    t.ok(off <= SAMPLE, `speed ${speed}: samples differ by ${off}`)
    t.ok(wanted.some((sample) => Math.abs(sample) > 0.1), 'there is sound')
  }
}

const PIPER: Run[] = [
  ['ɡlˈuː ðə ʃˈiːt tə ðə dˈɑːɹk blˈuː bˈækɡɹaʊnd.', 1],
  ['ðə bˈɜːtʃ kənˈuː slˈɪd ˌɑːn ðə smˈuːð plˈæŋks wˈaɪl ðə hˈɑːɡz wˌɜː fˈɛd tʃˈɑːpt kˈɔːɹn.', 1],
  ['ɹˈaɪs ɪz ˈɔfən sˈɜːvd ɪn ɹˈaʊnd bˈoʊlz.', 1.5]
]

t.test('piper-tts 1.8.0 and joe', { skip, timeout: 600_000 }, async (t) => {
  const node = await startSpeech(t)
  const model = quietVoice(t)
  await pullAndPlace(t, node, join(model, '..'), 'acme/joe')
  const made = await madeBy({ program: 'piper', model, runs: PIPER, out: folder(t) })
  const speak = async (input: string, speed: number): Promise<Float32Array> =>
    await spokenBy(node, 'acme/joe', input, { speed, lang_code: 'ipa' })
  await compare(t, speak, made, PIPER, 22_050)
})

/** Short phonemes of one speed would be joined to one unit. */
const KOKORO: Run[] = [
  ['ɡlˈu ðə ʃˈit tə ðə dˈɑɹk blˈu bˈækɡɹˌWnd.', 1],
  ['ðə bˈɜɹʧ kənˈu slˈɪd ˌɑn plˈæŋks, ænd fˈɛl.', 1.25],
  ['ɹˈIs ɪz sˈɜɹvd ɪn ɹˈWnd bˈOlz.', 1.5]
]

t.test('kokoro-onnx 0.6.1 and Kokoro', { skip, timeout: 600_000 }, async (t) => {
  const node = await startSpeech(t)
  const voice = 'jf_alpha'
  await pullAndPlace(t, node, englishKokoro(t, voice, 'af_alpha'), 'acme/kokoro')
  const [model, voices] = ['model.onnx', 'voices.npz'].map((name) => join(folderOf('kokoro'), name))
  const made = await madeBy({ program: 'kokoro', model, voices, voice, runs: KOKORO, out: folder(t) })
  const speak = async (input: string, speed: number): Promise<Float32Array> =>
    await spokenBy(node, 'acme/kokoro', input, { speed, voice: 'af_alpha', lang_code: 'ipa' })
  await compare(t, speak, made, KOKORO, 24_000)
})

t.test('the word error rate of joe, heard by faster-whisper 1.2.1', { skip, timeout: 600_000 }, async (t) => {
  const sentences = readFileSync(new URL('speech-sentences.txt', import.meta.url), 'utf8')
    .split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  t.ok(sentences.length >= 60)
  const node = await startSpeech(t)
  await pullAndPlace(t, node, folderOf('joe'), 'acme/joe')
  const graph = join(folderOf('joe'), 'en_US-joe-medium.onnx')
  const spoken = [await speakAll(node, 'acme/joe', sentences), await piperAll(t, graph, sentences)]
  const heard = await heardBy(t, spoken, 22_050)
  const rates = heard.map((text, k) => {
    const { rate, errors, words } = errorRate(sentences.join(' '), text)
    t.comment(`${['svc', 'piper-tts'][k]}: ${rate.toFixed(2)} % (${errors} of ${words} words)`)
    return rate
  })
  const [ours, theirs] = rates as [number, number]
  t.ok(ours <= theirs + POINTS, `svc ${ours.toFixed(2)} %, piper-tts ${theirs.toFixed(2)} %`)
})
