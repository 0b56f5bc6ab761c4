import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { EngineError } from '../../../kernel/api/engine.js'
import { isObject } from '../json.js'
import { badModel } from './errors.js'

/** A JSON object as read from a file; its fields are not checked yet. */
export type Json = Record<string, unknown>

/** The largest tokenizer in public use (Gemma) has 34 MB. */
const MAX_JSON_BYTES = 128 * 1024 * 1024
const MAX_TEMPLATE_BYTES = 1024 * 1024

/**
 * The text files of a model folder, as they are. `template` is the file chat_template.jinja, if there is
 * one.
 */
export interface TextFiles {
  tokenizer: Json, tokenizerConfig: Json, specialTokens: Json, generation: Json, config: Json, genai: Json
  template: string | null
}

/**
 * Reads what describes the text side of a model. Only tokenizer.json is needed. Throws EngineError
 * `model_incomplete` where it is missing and `model_invalid` where a file is not what its name says.
 */
export async function readTextFiles (directory: string): Promise<TextFiles> {
  const optional = async (name: string): Promise<Json> => await readJson(directory, name) ?? {}
  const tokenizer = await readJson(directory, 'tokenizer.json')
  if (tokenizer === null) {
    throw new EngineError('model_incomplete', 'this model has no tokenizer.json. Stage it again, or choose ' +
      'a model in one of the public ONNX layouts (they carry a tokenizer.json)')
  }
  const [tokenizerConfig, specialTokens, generation, config, genai] = await Promise.all([
    optional('tokenizer_config.json'), optional('special_tokens_map.json'),
    optional('generation_config.json'),
    optional('config.json'), optional('genai_config.json')])
  const template = await readText(directory, 'chat_template.jinja', MAX_TEMPLATE_BYTES)
  // Where processors of images keep it.
  if (template === null) {
    tokenizerConfig['chat_template'] ??= (await optional('chat_template.json'))['chat_template']
  }
  return { tokenizer, tokenizerConfig, specialTokens, generation, config, genai, template }
}

const TOKEN_NAMES = ['bos_token', 'eos_token', 'pad_token', 'unk_token', 'sep_token', 'cls_token',
  'mask_token']

/** bos_token and its like as text: strings, or objects with `content`. */
export function namedTokens (
  files: Pick<TextFiles, 'tokenizerConfig'> & Partial<Pick<TextFiles, 'specialTokens'>>
): Record<string, string> {
  const out: Record<string, string> = {}
  for (const name of TOKEN_NAMES) {
    const text = tokenText(files.tokenizerConfig[name]) ?? tokenText(files.specialTokens?.[name])
    if (text !== null) out[name] = text
  }
  return out
}

function tokenText (value: unknown): string | null {
  if (typeof value === 'string') return value
  return isObject(value) && typeof value['content'] === 'string' ? value['content'] : null
}

async function readJson (directory: string, name: string): Promise<Json | null> {
  const text = await readText(directory, name, MAX_JSON_BYTES)
  if (text === null) return null
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw badModel(`${name} is not JSON: ${(error as Error).message}`)
  }
  if (!isObject(value)) throw badModel(`${name} is not a JSON object`)
  return value
}

async function readText (directory: string, name: string, limit: number): Promise<string | null> {
  const path = join(directory, name)
  try {
    const { size } = await stat(path)
    if (size > limit) throw badModel(`${name} has ${size} bytes, at most ${limit} are read`)
    return await readFile(path, 'utf8')
  } catch (error) {
    if (error instanceof EngineError) throw error
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw new EngineError('model_incomplete',
      `cannot read ${name}: ${(error as Error).message}. Stage the model again`)
  }
}
