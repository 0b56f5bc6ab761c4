/**
 * Whisper base on the engine `onnx-stt`: as few wrong words as faster-whisper on the same weights, on clean
 * and on noisy sound. `npm run test:real -- stt`.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, renameSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'
import t from 'tap'
import engine from '../../plugins/capabilities-stt/engine/index.js'
import type { SttEvent } from '../../plugins/capabilities-stt/service.js'
import { card } from '../../plugins/runners/test/samples.js'
import { pythonEnvironment } from './python.mjs'
import { errorRate, heardBy, piperAll, withoutPrograms } from './speech-kit.js'
import { folderOf, withoutModels } from './weights.js'
import type { EngineEnv, EngineTask } from '../../kernel/api/engine.js'

const RATE = 22_050
/** Percentage points by which the word error rate may exceed that of faster-whisper. */
const POINTS = 0.5
/** Noise in decibels below the sound, and its seeds: one alone varies the error rate by a point. */
const NOISE = 10
const SEEDS = [1, 12, 123, 1234]
const FILES = ['config.json', 'generation_config.json', 'tokenizer.json', 'onnx/encoder_model.onnx',
  'onnx/decoder_model_merged_quantized.onnx']
const skip = withoutModels(['joe', 'whisper']) || withoutPrograms()
const pathOf = (name: string): string => fileURLToPath(new URL(name, import.meta.url))

/** Folder with the weights as ONNX graphs. */
function exported (): string {
  const folder = `${folderOf('whisper')}-onnx`
  if (existsSync(folder)) return folder
  const { folder: bin = '' } = pythonEnvironment('speech', pathOf('speech-requirements.txt'))
  const args = [pathOf('whisper_onnx.py'), `${folder}.part`, folderOf('whisper')]
  const { status, stderr } = spawnSync(join(bin, 'python'), args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(stderr)
  renameSync(`${folder}.part`, folder)
  return folder
}

/** Sound with white noise, the same for each seed. */
function noisy (sound: Buffer, seed: number): Buffer {
  const samples = new Int16Array(new Uint8Array(sound).buffer)
  const power = samples.reduce((sum, sample) => sum + sample ** 2, 0) / samples.length
  const level = Math.sqrt(power) * 10 ** (-NOISE / 20) * Math.sqrt(12)
  const random = (): number => (seed = seed * 48_271 % 2_147_483_647) / 2_147_483_647
  return Buffer.from(samples.map((sample) =>
    Math.max(-32_768, Math.min(32_767, sample + level * (random() - 0.5)))).buffer)
}

t.test('words and times of Whisper base', { skip, timeout: 1_500_000 }, async (t) => {
  const sentences = readFileSync(pathOf('speech-sentences.txt'), 'utf8')
    .split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  const clean = await piperAll(t, join(folderOf('joe'), 'en_US-joe-medium.onnx'), sentences)
  const both = [clean, ...SEEDS.map((seed) => clean.map((sound) => noisy(sound, seed)))]
  // Both programs get the whole recording, and cut it themselves.
  const theirs = await heardBy(t, both, RATE, Infinity)
  const files = FILES.map((path) => ({ path, role: path.endsWith('x') ? 'weights' : 'config', bytes: 1 }))
  const env: EngineEnv = { progress () {}, log () {}, work: async (_label, _units, call) => await call() }
  const session = await engine.load({
    card: card('acme/whisper', { family: 'whisper', backends: ['cpu'], files }), directory: exported(),
    backend: 'cpu', threads: 2, options: {}
  }, env)
  const gap = Buffer.alloc(RATE)
  const rates: [own: number, other: number][] = []
  for (const [k, name] of ['clean', ...SEEDS.map((seed) => `noise ${seed}`)].entries()) {
    const input = (async function * () { for (const sentence of both[k]!) yield * [sentence, gap] })()
    const payload = { format: 'pcm', sample_rate: RATE, words: true }
    const task: EngineTask = { kind: 'stt', payload, input }
    const before = process.cpuUsage()
    const events: SttEvent[] = []
    const { signal } = new AbortController()
    for await (const { payload } of session.run(task, signal)) events.push(payload as SttEvent)
    const { user, system } = process.cpuUsage(before)
    const segments = events.flatMap((event) => event.event === 'segment' ? [event] : [])
    const last = events.at(-1)
    const seconds = last?.event === 'done' ? last.duration : 0
    t.comment(`${name}: ${((user + system) / 1e6 * 60 / seconds).toFixed(1)} CPU seconds per minute of sound`)
    t.match(last, { language: 'en' })
    rates.push([segments.map(({ text }) => text).join(''), theirs[k]!]
      .map((text) => errorRate(sentences.join(' '), text).rate) as [number, number])
    t.comment(`${name}: svc ${rates[k]![0].toFixed(2)} %, faster-whisper ${rates[k]![1].toFixed(2)} %`)
    const words = segments.flatMap(({ words = [] }) => words)
    t.ok(words.every(({ start, end }, i) => start <= end && start >= (words[i - 1]?.start ?? 0)),
      'words are in order')
  }
  await session.close?.()
  for (const [name, some] of [['clean', rates.slice(0, 1)], ['noisy', rates.slice(1)]] as const) {
    const [own, other] = [0, 1].map((i) => some.reduce((sum, rate) => sum + rate[i]!, 0) / some.length)
    t.ok(own! <= other! + POINTS, `${name}: svc ${own!.toFixed(2)} %, faster-whisper ${other!.toFixed(2)} %`)
  }
})
