/** Encoders generated on disk, and sessions of them. */
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  EngineError, type EngineEnv, type EngineSession, type ModelCard, type ModelSpec
} from '../../../kernel/api/engine.js'
import engine from '../embed/index.js'
import { makeEncoder } from './embed-onnx.js'
import type { Open } from './api-kit.js'

/** An engine environment for tests; `work` runs its callback immediately. */
export const quietEnv = (): EngineEnv =>
  ({ progress: () => {}, log: () => {}, work: async (_label, _units, call) => await call() })

/** A model card with defaults for the fields that the engine ignores. */
export function cardOf (card: Partial<ModelCard> & Pick<ModelCard, 'files'>): ModelCard {
  return {
    modelId: 'test/model', revision: '1', title: '', description: '', tasks: ['embeddings'],
    family: 'bert', engine: 'onnx-lm', backends: ['cpu'], totalBytes: 0, nLayers: 1, hiddenSize: 1, heads: 0,
    kvHeads: 0, headSize: 0,
    contextLength: 128, supportsTensor: false, companions: [], licence: '', languages: [],
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

/** A byte-level tokenizer of single characters for generated models. */
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

/** Writes a generated encoder into a folder; `pooling` is the content of 1_Pooling/config.json. */
export async function writeEncoder (directory: string, pooling?: object): Promise<void> {
  await mkdir(join(directory, '1_Pooling'), { recursive: true })
  const json = {
    'tokenizer.json': tinyTokenizer(), 'tokenizer_config.json': {},
    'config.json': { model_type: 'bert', max_position_embeddings: 128 },
    ...pooling === undefined ? {} : { '1_Pooling/config.json': pooling }
  }
  await writeFile(join(directory, 'model.onnx'), makeEncoder())
  for (const [name, value] of Object.entries(json)) {
    await writeFile(join(directory, name), JSON.stringify(value))
  }
}

/** Writes a generated encoder into the folder and opens a session of it. */
export async function encoderSession (directory: string, pooling?: object): Promise<EngineSession> {
  await writeEncoder(directory, pooling)
  return await engine.load(await specOf(directory), quietEnv())
}

/** Lets `startChat` use the session as its engine. */
export const engineOpen = (session: EngineSession): Open => (task, signal) => session.run(task, signal)

/** Awaits a call that must fail, and returns its EngineError. */
export async function refusal (call: Promise<unknown>): Promise<EngineError> {
  try {
    await call
  } catch (error) {
    if (error instanceof EngineError) return error
    throw error
  }
  throw new Error('nothing was refused')
}
