import { Tokenizer } from '@huggingface/tokenizers'
import { EngineError } from '../../../kernel/api/engine.js'
import { fieldsOf } from '../../runners/language/json.js'
import { readJson, type TokenizerFiles } from './files.js'

const EMPTY = { added_tokens: [], normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null }

/** @throws EngineError model_incomplete, model_invalid */
export async function readTokenizer (files: TokenizerFiles): Promise<Tokenizer> {
  const [tokenizer, config, special] = await Promise.all(
    [files.tokenizer, files.config, files.special].map(async (path) => fieldsOf(await readJson(path))))
  try {
    return new Tokenizer({ ...EMPTY, ...tokenizer }, { ...special, ...config })
  } catch (error) {
    throw new EngineError('model_invalid', `tokenizer.json cannot be used: ${(error as Error).message}`)
  }
}

/** Texts to tokenize; `special` adds the model's special tokens around each text. */
export interface Texts { texts: string[], special: boolean }

export const idsIn = (tokenizer: Tokenizer, { texts, special }: Texts): number[][] =>
  texts.map((text) => tokenizer.encode(text, { add_special_tokens: special }).ids)
