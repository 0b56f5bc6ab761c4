/** Runs tasks with a model that a llama.cpp server has loaded. */
import {
  EngineError, type EngineChunk, type EngineSession, type EngineTask, type ModelSpec, type SpanSink
} from '../../../kernel/api/engine.js'
import { readEmbed, scoresChunk, truncated, vectorChunk } from '../../runners/language/vectors.js'
import { unknownTask } from '../../runners/language/refusals.js'
import { withSchemaCheck } from '../../runners/language/check.js'
import { newCallId } from '../embedded/answer.js'
import { constraintOf } from '../embedded/constraint.js'
import { TOOLS_LEFT_OUT, warmCompiler, withoutTools } from '../structure.js'
import { OutputReader } from '../text/parse/output.js'
import { reasoningOf, reasonings, reasoningStateAfter } from '../text/reasoning.js'
import {
  chatReader, ChunkSpans, type ReaderFactory, admittedOf, endOf, newsOf, reportsOf, type AnswerReader
} from '../../runners/openai/answer.js'
import { BrokenAnswer } from '../../runners/openai/errors.js'
import { fieldsOf, idsOf, listOf, numberOf, textOf, type Fields } from '../../runners/language/json.js'
import { merged } from '../../runners/language/merged.js'
import {
  callIdsOf, chatBodies, completionBodies, isConstrained, offeredTools, promptOf, readsTools, templateBody,
  templated, type Bodies, type Facts
} from './request.js'
import type { Sizes } from './command-line.js'
import type { Client } from '../../runners/openai/client.js'
import type { AnswerChunk } from '../../runners/language/chunks.js'
import type { LlamaServer } from './server.js'

/** Limit in ms on the wait for the server's exit after the connection has broken. */
const END_MS = 1_000
/** Limit on the texts per embedding request to the server. */
const MAX_TEXTS = 32
const WARMUP_TOKENS = 4
const BETWEEN_IMAGES = /got exception: Chunk not found/

export interface SessionParts { server: LlamaServer, spec: ModelSpec, sizes: Sizes, embeds: boolean }

/** The requests that answer a task, and how to read their events. */
interface Asked extends Bodies { path: string, payload: Fields, reader: ReaderFactory }

export class LlamaSession implements EngineSession {
  private readonly parts: SessionParts
  private readonly client: Client
  private readonly facts: Facts
  private props: Fields = {}

  constructor (parts: SessionParts) {
    const { server, spec: { card: { defaults } }, sizes: { contextLength } } = parts
    this.parts = parts
    this.client = server.client
    this.facts = { contextLength, defaults }
  }

  /** Reads the server's properties. Throws the same errors as `json`, for instance if the key is wrong. */
  async greet (): Promise<void> {
    this.props = await this.client.json({ path: '/props' })
    const length = numberOf(fieldsOf(this.props['default_generation_settings'])['n_ctx'])
    // Use the server's context length, because the server may have rounded the requested one.
    if (length !== undefined && length >= 2) this.facts.contextLength = length
    this.facts.callIds = callIdsOf(textOf(this.props['chat_template']))
    this.facts.tools = readsTools(this.props)
    this.facts.reasoning = reasoningOf(textOf(this.props['chat_template']), [])
  }

  async warmup (): Promise<void> {
    const { embeds, spec: { card } } = this.parts
    const text = { prompt: 'warm', max_tokens: WARMUP_TOKENS, temperature: 0 }
    const read = { input: 'warm', query: 'warm', documents: ['warm'] }
    const task = embeds
      ? { kind: card.tasks.includes('rerank') ? 'rerank' : 'embed', payload: read }
      : { kind: 'completion', payload: text }
    if (!embeds) warmCompiler()
    for await (const chunk of this.run(task, new AbortController().signal)) void chunk
  }

  async * run (task: EngineTask, signal: AbortSignal): AsyncGenerator<EngineChunk> {
    try {
      for await (const chunk of this.serve(task, signal)) {
        if (signal.aborted) return
        yield chunk
      }
    } catch (error) {
      if (!signal.aborted) throw await this.toEngineError(error)
    }
  }

  info (): Record<string, unknown> {
    const { facts: { contextLength }, parts: { sizes: { slots }, server: { program: { pid } } } } = this
    return { contextLength, answersAtOnce: slots, build: textOf(this.props['build_info']),
      driver: 'llama-server', serverPid: pid }
  }

  async close (): Promise<void> { await this.parts.server.close() }

  private serve ({ kind, payload, trace }: EngineTask, signal: AbortSignal): AsyncIterable<EngineChunk> {
    const { facts } = this
    if (kind === 'tokenize') return this.tokenize(payload, signal)
    if (kind === 'detokenize') return this.detokenize(payload, signal)
    if (this.parts.embeds) {
      if (kind === 'rerank') return this.rank(payload, signal)
      if (kind === 'embed' || kind === 'embeddings') return this.embed(payload, signal)
      throw unknownTask(kind, 'embed, rerank, tokenize and detokenize')
    }
    if (kind === 'chat') return this.chat(payload, signal, trace)
    if (kind === 'completion' || kind === 'completions') {
      const asked = { path: '/completion', payload, ...completionBodies(payload, facts) }
      return this.write({ ...asked, reader: completionReader }, signal, trace)
    }
    throw unknownTask(kind, 'chat, completion, tokenize and detokenize')
  }

  private async * chat (
    payload: Fields, signal: AbortSignal, trace: SpanSink | undefined
  ): AsyncGenerator<EngineChunk> {
    const { facts, facts: { reasoning = null } } = this
    const asked = templated(payload, facts)
    const tools = offeredTools(payload).length === 0 ? null : 'hermes'
    if (!isConstrained(payload)) {
      const readsCalls = tools !== null && !('tools' in asked)
      const output = { tools, reasoning: null, newId: newCallId } as const
      const reader: ReaderFactory = (...of) => readsCalls
        ? withCalls(chatReader(...of), new OutputReader(output)) : chatReader(...of)
      const bodies = chatBodies(payload, facts)
      try {
        yield * this.write({ path: '/v1/chat/completions', payload, ...bodies, reader }, signal, trace)
      } catch (error) {
        const { reason, details } = error as Partial<EngineError>
        // Only an error before the first event has the number of the prompt's tokens.
        const isTooLong = reason === 'context_length_exceeded' && details?.['prompt_tokens'] !== undefined
        if (!readsCalls || !isTooLong) throw error
        yield { payload: { choices: [], warnings: [TOOLS_LEFT_OUT] } }
        yield * this.chat(withoutTools(payload), signal, trace)
      }
      return
    }
    // The server accepts no grammar together with tools, enforces calls only for some chat templates, and
    // fails to parse grammar-constrained answers for others. Hence `/completion` and svc's own grammar.
    const prompt = await this.rendered(asked, signal)
    const thoughts = reasoning === null ? 'over' : reasoningStateAfter(prompt, reasonings[reasoning])
    const constraint = constraintOf(payload, { tools, reasoning, thoughts })
    const bodies = completionBodies({ ...payload, prompt }, facts, constraint)
    const reader: ReaderFactory = (...of) => withCalls(completionReader(...of), new OutputReader(
      { ...constraint, startsInReasoning: thoughts === 'inside', newId: newCallId }))
    yield * this.write({ path: '/completion', payload, ...bodies, reader }, signal, trace)
  }

  private async * write (
    asked: Asked, signal: AbortSignal, trace: SpanSink | undefined
  ): AsyncGenerator<EngineChunk> {
    const { bodies, warnings, payload } = asked
    let started = false
    if (warnings.length > 0) yield { payload: { choices: [], warnings } }
    const all = merged(bodies.map((_, index) => this.answer(asked, index, signal, trace)))
    for await (const chunk of withSchemaCheck(all, payload)) {
      // Pass on only the first progress report, because all answers share one prompt.
      if (chunk.choices.length > 0 || !started) yield { payload: { ...chunk } }
      started = true
    }
  }

  /**
   * The chunks of an answer. llama.cpp 0.5.0 fails before the first event if the prompt and the previous one
   * in its slot differ right after the first of two adjacent images; a retry without the prompt cache
   * (`forget`) succeeds.
   */
  private async * answer (
    asked: Asked, index: number, signal: AbortSignal, trace: SpanSink | undefined, forget: Fields = {}
  ): AsyncGenerator<AnswerChunk> {
    const { path, bodies, tops, reader } = asked
    const own = reader(index, tops)
    const spans = trace === undefined ? undefined : new ChunkSpans(trace, index)
    try {
      for await (const event of this.client.events({ path, body: { ...bodies[index], ...forget }, signal })) {
        for (const chunk of own.read(event)) {
          spans?.saw(chunk)
          yield chunk
        }
      }
    } catch (error) {
      if ('cache_prompt' in forget || !BETWEEN_IMAGES.test((error as Error).message)) throw error
      yield * this.answer(asked, index, signal, trace, { cache_prompt: false })
      return
    }
    const rest = own.end(await this.parts.server.peakBytes())
    if (rest === null) throw new BrokenAnswer('llama-server ended a response early')
    spans?.saw(rest)
    yield rest
  }

  private async * tokenize (payload: Fields, signal: AbortSignal): AsyncGenerator<EngineChunk> {
    const { messages, add_special_tokens: special } = payload
    const { contextLength } = this.facts
    const prompt = messages === undefined ? promptOf(payload['prompt']) : await this.rendered(payload, signal)
    const tokens = typeof prompt === 'string' ? await this.tokens(prompt, special !== false, signal) : prompt
    yield { payload: { kind: 'tokens', tokens, count: tokens.length, context_length: contextLength } }
  }

  private async rendered (payload: Fields, signal: AbortSignal): Promise<string> {
    const body = templateBody(payload, this.facts.callIds)
    const { prompt } = await this.client.json({ path: '/apply-template', body, signal })
    return textOf(prompt)
  }

  private async tokens (content: string, special: boolean, signal: AbortSignal): Promise<number[]> {
    const body = { content, add_special: special, parse_special: true }
    const { tokens } = await this.client.json({ path: '/tokenize', body, signal })
    return idsOf(tokens) ?? fail('llama-server answered /tokenize without token ids')
  }

  private async * detokenize ({ tokens }: Fields, signal: AbortSignal): AsyncGenerator<EngineChunk> {
    const ids = promptOf(Array.isArray(tokens) ? tokens : null, 'tokens')
    const { content } = await this.client.json({ path: '/detokenize', body: { tokens: ids }, signal })
    yield { payload: { kind: 'text', text: textOf(content) } }
  }

  private async * embed (payload: Fields, signal: AbortSignal): AsyncGenerator<EngineChunk> {
    const { inputs: given, shape, truncate } = readEmbed(payload)
    const whole = given.map((each) => promptOf(each, 'input'))
    const inputs = truncate === undefined ? whole : await this.cut(whole, truncate, signal)
    let tokens = 0
    for (let from = 0; from < inputs.length; from += MAX_TEXTS) {
      const input = inputs.slice(from, from + MAX_TEXTS)
      // svc normalises the vectors itself, because `dimensions` may truncate them first.
      const body = { input, encoding_format: 'float', ...shape.normalize ? {} : { embd_normalize: -1 } }
      const { data, usage } = await this.client.json({ path: '/v1/embeddings', body, signal })
      tokens += numberOf(fieldsOf(usage)['prompt_tokens']) ?? 0
      const vectors = vectorsOf(data, input.length)
      for (const [i, vector] of vectors.entries()) yield vectorChunk(from + i, vector, shape)
    }
    const usage = { prompt_tokens: tokens, completion_tokens: 0, cached_tokens: 0 }
    yield { payload: { kind: 'done', usage } }
  }

  private async cut (
    inputs: (string | number[])[], truncate: number, signal: AbortSignal
  ): Promise<(string | number[])[]> {
    const most = Math.min(truncate, this.facts.contextLength)
    // A token has at least one byte, and a template adds at most two tokens.
    const fits = (input: string | number[]): boolean =>
      (typeof input === 'string' ? Buffer.byteLength(input) + 2 : input.length) <= most
    if (inputs.every(fits)) return inputs
    const empty = await this.tokens('', true, signal)
    const all: (string | number[])[] = []
    // One after the other, since a request may have thousands of texts.
    for (const input of inputs) {
      const ids = fits(input) || typeof input !== 'string' ? input : await this.tokens(input, true, signal)
      all.push(typeof ids === 'string' ? ids : truncated(ids, most, empty))
    }
    return all
  }

  private async * rank (payload: Fields, signal: AbortSignal): AsyncGenerator<EngineChunk> {
    const { results, usage } = await this.client.json({ path: '/v1/rerank', body: payload, signal })
    const scores = (payload['documents'] as string[]).map((_, i) =>
      numberOf(listOf(results).find(({ index }) => index === i)?.['relevance_score']) ??
      fail('llama-server did not rank all documents'))
    yield scoresChunk(this.parts.spec.card, scores, numberOf(fieldsOf(usage)['prompt_tokens']) ?? 0)
  }

  /** Replaces the error from a broken connection with one that says whether the server has exited. */
  private async toEngineError (error: unknown): Promise<unknown> {
    if (!(error instanceof BrokenAnswer)) return error
    const end = await this.parts.server.program.endOf(END_MS)
    return end === null
      ? new EngineError('provider_error', error.message)
      : new EngineError('instance_lost', `llama-server ${end}`)
  }
}

function fail (message: string): never { throw new BrokenAnswer(message) }

/** The vectors in the order of the texts. @throws BrokenAnswer */
function vectorsOf (data: unknown, texts: number): Float32Array[] {
  const found = listOf(data)
  const vectors = Array.from({ length: texts }, (_, i) => {
    const { embedding: numbers } = found.find(({ index }) => index === i) ?? found[i] ?? {}
    return Array.isArray(numbers) && numbers.every(Number.isFinite) ? numbers as number[] : []
  })
  if (vectors.some(({ length }) => length === 0)) fail(`llama-server did not return ${texts} embeddings`)
  return vectors.map((numbers) => Float32Array.from(numbers))
}

/** Reads an answer from `/completion`. */
export const completionReader: ReaderFactory = (index, tops) => {
  let last: Fields | null = null
  return {
    read (event) {
      if (event['stop'] === true) last = event
      const tokens = reportsOf(event['completion_probabilities'], tops)
      return [...admittedOf(event), ...newsOf(index, { text: textOf(event['content']) }, tokens)]
    },
    end (peakBytes) {
      if (last === null) return null
      const { stop_type: type, stopped_limit: limited, truncated } = last
      const cut = type === 'limit' || limited === true || truncated === true
      const usage = { prompt_tokens: last['tokens_evaluated'], completion_tokens: last['tokens_predicted'] }
      return endOf({ index, text: '' }, {
        finish: cut ? 'length' : 'stop', stop: textOf(last['stopping_word']) || null, usage,
        timings: fieldsOf(last['timings']), peakBytes
      })
    }
  }
}

/** Parses tool calls and reasoning in grammar-constrained answers, which the server returns as text. */
export const withCalls = (inner: AnswerReader, output: OutputReader): AnswerReader => ({
  read: (event) => inner.read(event).map((chunk) => ({
    ...chunk,
    choices: chunk.choices.map(({ delta: { content = '', ...rest } = {}, text = '', ...choice }) =>
      ({ ...choice, delta: { ...rest, ...output.push(content + text) } }))
  })),
  end (peakBytes) {
    const last = inner.end(peakBytes)
    const delta = output.end()
    if (last?.choices[0] === undefined) return last
    const { text: _, ...choice } = last.choices[0]
    const isCall = choice.finish_reason === 'stop' && output.calls > 0
    return { ...last, choices: [{ ...choice, delta, ...isCall ? { finish_reason: 'tool_calls' } : {} }] }
  }
})
