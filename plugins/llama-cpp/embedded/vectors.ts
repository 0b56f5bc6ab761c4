/** Runs the tasks for an embedding or reranking model. */
import type {
  EngineChunk, EngineEnv, EngineSession, EngineTask, ModelCard
} from '../../../kernel/api/engine.js'
import { readEmbed, scoresChunk, truncated, vectorChunk } from '../../runners/language/vectors.js'
import type { Fields } from '../../runners/language/json.js'
import { contextExceeded, unknownTask, invalid } from '../../runners/language/refusals.js'
import { decodeAll } from '../text/stream.js'
import type { NativeContext } from './binding.js'
import type { Vocabulary } from './vocabulary.js'

interface VectorParts {
  card: ModelCard
  contextLength: number
  release: string
  vocabulary: Vocabulary
  context: NativeContext
  env: Pick<EngineEnv, 'work'>
  close: () => Promise<void>
}

/** Processes one text at a time, because the addon returns the vector of only one sequence. */
export class VectorSession implements EngineSession {
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
