/** The text side of a language model: tokens, chat template, sampling and streams, from the model's files. */
import { randomInt } from 'node:crypto'
import { Tokenizer } from '@huggingface/tokenizers'
import { badModel } from './errors.js'
import { isObject } from '../json.js'
import { namedTokens, readTextFiles } from './files.js'
import type { Json, TextFiles } from './files.js'
import { GrammarFactory } from './grammar/factory.js'
import { seededRandom } from './random.js'
import { tokenChooser } from './sampler.js'
import type { SamplerShared } from './sampler.js'
import { Truncation } from './select.js'
import { decodeAll, textStream } from './stream.js'
import { reasoningMarkers, reasonings, thoughtsAfter } from './reasoning.js'
import type { Reasoning, ReasoningName } from './reasoning.js'
import { ChatTemplate, findTemplates } from './template.js'
import { MARKERS } from './parse/output.js'
import { markersOf, toolFormats } from './tools/index.js'
import { bytesOf, fitVocabulary, tokenTable } from './tokens.js'
import { Cutter, CUT } from './verbatim.js'
import type { TokenTable } from './tokens.js'
import type { LoadedText, SamplingParams, TextOptions } from './types.js'

export type * from './types.js'

/**
 * Loads the text side of the model in `directory`. Throws EngineError `model_incomplete` without
 * tokenizer.json and `model_invalid` for files that are damaged or do not fit the model.
 */
export async function loadText (
  directory: string, { vocabularySize: rows }: TextOptions = {}
): Promise<LoadedText> {
  const files = await readTextFiles(directory)
  if (rows !== undefined) files.tokenizer = fitVocabulary(files.tokenizer, rows)
  const tokenizer = makeTokenizer(files)
  const table = tokenTable(files.tokenizer)
  const size = rows ?? table?.size ?? tokenizer.get_vocab().size
  const eosIds = endTokens(files, tokenizer, size)
  const template = new ChatTemplate(findTemplates(files), namedTokens(files), table?.added.keys())
  const { reasoning } = template
  const writes = { get toolFormat () { return template.tools.format }, reasoning }
  const shared: SamplerShared = {
    forbidden: forbiddenIds(table, size), truncation: new Truncation(), sums: new Float64Array()
  }
  const grammars = new GrammarFactory(table, size, eosIds, writes)
  const exact = (): TokenTable => table ?? noStreams(files)
  const spoken = spokenBy(tokenizer, reasoning)
  /** Markers of other formats stay what they are: special tokens, which are not shown. */
  const own = (markers: readonly string[]): string[] => {
    const { format } = template.tools
    const known = [...reasoningMarkers(reasonings[reasoning ?? 'think']),
      ...format === null ? [] : markersOf(toolFormats[format])]
    return markers.filter((marker) => known.includes(marker))
  }
  return {
    vocabularySize: size,
    eosIds,
    get toolFormat () { return template.tools.format },
    reasoning,
    thoughts: (prompt) => reasoning === null ? 'may' : thoughtsAfter(
      decode(tokenizer, table, prompt.slice(-END_TOKENS), false), reasonings[reasoning]),
    encode: (text, addSpecial = true) => addSpecial
      ? tokenizer.encode(text).ids
      : text.split(CUT).flatMap((part) =>
          part === '' ? [] : tokenizer.encode(part, { add_special_tokens: false }).ids),
    decode: (ids, skipSpecial = true) => decode(tokenizer, table, ids, skipSpecial),
    bytes: (id) => bytesOf(exact(), id),
    warm: () => {
      void template.tools
      grammars.warm()
    },
    render: (messages, { addGenerationPrompt, ...told }) => template.render(
      messages.map((message) => spoken(message, message.role)),
      { addGenerationPrompt, ...spoken(told, 'user') }),
    stream: (stop, how = {}) => textStream(exact(), stop, { ...how, markers: own(how.markers ?? []) }),
    chooser: (params: SamplingParams) => tokenChooser(params, shared,
      seededRandom(params.seed ?? randomInt(2 ** 48 - 1)), grammars.constraint(params))
  }
}

/** How far from the end of a prompt it is said whether it ends in reasoning, tokens. */
const END_TOKENS = 32

/**
 * Cuts special tokens in the input of the template. Assistant messages keep the marks around reasoning, since
 * templates search for them.
 */
function spokenBy (tokenizer: Tokenizer, reasoning: ReasoningName | null): <T>(told: T, role: string) => T {
  const own: Reasoning | null = reasoning === null ? null : reasonings[reasoning]
  const marks = own?.channels === true ? [] : [own?.opens, own?.closes]
  const added = [...tokenizer.get_added_tokens_decoder().values()]
    .filter(({ content, special }) => [...content].length > 1 && (special || MARKERS.includes(content)))
    .map(({ content }) => content)
  const ofAnswer = new Cutter(added.filter((word) => !marks.includes(word)))
  const all = new Cutter(added)
  return (told, role) => (role === 'assistant' ? ofAnswer : all).cut(told)
}

function makeTokenizer (files: TextFiles): Tokenizer {
  const config = { ...files.specialTokens, ...files.tokenizerConfig }
  const defaults = { added_tokens: [], normalizer: null, pre_tokenizer: null, post_processor: null,
    decoder: null }
  try {
    return new Tokenizer({ ...defaults, ...files.tokenizer }, config)
  } catch (error) {
    throw badModel(`tokenizer.json cannot be used: ${(error as Error).message}`)
  }
}

/**
 * Texts are never "cleaned up" (clean_up_tokenization_spaces): that rewrites spaces already sent in
 * a stream and breaks JSON and code; transformers warns against it too.
 */
function decode (tokenizer: Tokenizer, table: TokenTable | null, ids: readonly number[],
  skipSpecial: boolean): string {
  if (table !== null) return decodeAll(table, ids, skipSpecial)
  if (ids.length === 0) return ''
  return tokenizer.decode([...ids], { skip_special_tokens: skipSpecial, clean_up_tokenization_spaces: false })
}

function noStreams (files: TextFiles): never {
  const decoder = files.tokenizer['decoder']
  const type = isObject(decoder) ? String(decoder['type']) : 'no decoder'
  throw badModel(`this model cannot generate text: its tokenizer has ${type}, which gives no exact bytes ` +
    'per token (byte-level BPE and SentencePiece-like tokenizers do)')
}

/** Ids without a token: the model has rows for them that were never trained. */
function forbiddenIds (table: TokenTable | null, size: number): Int32Array {
  const ids: number[] = []
  if (table !== null) for (let id = 0; id < size; id++) if (table.known[id] !== 1) ids.push(id)
  return Int32Array.from(ids)
}

/**
 * Every token that ends an output: those of generation_config (else config, genai_config) and the
 * tokenizer's.
 */
function endTokens (files: TextFiles, tokenizer: Tokenizer, size: number): ReadonlySet<number> {
  const genai = isObject(files.genai['model']) ? files.genai['model'] as Json : {}
  const listed = [files.generation, genai, files.config].find((f) => (f['eos_token_id'] ?? null) !== null)
  const ids = [listed?.['eos_token_id'] ?? []].flat()
  const name = namedTokens(files)['eos_token']
  const own = name === undefined ? undefined : tokenizer.token_to_id(name)
  if (own !== undefined) ids.push(own)
  const out = new Set<number>()
  for (const id of ids) {
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0) {
      throw badModel(`eos_token_id ${JSON.stringify(id)} is not a token id`)
    }
    if (id < size) out.add(id)
  }
  return out
}
