/** The session of an encoder: task `embed`. */
import {
  EngineError, type EngineChunk, type EngineSession, type EngineTask, type ModelSpec, type SpanSink
} from '../../../kernel/api/engine.js'
import { invalid } from '../text/errors.js'
import type { LoadedText } from '../text/types.js'
import { callsOf, type Encoder } from './encoder.js'
import { readEmbed, vectorChunk, type Pooling, type VectorShape } from './vectors.js'
import type { Prompts } from './prompts.js'
import { detokenized, givenIds, tokenized, unknownTask } from './request.js'

/** A loaded encoder. */
export interface LoadedEncoder {
  encoder: Encoder, text: LoadedText, prompts: Prompts, pooling: Pooling, contextLength: number
}

interface EmbedRequest { texts: number[][], shape: VectorShape }

/**
 * Answers one chunk per text, `{ kind: 'embedding', index, dimensions }` with the numbers as little-endian
 * 32-bit floats in `media`, in no particular order, and `{ kind: 'done', usage }`.
 */
export class EncoderSession implements EngineSession {
  private readonly loaded: LoadedEncoder
  private readonly spec: ModelSpec

  constructor (loaded: LoadedEncoder, spec: ModelSpec) {
    this.loaded = loaded
    this.spec = spec
  }

  async warmup (): Promise<void> { await this.loaded.encoder.embed([[1, 2, 3], [2, 1]]) }

  async * run ({ kind, payload, trace }: EngineTask, signal: AbortSignal): AsyncGenerator<EngineChunk> {
    if (kind === 'tokenize') yield { payload: await tokenized(payload, this.loaded, signal) }
    else if (kind === 'detokenize') yield { payload: detokenized(payload, this.loaded.text) }
    else if (kind === 'embed' || kind === 'embeddings') {
      yield * this.embed(await this.read(payload, signal), signal, trace)
    } else throw unknownTask(kind, 'embed, tokenize and detokenize')
  }

  info (): Record<string, unknown> {
    const { pooling, contextLength, text } = this.loaded
    return { contextLength, pooling, vocabularySize: text.vocabularySize }
  }

  async close (): Promise<void> {
    await this.loaded.prompts.close()
    await this.loaded.encoder.close()
  }

  private async * embed (
    request: EmbedRequest, signal: AbortSignal, trace: SpanSink | undefined
  ): AsyncGenerator<EngineChunk> {
    const { texts, shape } = request
    for (const call of callsOf(texts.map(({ length }) => length))) {
      if (signal.aborted) return
      const startMs = trace?.now() ?? 0
      const batch = call.map((i) => texts[i] as number[])
      const vectors = await this.loaded.encoder.embed(batch)
      const tokens = batch.reduce((sum, { length }) => sum + length, 0)
      trace?.span('embed', 'prefill', startMs, trace.now(), { texts: call.length, tokens })
      for (const [row, vector] of vectors.entries()) yield vectorChunk(call[row] as number, vector, shape)
    }
    const prompt_tokens = texts.reduce((sum, { length }) => sum + length, 0)
    yield { payload: { kind: 'done', usage: { prompt_tokens, completion_tokens: 0, cached_tokens: 0 } } }
  }

  private async read (payload: Record<string, unknown>, signal: AbortSignal): Promise<EmbedRequest> {
    const { inputs, shape } = readEmbed(payload)
    const { prompts, text } = this.loaded
    const written = inputs.filter((each) => typeof each === 'string')
    const read = (await prompts.read({ texts: written, special: true }, signal)).values()
    const texts = inputs.map((each, i) => typeof each === 'string'
      ? read.next().value as number[]
      : givenIds(each, text, inputs.length === 1 ? 'input' : `input.${i}`))
    texts.forEach((ids, i) => { this.check(ids, i) })
    return { texts, shape }
  }

  private check (ids: readonly number[], index: number): void {
    const { contextLength } = this.loaded
    if (ids.length === 0) throw invalid(`input ${index} has no token`, 'input')
    if (ids.length <= contextLength) return
    throw new EngineError('context_length_exceeded',
      `context_length_exceeded: input ${index} has ${ids.length} ` +
      `tokens, but ${this.spec.card.modelId} takes at most ${contextLength}`,
      { prompt_tokens: ids.length, context_length: contextLength, index })
  }
}
