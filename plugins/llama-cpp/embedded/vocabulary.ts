/** A loaded model's vocabulary: the bytes of its tokens, and tokenization. */
import { idsOf } from '../../runners/language/json.js'
import { CUT } from '../text/verbatim.js'
import type { TokenTable } from '../text/stream.js'
import { ATTRIBUTE, type NativeModel } from './binding.js'
import { invalid } from '../../runners/language/refusals.js'

const SENTENCE_PIECE = 1
const BYTE_LEVEL = 2
const WORD_PIECE = 3
/** Byte-pair tokenizers with which llama.cpp puts a separator between a reranker's query and document. */
const SEPARATED = /^(jina-v1-en|jina-v2-code|roberta-bpe)$/
const utf8 = new TextEncoder()

/** GPT-2's mapping of visible characters to bytes. */
const byteOf = ((): ReadonlyMap<string, number> => {
  const isVisible = (byte: number): boolean =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174
  let next = 256
  return new Map(Array.from({ length: 256 }, (_, byte) =>
    [String.fromCodePoint(isVisible(byte) ? byte : next++), byte]))
})()

function bytesOf (text: string, attributes: number, type: number): Uint8Array {
  if ((attributes & (ATTRIBUTE.control | ATTRIBUTE.userDefined)) !== 0) return utf8.encode(text)
  if (type === BYTE_LEVEL) {
    const bytes = [...text].map((char) => byteOf.get(char))
    return bytes.includes(undefined) ? utf8.encode(text) : Uint8Array.from(bytes as number[])
  }
  const byte = /^<0x([\dA-F]{2})>$/i.exec(text)?.[1]
  return byte === undefined ? utf8.encode(text.replaceAll('▁', ' ')) : Uint8Array.of(parseInt(byte, 16))
}

export class Vocabulary {
  readonly table: TokenTable
  private readonly model: NativeModel
  private readonly metadata: ReadonlyMap<string, unknown>

  constructor (model: NativeModel, metadata: ReadonlyMap<string, unknown>) {
    this.model = model
    this.metadata = metadata
    const tokens = metadata.get('tokenizer.ggml.tokens')
    const size = (tokens as { length: number } | undefined)?.length ?? 0
    const addsSpace = metadata.get('tokenizer.ggml.add_space_prefix') !== false
    const type = model.getVocabularyType()
    const special = new Set<number>()
    const added = new Map<string, number>()
    for (let id = 0; id < size; id++) {
      const attributes = model.getTokenAttributes(id)
      const isControl = (attributes & (ATTRIBUTE.control | ATTRIBUTE.unknown)) !== 0
      if (isControl) special.add(id)
      const isAdded = isControl || (attributes & ATTRIBUTE.userDefined) !== 0
      if (isAdded) added.set(model.getTokenString(id) ?? '', id)
    }
    this.table = {
      size, special, added,
      bytesOf: (id) => id < 0 || id >= size ? new Uint8Array()
        : bytesOf(model.getTokenString(id) ?? '', model.getTokenAttributes(id), type),
      strip: type === SENTENCE_PIECE && addsSpace ? 1 : 0
    }
  }

  /** The text of a token, such as `<s>`; undefined for a negative id. */
  textOf (id: number): string | undefined { return id < 0 ? undefined : this.model.getTokenString(id) }

  isEnd (id: number): boolean { return this.model.isEogToken(id) }

  /** Tokenizes a rendered conversation; a special token with the mark CUT inside is read as plain text. */
  encodeRendered (text: string): number[] {
    return this.begun(text.split(CUT).flatMap((part) => part === '' ? [] : this.tokens(part)))
  }

  /** Tokenizes a string; `special` adds the model's BOS token at the start. */
  encode (text: string, special = true): number[] {
    return special ? this.begun(this.tokens(text)) : this.tokens(text)
  }

  /** Tokenizes a string, or validates token ids. @throws EngineError invalid_request that names `path` */
  read (value: unknown, path: string, special = true): number[] {
    if (typeof value === 'string') return this.encode(value, special)
    const ids = idsOf(value)
    if (ids?.every((id) => id < this.table.size) === true) return ids
    throw invalid(`${path} must be a text or token ids below ${this.table.size}`, path)
  }

  /** Tokenizes a string for an embedding. */
  encodeWhole (text: string): number[] {
    const ids = this.encode(text)
    const [end, separator] = [this.model.tokenEos(), this.model.sepToken()]
    if (!this.model.shouldAppendEosToken()) return ids
    const last = separator >= 0 ? separator : end
    return last < 0 || ids.at(-1) === last ? ids : [...ids, last]
  }

  /** Tokenizes a reranker's query and document together, as llama.cpp's server does. */
  encodePair (query: string, document: string): number[] {
    const { model, metadata } = this
    const template = metadata.get('tokenizer.chat_template.rerank')
    if (typeof template === 'string') {
      return this.encode(template.replace('{query}', () => query).replace('{document}', () => document))
    }
    const separates = metadata.get('tokenizer.ggml.add_sep_token') ??
      (model.getVocabularyType() === WORD_PIECE || SEPARATED.test(String(metadata.get('tokenizer.ggml.pre'))))
    const separator = separates === true && model.sepToken() >= 0 ? [model.sepToken()] : []
    const end = model.shouldAppendEosToken()
      ? [model.tokenEos() >= 0 ? model.tokenEos() : model.sepToken()] : []
    return this.begun([...this.tokens(query), ...end, ...separator, ...this.tokens(document), ...end])
  }

  private tokens (text: string): number[] { return [...this.model.tokenize(text, true)] }

  /** Prepends the BOS token if the model uses one, unless a template has already added it. */
  private begun (ids: number[]): number[] {
    const bos = this.model.tokenBos()
    return this.model.shouldPrependBosToken() && bos >= 0 && ids[0] !== bos ? [bos, ...ids] : ids
  }
}
