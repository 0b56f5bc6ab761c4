/** Helpers for the engine tests: voices in temporary folders, and complete answers. */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import {
  EngineError, type EngineChunk, type EngineEnv, type EngineSession, type ModelCard, type ModelSpec
} from '../../../kernel/api/engine.js'
import { card } from '../../runners/test/samples.js'
import { createEncoder, type Encoding } from '../engine/encoder.js'
import type { Encoded } from '../engine/samples.js'
import { makeKokoro, makePiper, makePiperConfig, TINY, type VitsShape } from './fixtures/make-graphs.js'

const HERE = dirname(fileURLToPath(import.meta.url))
export const VOICE_DIR = join(HERE, '../voice')
/** Folder with public models for tests; it may be missing. */
export const DATA_DIR = process.env['SVC_TEST_DATA'] ?? join(HERE, '../../../../shared/data')

/** An engine environment that runs its work immediately and records the labels and units of that work. */
export function quietEnv (): EngineEnv & { announced: Array<{ label: string, units: number }> } {
  const announced: Array<{ label: string, units: number }> = []
  return {
    announced,
    progress: () => {},
    log: () => {},
    work: async (label, units, call) => {
      announced.push({ label, units })
      return await call()
    }
  }
}

/** A card with the given fields and defaults. */
export const cardOf = (
  over: Partial<ModelCard> & Pick<ModelCard, 'modelId' | 'family' | 'files'>
): ModelCard =>
  card(over.modelId, { backends: ['cpu'], totalBytes: 0, languages: [], ...over })

const specOf = (card: ModelCard, directory: string): ModelSpec =>
  ({ card, directory, backend: 'cpu', threads: 1, options: {} })

/** The bundled voice, with its card. */
export async function embeddedSpec (): Promise<ModelSpec> {
  const card = parse(await readFile(join(VOICE_DIR, 'card.yaml'), 'utf8')) as ModelCard
  return specOf(card, VOICE_DIR)
}

/** A Piper voice with random weights in `dir`. */
export async function piperSpec (
  dir: string, options: {
    shape?: VitsShape, config?: Record<string, unknown>, card?: Partial<ModelCard>
  } = {}
): Promise<ModelSpec> {
  const shape = options.shape ?? TINY
  await mkdir(dir, { recursive: true })
  await writeFile(join(dir, 'voice.onnx'), makePiper(shape).bytes)
  await writeFile(join(dir, 'voice.onnx.json'), JSON.stringify(makePiperConfig(shape, options.config)))
  const files = ['voice.onnx', 'voice.onnx.json'].map((path) => ({ path, role: 'file', bytes: 0 }))
  return specOf(cardOf({ modelId: 'test/piper', family: 'piper', files, ...options.card }), dir)
}

/** A Kokoro model with random weights, an IPA vocabulary and two voices in `dir`. */
export async function kokoroSpec (
  dir: string, options: Parameters<typeof makeKokoro>[0]
): Promise<ModelSpec> {
  await mkdir(dir, { recursive: true })
  const vocab = Object.fromEntries(
    [...';:,.!? abcdefhijklmnopqrstuvwxyzæðŋɑɔəɛɡɪɹʃʊʌʒˈˌː'].map((c, i) => [c, i + 1])
  )
  await writeFile(join(dir, 'model.onnx'), makeKokoro(options))
  await writeFile(join(dir, 'config.json'), JSON.stringify({ vocab }))
  const names = ['af_one', 'bm_two', 'jf_three']
  for (const [k, name] of names.entries()) {
    const rows = new Float32Array(510 * 256).map((_, i) => Math.sin(i * (k + 1)) + Math.floor(i / 256) * 0.01)
    await writeFile(join(dir, `${name}.bin`), new Uint8Array(rows.buffer))
  }
  const paths = ['model.onnx', 'config.json', ...names.map((n) => `${n}.bin`)]
  const files = paths.map((path) => ({ path, role: 'file', bytes: 0 }))
  return specOf(cardOf({ modelId: 'test/kokoro', family: 'kokoro', files }), dir)
}

/** A complete speech answer, with its chunks joined. */
export interface Answer { chunks: EngineChunk[], bytes: Buffer, seconds: number }

export async function say (
  session: EngineSession, payload: Record<string, unknown>, signal = new AbortController().signal
): Promise<Answer> {
  const chunks: EngineChunk[] = []
  const answer = session.run({ kind: 'tts', payload: { model: 'm', ...payload } }, signal)
  for await (const chunk of answer) chunks.push(chunk)
  return {
    chunks,
    bytes: Buffer.concat(chunks.map((c) => c.media ?? new Uint8Array())),
    seconds: chunks.reduce((sum, c) => sum + (c.timing?.durationSeconds ?? 0), 0)
  }
}

/** Sends a request that must be refused, and returns the error. */
export async function refusal (
  session: EngineSession, payload: Record<string, unknown>
): Promise<EngineError> {
  try {
    await say(session, payload)
  } catch (error) {
    if (error instanceof EngineError) return error
    throw error
  }
  throw new Error('the request was served')
}

/** A sine of 220 Hz. */
export const tone = (length: number, rate: number): Float32Array =>
  Float32Array.from({ length }, (_, i) => 0.5 * Math.sin(2 * Math.PI * 220 * i / rate))

/** An encoder's output after each piece of input, and at the end. */
export async function partsOf (
  encoding: Encoding, rate: number, pieces: readonly Float32Array[]
): Promise<Encoded[]> {
  const encoder = await createEncoder(encoding, rate)
  try {
    const parts: Encoded[] = []
    for (const piece of pieces) parts.push(await encoder.encode(piece))
    return [...parts, await encoder.finish()]
  } finally {
    await encoder.close?.()
  }
}

/** Largest difference between two lists of samples; infinite if their lengths differ. */
export function difference (a: Float32Array, b: Float32Array): number {
  if (a.length !== b.length) return Infinity
  return a.reduce((max, v, i) => Math.max(max, Math.abs(v - (b[i] as number))), 0)
}

export async function gather (
  pieces: AsyncIterable<Float32Array>
): Promise<{ samples: Float32Array, pieces: number }> {
  const parts: Float32Array[] = []
  for await (const part of pieces) parts.push(part)
  const samples = new Float32Array(parts.reduce((n, p) => n + p.length, 0))
  let at = 0
  for (const part of parts) {
    samples.set(part, at)
    at += part.length
  }
  return { samples, pieces: parts.length }
}

/** IPA text of about 100 symbols in two clauses, with only symbols that every fixture voice has. */
export const IPA = 'ðə kwɪk bɹaʊn fɑks dʒʌmps oʊvə ðə leɪzi dɔɡ, ' +
  'waɪl ə smɔl ɡɹup ʌv bɜdz sɪŋz aʊt laʊdli ɪn ðə tɹiz.'
