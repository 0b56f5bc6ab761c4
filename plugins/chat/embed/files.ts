/** Picks the files that an embedding needs from those on a model's card, and reads the JSON ones. */
import { readFile } from 'node:fs/promises'
import { basename, join, posix } from 'node:path'
import { EngineError, type ModelSpec } from '../../../kernel/api/engine.js'

/** Graph file suffixes by dtype, as transformers.js names them. */
const SUFFIXES: Readonly<Record<string, string>> = {
  fp32: '', fp16: '_fp16', q8: '_quantized', int8: '_int8', uint8: '_uint8', q4: '_q4', q4f16: '_q4f16',
  bnb4: '_bnb4', q2: '_q2', q1: '_q1', q2f16: '_q2f16', q1f16: '_q1f16'
}

/** `config` and `special` are tokenizer_config.json and special_tokens_map.json. */
export interface TokenizerFiles { tokenizer: string, config: string | undefined, special: string | undefined }

export type ModelFiles = Awaited<ReturnType<typeof findFiles>>

const incomplete = (message: string): EngineError =>
  new EngineError('model_incomplete', `${message}. Stage the model again.`)

/** Reads a JSON file of the model; null if the card lists none. @throws EngineError */
export async function readJson (path: string | undefined): Promise<unknown> {
  if (path === undefined) return null
  let text
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    throw incomplete(`cannot read ${basename(path)}: ${(error as Error).message}`)
  }
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new EngineError('model_invalid', `${basename(path)} is not JSON: ${(error as Error).message}`)
  }
}

/**
 * The graph to open: that of `options.dtype`, else the one with role `weights`, else model.onnx. @throws
 * EngineError model_incomplete, model_invalid for a dtype that the model lacks
 */
function graphOf ({ card, options }: Pick<ModelSpec, 'card' | 'options'>): string {
  const graphs = card.files.map(({ path }) => path).filter((path) => path.endsWith('.onnx'))
  const dtype = options['dtype']
  if (dtype !== undefined) {
    const suffix = SUFFIXES[String(dtype)]
    const found = graphs.find((path) =>
      suffix !== undefined && posix.basename(path) === `model${suffix}.onnx`)
    if (found !== undefined) return found
    throw new EngineError('model_invalid', `${card.modelId} has no graph of dtype ${String(dtype)}: ` +
      `it has ${graphs.join(', ')}`)
  }
  const plain = graphs.find((path) => posix.basename(path) === 'model.onnx')
  const graph = card.files.find(({ path, role }) => role === 'weights' && path.endsWith('.onnx'))?.path ??
    plain ?? graphs[0]
  if (graph === undefined) throw incomplete(`the card of ${card.modelId} lists no .onnx file`)
  return graph
}

/**
 * A model's files, as absolute paths, and the contents of config.json and 1_Pooling/config.json; null if
 * absent. @throws EngineError model_incomplete, model_invalid
 */
export async function findFiles (spec: ModelSpec) {
  const { card, directory } = spec
  const paths = card.files.map(({ path }) => path)
  const shortest = (name: string): string | undefined => paths
    .filter((path) => posix.basename(path) === name).sort((a, b) => a.length - b.length)[0]
  const absolute = (path: string | undefined): string | undefined =>
    path === undefined ? undefined : join(directory, path)
  const tokenizer = absolute(shortest('tokenizer.json'))
  if (tokenizer === undefined) throw incomplete(`the card of ${card.modelId} lists no tokenizer.json`)
  return {
    graph: join(directory, graphOf(spec)),
    tokenizer: {
      tokenizer, config: absolute(shortest('tokenizer_config.json')),
      special: absolute(shortest('special_tokens_map.json'))
    },
    config: await readJson(absolute(shortest('config.json'))),
    pooling: await readJson(absolute(paths.find((path) => path.endsWith('1_Pooling/config.json'))))
  }
}
