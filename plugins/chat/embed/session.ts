/** Runs an embedding model: tokenizes texts, groups them into batches and pools the outputs. */
import { type InferenceSession, Tensor } from 'onnxruntime-node'
import {
  EngineError, type EngineChunk, type EngineEnv, type EngineSession, type EngineTask, type ModelCard,
  type SpanSink
} from '../../../kernel/api/engine.js'
import { idsOf, type Fields } from '../../runners/language/json.js'
import { invalid, unknownTask } from '../../runners/language/refusals.js'
import { readEmbed, truncated, vectorChunk, type VectorShape } from '../../runners/language/vectors.js'
import { pool, type Pooling } from './vectors.js'
import type { EncoderBinding, IntegerInput, FloatType } from './bind.js'
import type { TextReader } from './reader.js'

/** Maximum tokens (with padding) and texts per batch; small, since a running batch cannot be cancelled. */
const CALL_TOKENS = 512
const CALL_ROWS = 32

const fail = (message: string): EngineError => new EngineError('model_invalid', message)

/** Groups text indexes into batches of at most `most` rows of similar length, to minimize padding. */
export function callsOf (lengths: readonly number[], most = CALL_ROWS): number[][] {
  const order = lengths.map((_, i) => i).sort((a, b) => (lengths[a] as number) - (lengths[b] as number))
  const calls: number[][] = []
  for (const i of order) {
    const call = calls.at(-1)
    const rows = (call?.length ?? 0) + 1
    const full = rows > most || rows * (lengths[i] as number) > CALL_TOKENS
    if (call === undefined || full) calls.push([i])
    else call.push(i)
  }
  return calls
}

export interface LoadedEncoder {
  session: InferenceSession, binding: EncoderBinding, pooling: Pooling, env: EngineEnv
  /** Whether a batch shares one quantization scale; then texts run singly, so that none affects another. */
  shared: boolean
  reader: TextReader, contextLength: number, card: ModelCard
}

interface EmbedRequest { texts: number[][], shape: VectorShape }

/**
 * Task `embed` yields one chunk per text, `{ kind: 'embedding', index, dimensions }` with little-endian
 * 32-bit floats in `media`, in no particular order, then `{ kind: 'done', usage }`.
 */
export class EncoderSession implements EngineSession {
  private readonly loaded: LoadedEncoder

  constructor (loaded: LoadedEncoder) { this.loaded = loaded }

  async warmup (): Promise<void> { await this.vectorsOf([[1, 2, 3], [2, 1]]) }

  async * run ({ kind, payload, trace }: EngineTask, signal: AbortSignal): AsyncGenerator<EngineChunk> {
    if (kind === 'tokenize') yield { payload: await this.tokenized(payload, signal) }
    else if (kind === 'detokenize') yield { payload: this.detokenized(payload) }
    else if (kind === 'embed' || kind === 'embeddings') {
      yield * this.embed(await this.read(payload, signal), signal, trace)
    } else throw unknownTask(kind, 'embed, tokenize and detokenize')
  }

  info (): Record<string, unknown> {
    const { pooling, contextLength, reader: { vocabularySize } } = this.loaded
    return { contextLength, pooling, vocabularySize }
  }

  async close (): Promise<void> {
    await this.loaded.reader.close()
    await this.loaded.session.release()
  }

  private async * embed (
    request: EmbedRequest, signal: AbortSignal, trace: SpanSink | undefined
  ): AsyncGenerator<EngineChunk> {
    const { texts, shape } = request
    const most = this.loaded.shared ? 1 : CALL_ROWS
    for (const call of callsOf(texts.map(({ length }) => length), most)) {
      if (signal.aborted) return
      const startMs = trace?.now() ?? 0
      const batch = call.map((i) => texts[i] as number[])
      const vectors = await this.vectorsOf(batch)
      const tokens = batch.reduce((sum, { length }) => sum + length, 0)
      trace?.span('embed', 'prefill', startMs, trace.now(), { texts: call.length, tokens })
      for (const [row, vector] of vectors.entries()) yield vectorChunk(call[row] as number, vector, shape)
    }
    const prompt_tokens = texts.reduce((sum, { length }) => sum + length, 0)
    yield { payload: { kind: 'done', usage: { prompt_tokens, completion_tokens: 0, cached_tokens: 0 } } }
  }

  private async tokenized (payload: Fields, signal: AbortSignal): Promise<Record<string, unknown>> {
    const { prompt, add_special_tokens: special } = payload
    const { reader, contextLength } = this.loaded
    const tokens = typeof prompt === 'string'
      ? (await reader.read({ texts: [prompt], special: special !== false }, signal))[0]!
      : this.given(prompt, 'prompt')
    return { kind: 'tokens', tokens, count: tokens.length, context_length: contextLength }
  }

  private detokenized ({ tokens }: Fields): Record<string, unknown> {
    const ids = this.given(tokens, 'tokens')
    const { tokenizer } = this.loaded.reader
    const exact = { skip_special_tokens: false, clean_up_tokenization_spaces: false }
    return { kind: 'text', text: ids.length === 0 ? '' : tokenizer.decode(ids, exact) }
  }

  /** Token ids of the field at `path`. @throws EngineError invalid_request if they are not valid */
  private given (value: unknown, path: string): number[] {
    const { vocabularySize } = this.loaded.reader
    const ids = idsOf(value)
    if (ids?.every((id) => id < vocabularySize) === true) return ids
    throw invalid(`${path} must be a text or token ids below ${vocabularySize}`, path)
  }

  private async read (payload: Fields, signal: AbortSignal): Promise<EmbedRequest> {
    const { inputs, shape, truncate } = readEmbed(payload)
    const written = inputs.filter((each) => typeof each === 'string')
    const read = (await this.loaded.reader.read({ texts: written, special: true }, signal)).values()
    const all = inputs.map((each, i) => typeof each === 'string'
      ? read.next().value as number[]
      : this.given(each, inputs.length === 1 ? 'input' : `input.${i}`))
    const texts = truncate === undefined ? all : await this.cut(all, truncate, signal)
    texts.forEach((ids, i) => { this.check(ids, i) })
    return { texts, shape }
  }

  private async cut (texts: number[][], most: number, signal: AbortSignal): Promise<number[][]> {
    const { reader, contextLength } = this.loaded
    const [empty = []] = await reader.read({ texts: [''], special: true }, signal)
    return texts.map((ids) => truncated(ids, Math.min(most, contextLength), empty))
  }

  private check (ids: readonly number[], index: number): void {
    const { contextLength, card } = this.loaded
    if (ids.length === 0) throw invalid(`input ${index} has no tokens`, 'input')
    if (ids.length <= contextLength) return
    throw new EngineError('context_length_exceeded',
      `context_length_exceeded: this model's maximum context length is ${contextLength} tokens; input ` +
      `${index} for ${card.modelId} has ${ids.length}`,
      { prompt_tokens: ids.length, context_length: contextLength, index })
  }

  /** One vector per text; each text has at least one token. */
  private async vectorsOf (texts: ReadonlyArray<readonly number[]>): Promise<Float32Array[]> {
    const { session, env, binding: { output, pooled } } = this.loaded
    const tokens = Math.max(...texts.map((ids) => ids.length))
    const feeds = this.feedsOf(texts, tokens)
    const units = texts.length * tokens
    const made = await env.work('embed', units, async () => await session.run(feeds, [output]))
    const { data, dims } = made[output] as Tensor
    const numbers = data instanceof Uint16Array ? halfToFloat(data) : data
    const size = dims.at(-1) ?? 0
    const each = pooled ? size : tokens * size
    if (!(numbers instanceof Float32Array) || size === 0 || numbers.length !== texts.length * each) {
      throw fail(`output "${output}" of the graph has shape [${dims.join(', ')}] for ${texts.length} texts ` +
        `of ${tokens} tokens`)
    }
    return texts.map(({ length }, row) =>
      this.vectorOf(numbers.subarray(row * each, (row + 1) * each), length, size))
  }

  private vectorOf (numbers: Float32Array, tokens: number, size: number): Float32Array {
    const { pooling, binding: { pooled } } = this.loaded
    const rows = pooled ? 1 : tokens
    const vectors = Array.from({ length: rows }, (_, i) => numbers.subarray(i * size, (i + 1) * size))
    const vector = pool(vectors, pooled ? 'first' : pooling)
    if (vector.every(Number.isFinite)) return vector
    throw new EngineError('provider_error',
      `the model computed NaN or infinity for a text of ${tokens} tokens`)
  }

  /** Inputs of a batch, padded at the end. */
  private feedsOf (texts: ReadonlyArray<readonly number[]>, tokens: number): Feeds {
    const { ids, mask, types, positions, pasts } = this.loaded.binding
    const rows = texts.length
    const filled = (value: (text: readonly number[], i: number) => number): number[] =>
      texts.flatMap((text) => Array.from({ length: tokens }, (_, i) => value(text, i)))
    const feeds: Feeds = {}
    const feed = (port: IntegerInput | null, value: (text: readonly number[], i: number) => number): void => {
      if (port !== null) feeds[port.name] = integerTensor(port, filled(value), [rows, tokens])
    }
    feed(ids, (text, i) => text[i] ?? 0)
    feed(mask, (text, i) => i < text.length ? 1 : 0)
    feed(types, () => 0)
    feed(positions, (_, i) => i)
    for (const { name, type, dims } of pasts) {
      const none = type === 'float16' ? new Uint16Array(0) : new Float32Array(0)
      feeds[name] = floatTensor(type, none, dims(rows))
    }
    return feeds
  }
}

/** A tensor's data; half-precision floats are kept as raw 16-bit patterns. */
type Part = Float32Array | Uint16Array

/** Inputs or outputs by name. */
export type Feeds = Record<string, Tensor>

/**
 * onnxruntime-node up to 1.30 loses half-precision inputs if the global Float16Array exists, as in Node 24:
 * each arrives as 0 bytes (microsoft/onnxruntime#26791, #32323). Without the global, which onnxruntime checks
 * at the first tensor, it uses Uint16Array as on older versions.
 */
export function hideFloat16Array (scope: object): void { Reflect.deleteProperty(scope, 'Float16Array') }

hideFloat16Array(globalThis)

function widen (bits: number): number {
  const sign = (bits & 0x8000) === 0 ? 1 : -1
  const exponent = (bits >> 10) & 0x1f
  const fraction = bits & 0x3ff
  if (exponent === 0) return sign * fraction * 2 ** -24
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15)
}

let table: Float32Array | undefined

/** Converts half-precision floats without loss. */
export function halfToFloat (halves: Uint16Array): Float32Array {
  const known = table ??= Float32Array.from({ length: 65_536 }, (_, bits) => widen(bits))
  const floats = new Float32Array(halves.length)
  for (let i = 0; i < halves.length; i++) floats[i] = known[halves[i] as number] as number
  return floats
}

export const floatTensor = (type: FloatType, part: Part, dims: readonly number[]): Tensor =>
  part instanceof Float32Array ? new Tensor('float32', part, dims) : new Tensor(type, part, dims)

/** An integer tensor of the type that the graph's input requires. */
export function integerTensor (
  port: IntegerInput, values: ArrayLike<number>, dims: readonly number[]
): Tensor {
  if (port.type === 'int32') return new Tensor('int32', Int32Array.from(values), dims)
  const data = new BigInt64Array(values.length)
  for (let i = 0; i < values.length; i++) data[i] = BigInt(values[i] as number)
  return new Tensor('int64', data, dims)
}
