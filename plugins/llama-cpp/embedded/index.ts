/**
 * Runs GGUF models with llama.cpp in the runner process, if llama-server is missing. The node itself never
 * loads llama.cpp, which aborts the process for some damaged files.
 */
import { join } from 'node:path'
import {
  EngineError, type CacheType, type EngineEnv, type EngineModule, type EngineSession, type ModelSpec
} from '../../../kernel/api/engine.js'
import { BATCH } from '../engine.js'
import { sizesOf } from '../server/command-line.js'
import { modelFile } from '../server/index.js'
import { readGguf, type GgufHeader } from '../cards/gguf.js'
import {
  errorsRead, llamaCpp, withErrors, type Binding, type ContextOptions, type NativeModel
} from './binding.js'
import { templateOf } from '../text/source.js'
import { Decoder } from './decoder.js'
import { Prompts } from './prompt.js'
import { cannotLoad } from './refusals.js'
import { TextSession } from './session.js'
import { VectorSession } from './vectors.js'
import { Vocabulary } from './vocabulary.js'

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
