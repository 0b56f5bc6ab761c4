/** Helpers of the engine's tests: models in folders, sessions, answers as one value. */
import { existsSync } from 'node:fs'
import { readFile, writeFile, mkdir, readdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  EngineError, type EngineEnv, type EngineSession, type ModelCard, type ModelSpec
} from '../../../kernel/api/engine.js'
import { bind, namesOf } from '../engine/bind.js'
import type { KvBatch } from '../engine/cache.js'
import { giveNewEntries, sharesScale, sliceBeforeHead } from '../engine/graph-changes.js'
import { OnnxDecoder } from '../engine/model.js'
import { probe, type Probed } from '../engine/probe.js'
import { portsOf } from '../engine/load.js'
import { decodeModel, encodeModel, openSession, type OnnxModel } from '../../onnx/engine.js'
import type { Delta, Done } from '../engine/pieces.js'
import { Scheduler } from '../engine/scheduler.js'
import { NotingJob, argmax } from './engine-fake.js'
import { makeDecoder, type DecoderShape } from './engine-onnx.js'

const HERE = dirname(fileURLToPath(import.meta.url))
/** The language model that ships. */
export const GUIDE = join(HERE, '../guide/model')
/** Folder with public model files for tests; may be absent. */
export const SHARED = process.env['SVC_TEST_SHARED'] ?? join(HERE, '../../../../shared')
/** Given to a test as `skip`: false, or why. */
export const withoutShared = existsSync(join(SHARED, 'data/stories260K'))
  ? false
  : `needs the model files of ${SHARED}, which is absent`

/** An environment that runs work at once and notes what was announced. */
export function quietEnv (): EngineEnv & { announced: Array<{ label: string, units: number }>,
  logs: string[] } {
  const announced: Array<{ label: string, units: number }> = []
  const logs: string[] = []
  return {
    announced,
    logs,
    progress: () => {},
    log: (_level, message) => { logs.push(message) },
    work: async (label, units, call) => {
      announced.push({ label, units })
      return await call()
    }
  }
}

const SIZES = { kvHeads: 0, headSize: 0 }

/** An opened graph: bytes, or a path; `cut` slices before the head, `fresh` gives new entries only. */
export async function openGraph (
  graph: Uint8Array | string,
  { cut = false, fresh = false, genai }: { cut?: boolean, fresh?: boolean, genai?: unknown } = {}
): Promise<{ decoder: OnnxDecoder, probed: Probed }> {
  let bytes = graph
  let before
  const read = async (): Promise<OnnxModel> =>
    decodeModel(typeof graph === 'string' ? await readFile(graph) : graph)
  if (cut || fresh) {
    const model = await read()
    const sliced = cut && sliceBeforeHead(model, 'logits')
    before = fresh ? giveNewEntries(model, SIZES, namesOf(genai)) : undefined
    if (sliced !== cut || (before === undefined) === fresh) throw new Error('cannot be changed')
    bytes = encodeModel(model)
  }
  const weightsIn = typeof graph === 'string' ? dirname(graph) : undefined
  const session = await openSession(
    bytes, { backend: 'cpu', threads: 1 }, { engine: 'onnx-lm', label: 'the model', weightsIn })
  const { inputs, outputs } = portsOf(session)
  const binding = bind(inputs, before ?? outputs, SIZES, namesOf(genai))
  const decoder = new OnnxDecoder(session, binding, 1e6, quietEnv())
  return { decoder, probed: await probe(decoder, sharesScale(await read())) }
}

/** Greedy tokens without any cache: the whole sequence is fed for each token. */
export async function recomputed (decoder: OnnxDecoder, prompt: readonly number[],
  tokens: number): Promise<number[]> {
  const ids = [...prompt]
  for (let i = 0; i < tokens; i++) {
    const { logits } = await decoder.forward(decoder.empty(), [ids], true)
    ids.push(argmax(logits[0] as Float32Array))
  }
  return ids.slice(prompt.length)
}

/** Jobs in a batch that keeps changing: one more joins at each second turn. */
export async function changing (decoder: OnnxDecoder, jobs: readonly NotingJob[]): Promise<void> {
  const waiting = [...jobs]
  const clock = {
    now: () => 0,
    yieldToEvents: async () => {
      if (turns++ % 2 === 0) submit()
      await Promise.resolve()
    }
  }
  let turns = 1
  const scheduler = new Scheduler<KvBatch>(decoder, { budget: 1e9, prefixBudget: 0, maxSequences: 32 }, clock)
  const settled = Promise.all(jobs.map(async (job) => {
    await new Promise<void>((resolve) => { job.onSettled = resolve })
  }))
  const submit = (): void => {
    const job = waiting.shift()
    if (job !== undefined) scheduler.submit([job])
  }
  submit()
  await settled
}

/** A card with the fields an engine reads, and the rest filled in. */
export function cardOf (card: Partial<ModelCard> & Pick<ModelCard, 'files'>): ModelCard {
  return {
    modelId: 'test/model', revision: '1', title: '', description: '', tasks: ['chat', 'completions'],
    family: 'llama',
    engine: 'onnx-lm', backends: ['cpu'], totalBytes: 0, nLayers: 1, hiddenSize: 1, heads: 0, kvHeads: 0,
    headSize: 0, contextLength: 128, supportsTensor: false, companions: [], licence: '', languages: [],
    quantization: null, voices: [], defaults: {}, support: {}, ...card
  }
}

/** A spec of all files in a folder. */
export async function specOf (
  directory: string, card: Partial<ModelCard> = {}, options: Record<string, unknown> = {}
): Promise<ModelSpec> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map((entry) => {
    const path = join(entry.parentPath, entry.name).slice(directory.length + 1)
    return { path, role: path.endsWith('.onnx') ? 'weights' : 'other', bytes: 0 }
  })
  return { card: cardOf({ files, ...card }), directory, backend: 'cpu', threads: 1, options }
}

const LETTERS = ['Ġ', 'Ċ', '.', ',', '?', '!', ...'abcdefghijklmnopqrstuvwxyz0123456789{}[]":-']
const SPECIAL = ['<pad>', '<end>', '<user>', '<assistant>']

/** A byte-level tokenizer of single characters for the made-up decoders. */
export function tinyTokenizer (): Record<string, unknown> {
  const vocab = Object.fromEntries([...SPECIAL, ...LETTERS].map((token, id) => [token, id]))
  const added = SPECIAL.map((content, id) => ({
    id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true
  }))
  return {
    version: '1.0', truncation: null, padding: null, added_tokens: added, normalizer: null,
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    post_processor: null, decoder: { type: 'ByteLevel' },
    model: { type: 'BPE', vocab, merges: [], unk_token: null, fuse_unk: false, byte_fallback: false }
  }
}

/** The chat template of the made-up decoders. */
export const TEMPLATE = '{% for m in messages %}{{ "<" + m.role + ">" + m.content + "<end>" }}{% endfor %}' +
  '{% if add_generation_prompt %}{{ "<assistant>" }}{% endif %}'

/** Writes a made-up model into a folder. */
export async function writeModel (
  directory: string, shape: DecoderShape = {}, more: Record<string, unknown> = {}
): Promise<void> {
  await mkdir(directory, { recursive: true })
  const json: Record<string, unknown> = {
    'tokenizer.json': tinyTokenizer(),
    'tokenizer_config.json': { eos_token: '<end>', chat_template: TEMPLATE },
    'config.json': { model_type: 'llama', eos_token_id: 1, max_position_embeddings: 128 },
    ...more
  }
  await writeFile(join(directory, 'model.onnx'), makeDecoder(shape))
  for (const [name, value] of Object.entries(json)) await writeFile(join(directory, name),
    JSON.stringify(value))
}

/** One answer of a task with n = 1. */
export interface Answer { text: string, deltas: Delta[], done: Done }

/** All pieces of a task's answer. */
export async function piecesOf (
  session: EngineSession, kind: string, payload: Record<string, unknown>,
  signal = new AbortController().signal
): Promise<Array<Delta | Done>> {
  const pieces: Array<Delta | Done> = []
  for await (const { payload: piece } of session.run({ kind, payload },
    signal)) pieces.push(piece as unknown as Delta)
  return pieces
}

/** Asks and reads all of the answer with that index. */
export async function ask (
  session: EngineSession, kind: string, payload: Record<string, unknown>, index = 0
): Promise<Answer> {
  const pieces = (await piecesOf(session, kind, payload)).filter((piece) => piece.index === index)
  const deltas = pieces.filter((piece) => piece.kind === 'delta')
  const done = pieces.at(-1)
  if (done?.kind !== 'done') throw new Error('the answer has no end')
  return { text: deltas.map(({ text }) => text).join(''), deltas, done }
}

/** The refusal of something. */
export async function refusal (call: Promise<unknown>): Promise<EngineError> {
  try {
    await call
  } catch (error) {
    if (error instanceof EngineError) return error
    throw error
  }
  throw new Error('nothing was refused')
}
