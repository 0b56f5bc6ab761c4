/**
 * Runs GGUF models with llama.cpp in the runner process, if llama-server is missing. The node itself never
 * loads llama.cpp, which aborts the process for some damaged files.
 */
import { join } from 'node:path'
import {
  EngineError, type CacheType, type EngineEnv, type EngineModule, type EngineSession, type ModelSpec,
  type EngineChunk, type EngineTask, type ModelCard
} from '../../../kernel/api/engine.js'
import { BATCH } from '../engine.js'
import { sizesOf } from '../server/command-line.js'
import { modelFile } from '../server/index.js'
import { readGguf, type GgufHeader } from '../cards/gguf.js'
import {
  errorsRead, llamaCpp, withErrors, type Binding, type ContextOptions, type NativeModel, type NativeContext
} from './binding.js'
import { templateOf } from '../text/source.js'
import { Decoder } from './decoder.js'
import { Prompts } from './prompt.js'
import { cannotLoad } from './refusals.js'
import { TextSession } from './session.js'
import { Vocabulary } from './vocabulary.js'
import { readEmbed, scoresChunk, truncated, vectorChunk } from '../../runners/language/vectors.js'
import type { Fields } from '../../runners/language/json.js'
import { contextExceeded, unknownTask, invalid } from '../../runners/language/refusals.js'
import { decodeAll } from '../text/stream.js'

/** Options for models on several devices or nodes, which only llama-server supports. */
const SERVER_OPTIONS = ['rpc', 'split', 'lends'] as const
const PERCENT = 100
/** Layer count that makes llama.cpp offload every layer, since no model has this many. */
const ALL_LAYERS = 999
/** Limit in characters on the part of llama.cpp's errors that a message includes. */
const MAX_REASON = 500

export default {
  async load (spec, env): Promise<EngineSession> {
    const { card, options, directory } = spec
    const wanted = SERVER_OPTIONS.find((name) => options[name] !== undefined)
    if (wanted !== undefined) {
      throw new EngineError('no_backend', `the llama.cpp in svc runs ${card.modelId} on one device only: ` +
        '`svc engine add llama.cpp` installs llama-server, which supports more')
    }
    const path = join(directory, modelFile(card))
    const header = await headerOf(path, card.modelId)
    const { native, release } = await llamaCpp()
    const model = await loadModel(native, path, spec, env)
    try {
      return await open({ native, release, model, header, spec, env })
    } catch (error) {
      await model.dispose()
      throw error
    }
  }
} satisfies EngineModule as EngineModule

async function headerOf (path: string, modelId: string): Promise<GgufHeader> {
  try {
    return await readGguf(path)
  } catch (error) {
    throw cannotLoad(modelId, (error as Error).message.replaceAll(path, 'the file'))
  }
}

async function loadModel (
  native: Binding, path: string, { card: { modelId }, backend }: ModelSpec, env: EngineEnv
): Promise<NativeModel> {
  return await withErrors(native, async (errors) => {
    const model = new native.AddonModel(path, {
      addonExports: native, gpuLayers: backend === 'cpu' ? 0 : ALL_LAYERS,
      // Avoid a second copy in memory: llama.cpp often repacks the weights, and the file would stay mapped.
      useMmap: false,
      onLoadProgress: (part) => { env.progress(Math.floor(part * PERCENT), PERCENT) }
    })
    if (await model.init()) return model
    await errorsRead()
    const why = errors.map((line) => line.replace(/^\w+: /, '')).join('; ').replaceAll(path, 'the file')
    throw cannotLoad(modelId, why === '' ? 'unknown reason' : why.slice(0, MAX_REASON))
  })
}

interface Opened {
  native: Binding, release: string, model: NativeModel, header: GgufHeader, spec: ModelSpec, env: EngineEnv
}

async function open ({ native, release, model, header, spec, env }: Opened): Promise<EngineSession> {
  const { card, threads } = spec
  const ranks = card.tasks.includes('rerank')
  const embeds = ranks || card.tasks.includes('embeddings')
  const sizes = sizesOf(spec, embeds)
  const { contextLength } = sizes
  const slots = embeds ? 1 : sizes.slots
  const context = new native.AddonContext(model, {
    contextSize: contextLength * slots, sequences: slots, threads, embeddings: embeds, ranking: ranks,
    // An encoder attends to the whole text, which must therefore fit into a single batch.
    batchSize: embeds ? contextLength : Math.max(BATCH, slots),
    flashAttention: 'auto',
    ...card.cacheType === undefined ? {} : typesOf(card.cacheType)
  })
  await withErrors(native, async (errors) => {
    if (await context.init()) return
    await errorsRead()
    throw cannotLoad(card.modelId, errors.join('; ') || 'not enough memory for its context')
  })
  const vocabulary = new Vocabulary(model, header.metadata)
  if (embeds) {
    const close = async (): Promise<void> => {
      await context.dispose()
      await model.dispose()
    }
    return new VectorSession({ card, contextLength, release, vocabulary, context, env, close })
  }
  const now = (): number => performance.now()
  const decoder = new Decoder(context, { slots, window: card.memory?.windowTokens ?? 0 }, env, now)
  const given = await templateOf(spec)
  const templates = given === '' ? templatesOf(header) : new Map([['default', given]])
  const prompts = new Prompts(vocabulary, templates, { bos: model.tokenBos(), eos: model.tokenEos() })
  try {
    prompts.read({ messages: [{ role: 'user', content: 'hi' }] })
  } catch (error) {
    throw new EngineError('chat_template_unreadable', (error as Error).message)
  }
  return new TextSession({
    modelId: card.modelId, defaults: card.defaults, sizes, release, vocabulary, prompts, decoder,
    sampling: { native, model, context, table: vocabulary.table }, now,
    close: async () => {
      await decoder.close()
      await model.dispose()
    }
  })
}

const TYPES = { f16: 1, q8_0: 8, q4_0: 2 } as const

const typesOf = (type: CacheType): Pick<ContextOptions, 'kvCacheKeyType' | 'kvCacheValueType'> =>
  ({ kvCacheKeyType: TYPES[type], kvCacheValueType: TYPES[type] })

/** The model's chat templates by name, `default` first. */
function templatesOf ({ metadata }: GgufHeader): Map<string, string> {
  const key = 'tokenizer.chat_template'
  const named = [...metadata].flatMap(([name, text]) => {
    if (typeof text !== 'string' || text === '') return []
    if (name === key) return [['default', text] as const]
    return name.startsWith(`${key}.`) ? [[name.slice(key.length + 1), text] as const] : []
  })
  return new Map(named.sort(([a], [b]) => Number(b === 'default') - Number(a === 'default')))
}

interface VectorParts {
  card: ModelCard, contextLength: number, release: string, vocabulary: Vocabulary
  context: NativeContext
  env: Pick<EngineEnv, 'work'>
  close: () => Promise<void>
}

/** Processes one text at a time, because the addon returns the vector of only one sequence. */
class VectorSession implements EngineSession {
  private readonly parts: VectorParts
  private last: Promise<unknown> = Promise.resolve()

  constructor (parts: VectorParts) { this.parts = parts }

  async warmup (): Promise<void> { await this.vector(this.idsOf('warm')) }

  async * run ({ kind, payload }: EngineTask, signal: AbortSignal): AsyncGenerator<EngineChunk> {
    const { vocabulary, contextLength } = this.parts
    if (kind === 'tokenize') {
      const tokens = this.idsOf(payload['prompt'], payload['add_special_tokens'] !== false)
      yield { payload: { kind: 'tokens', tokens, count: tokens.length, context_length: contextLength } }
    } else if (kind === 'detokenize') {
      const tokens = this.idsOf(payload['tokens'])
      yield { payload: { kind: 'text', text: decodeAll(vocabulary.table, tokens) } }
    } else if (kind === 'rerank') yield * this.rank(payload, signal)
    else if (kind === 'embed' || kind === 'embeddings') yield * this.embed(payload, signal)
    else throw unknownTask(kind, 'embed, rerank, tokenize and detokenize')
  }

  info (): Record<string, unknown> {
    const { contextLength, release } = this.parts
    return { contextLength, answersAtOnce: 1, driver: 'the llama.cpp in svc', build: release }
  }

  async close (): Promise<void> {
    await this.last
    await this.parts.close()
  }

  private async * embed (payload: Fields, signal: AbortSignal): AsyncGenerator<EngineChunk> {
    const { inputs, shape, truncate } = readEmbed(payload)
    const most = Math.min(truncate ?? Infinity, this.parts.contextLength)
    const texts = inputs.map((input) => this.idsOf(input))
      .map((ids) => truncate === undefined ? ids : truncated(ids, most, this.idsOf('')))
      .map((ids) => this.fitting(ids, 'input'))
    for (const [i, ids] of texts.entries()) {
      const vector = await this.vector(ids)
      if (signal.aborted) return
      yield vectorChunk(i, vector, shape)
    }
    const tokens = texts.reduce((sum, { length }) => sum + length, 0)
    const usage = { prompt_tokens: tokens, completion_tokens: 0, cached_tokens: 0 }
    yield { payload: { kind: 'done', usage } }
  }

  private async * rank (payload: Fields, signal: AbortSignal): AsyncGenerator<EngineChunk> {
    const { query, documents } = payload as { query: string, documents: string[] }
    const { card, vocabulary } = this.parts
    const pairs = documents.map((one) => this.fitting(vocabulary.encodePair(query, one), 'documents'))
    const scores: number[] = []
    for (const ids of pairs) {
      if (signal.aborted) return
      scores.push((await this.vector(ids))[0] ?? 0)
    }
    yield scoresChunk(card, scores, pairs.reduce((sum, { length }) => sum + length, 0))
  }

  private fitting (ids: number[], path: string): number[] {
    const { card: { modelId }, contextLength } = this.parts
    if (ids.length === 0) throw invalid(`${path} is empty`, path)
    if (ids.length > contextLength) throw contextExceeded(modelId, ids.length, contextLength)
    return ids
  }

  private idsOf (input: unknown, special = true): number[] {
    const { vocabulary } = this.parts
    return special && typeof input === 'string'
      ? vocabulary.encodeWhole(input) : vocabulary.read(input, 'input', false)
  }

  private async vector (ids: readonly number[]): Promise<Float32Array> {
    const turn = this.last.then(async () => await this.decoded(ids))
    this.last = turn.catch(() => {})
    return await turn
  }

  private async decoded (ids: readonly number[]): Promise<Float32Array> {
    const { context, env } = this.parts
    context.disposeSequence(0)
    context.initBatch(ids.length)
    context.addToBatch(0, 0, Uint32Array.from(ids), Uint32Array.from(ids.keys()))
    await env.work('embed', ids.length, async () => { await context.decodeBatch() })
    return Float32Array.from(context.getEmbedding(ids.length))
  }
}
