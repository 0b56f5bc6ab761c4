/** Real voices in whole nodes, and the reference programs on the same files. */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { archivePack, archiveVoices } from '../../plugins/capabilities-tts/style-packs.js'
import { ask, type At } from '../node/http.js'
import { folder, run } from '../node/kit.js'
import { pythonEnvironment } from './python.mjs'
import { folderOf } from './weights.js'
import type { Test } from 'tap'

const pathOf = (name: string): string => fileURLToPath(new URL(name, import.meta.url))
const environment = (): ReturnType<typeof pythonEnvironment> =>
  pythonEnvironment('speech', pathOf('speech-requirements.txt'))

/** Why the reference programs are missing, or false. */
export const withoutPrograms = (): string | false => environment().missing ?? false

/** Runs speech.py with a job. */
export async function reference (job: Record<string, unknown>): Promise<unknown> {
  const child = run(join(environment().folder ?? '', 'python'), [pathOf('speech.py')], {
    env: { OMP_NUM_THREADS: '1', HF_HUB_OFFLINE: '1' }, input: JSON.stringify(job)
  })
  if (await child.ended !== 0) throw new Error(child.stderr())
  return JSON.parse(child.stdout())
}

/** A string of phonemes, and the speed. */
export type Run = readonly [phonemes: string, speed: number]
/** Symbol ids and samples from a reference program. */
export interface Made { ids: number[], samples: Float32Array }

/** Samples of phoneme strings by a reference program. */
export async function madeBy (job: Record<string, unknown>): Promise<Made[]> {
  const runs = await reference({ do: 'phonemes', ...job }) as { path: string, ids: number[] }[]
  return runs.map(({ path, ids }) => {
    const { buffer } = new Uint8Array(readFileSync(path))
    return { ids, samples: new Float32Array(buffer) }
  })
}

/** A copy of Piper's voice whose configuration has no noise, which both programs read. */
export function quietVoice (t: Test): string {
  const to = join(folder(t), 'joe')
  mkdirSync(to)
  const [graph, config] = ['en_US-joe-medium.onnx', 'en_US-joe-medium.onnx.json'].map((name) => {
    copyFileSync(join(folderOf('joe'), name), join(to, name))
    return join(to, name)
  }) as [string, string]
  const settings = JSON.parse(readFileSync(config, 'utf8')) as { inference: Record<string, number> }
  writeFileSync(config, JSON.stringify({
    ...settings, inference: { ...settings.inference, noise_scale: 0, noise_w: 0 }
  }))
  return graph
}

/**
 * A copy of Kokoro with one of its voices under an English name, because svc takes no model whose voices all
 * speak Japanese.
 */
export function englishKokoro (t: Test, voice: string, name: string): string {
  const to = join(folder(t), 'kokoro')
  mkdirSync(join(to, 'voices'), { recursive: true })
  copyFileSync(join(folderOf('kokoro'), 'model.onnx'), join(to, 'model.onnx'))
  const archive = readFileSync(join(folderOf('kokoro'), 'voices.npz'))
  const entry = archiveVoices(archive, 0).find((one) => one.voice === voice)!
  writeFileSync(join(to, `voices/${name}.bin`), archivePack(archive, entry))
  return to
}

/** The samples of an answer of a node, without encoding or a change of loudness. */
export async function spokenBy (node: At, model: string, input: string, more: object): Promise<Float32Array> {
  const bytes = await answered(node, { model, input, loudness: null, ...more })
  return Float32Array.from(new Int16Array(new Uint8Array(bytes).buffer), (sample) => sample / 32_767)
}

/** 16-bit samples of an answer, from events, which give the reason of an error in the middle. */
async function answered (node: At, body: object): Promise<Buffer> {
  const { status, text } = await ask(node, '/v1/audio/speech',
    { body: { response_format: 'pcm', stream_format: 'sse', ...body } })
  const events = text.split('\n').filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice(6)) as { type?: string, audio?: string })
  if (status !== 200 || events.at(-1)?.type !== 'speech.audio.done') throw new Error(text.slice(-1000))
  return Buffer.concat(events.map(({ audio = '' }) => Buffer.from(audio, 'base64')))
}

/** Lets a node speak texts with its own settings. */
export async function speakAll (node: At, model: string, texts: readonly string[]): Promise<Buffer[]> {
  const all = []
  for (const input of texts) {
    all.push(await answered(node, { model, input }))
  }
  return all
}

/** The same by piper-tts with its own settings. */
export async function piperAll (t: Test, graph: string, texts: readonly string[]): Promise<Buffer[]> {
  const out = folder(t)
  await reference({ do: 'texts', model: graph, texts, out })
  return texts.map((_text, i) => readFileSync(join(out, `${i}.pcm`)))
}

/** Length of a recording for Whisper, and of the silence between sentences, in s. */
const WINDOW = 28
const GAP = 0.5

/**
 * Transcriptions by Whisper of sentences of several programs, in groups of up to `most` seconds, which take
 * less time.
 */
export async function heardBy (
  t: Test, spoken: readonly Buffer[][], rate: number, most = WINDOW
): Promise<string[]> {
  const second = rate * 2
  const groups: number[][] = [[]]
  let seconds = 0
  for (const i of spoken[0]!.keys()) {
    const longest = GAP + Math.max(...spoken.map((each) => each[i]!.length)) / second
    if (seconds + longest > most) {
      groups.push([])
      seconds = 0
    }
    seconds += longest
    groups.at(-1)!.push(i)
  }
  const out = folder(t)
  const files = spoken.flatMap((each, k) => groups.map((group, n) => {
    const path = join(out, `${k}-${n}.wav`)
    const gap = Buffer.alloc(Math.round(GAP * rate) * 2)
    writeFileSync(path, wavOf(Buffer.concat(group.flatMap((i) => [each[i]!, gap])), rate))
    return path
  }))
  const heard = await reference({ do: 'words', model: folderOf('whisper'), files }) as string[]
  return spoken.map((_each, k) => heard.slice(k * groups.length, (k + 1) * groups.length).join(' '))
}

function wavOf (samples: Buffer, rate: number): Buffer {
  const head = Buffer.alloc(44)
  head.write('RIFF')
  head.writeUInt32LE(36 + samples.length, 4)
  head.write('WAVEfmt ', 8)
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(1, 20)
  head.writeUInt16LE(1, 22)
  head.writeUInt32LE(rate, 24)
  head.writeUInt32LE(rate * 2, 28)
  head.writeUInt16LE(2, 32)
  head.writeUInt16LE(16, 34)
  head.write('data', 36)
  head.writeUInt32LE(samples.length, 40)
  return Buffer.concat([head, samples])
}

const wordsOf = (text: string): string[] =>
  text.toLowerCase().replaceAll('’', '\'').replace(/[^a-z0-9' ]/g, ' ').split(' ').filter(Boolean)

/** The word error rate in percent: words that were inserted, deleted or replaced. */
export function errorRate (text: string, heard: string): { rate: number, errors: number, words: number } {
  const [wanted, got] = [wordsOf(text), wordsOf(heard)]
  let row = [...Array(got.length + 1).keys()]
  for (const [i, word] of wanted.entries()) {
    const next = [i + 1]
    for (const [j, other] of got.entries()) {
      next.push(Math.min(row[j]! + (word === other ? 0 : 1), row[j + 1]! + 1, next[j]! + 1))
    }
    row = next
  }
  const errors = row.at(-1)!
  return { rate: 100 * errors / wanted.length, errors, words: wanted.length }
}
