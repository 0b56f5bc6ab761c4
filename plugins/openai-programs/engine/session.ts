/** Runs tasks with a program that speaks OpenAI's API. */
import {
  EngineError, type EngineChunk, type EngineSession, type EngineTask, type ModelSpec, type SpanSink
} from '../../../kernel/api/engine.js'
import { withSchemaCheck } from '../../runners/language/check.js'
import type { AnswerChunk } from '../../runners/language/chunks.js'
import { idsOf, numberOf, textOf, type Fields } from '../../runners/language/json.js'
import { merged } from '../../runners/language/merged.js'
import { contextExceeded, invalid, unknownTask } from '../../runners/language/refusals.js'
import { StopFinder } from '../../runners/language/stop.js'
import { ChunkSpans } from '../../runners/openai/answer.js'
import type { Client } from '../../runners/openai/client.js'
import { BrokenAnswer } from '../../runners/openai/errors.js'
import type { Program } from '../../runners/openai/program.js'
import type { Description } from '../schema.js'
import { completionReader, programChatReader, withStops } from './answer.js'
import type { Sizes } from './command.js'
import { bodyOf, copiesOf, type Asked, type Body } from './request.js'
import type { Tokens } from './tokens.js'
import type { Watch } from './watch.js'

/** Limit in ms on the wait for the program's exit after the connection has broken. */
const END_MS = 1_000
/** Tokens that a chat template may add to each message. */
const FRAME_TOKENS = 32

type Kind = 'chat' | 'completion'

export const ROUTES: Readonly<Record<Kind, string>> =
  { chat: '/v1/chat/completions', completion: '/v1/completions' }

export interface SessionParts {
  spec: ModelSpec
  name: string
  words: string
  description: Description
  model: string
  sizes: Sizes
  tokens: Tokens
  client: Client
  program: Program
  watch: Watch
  /** Whether the program still answers its ready path. */
  healthy: () => Promise<boolean>
  lost: (why: string) => void
  close: () => Promise<void>
}

export class ProgramSession implements EngineSession {
  private readonly parts: SessionParts

  constructor (parts: SessionParts) { this.parts = parts }

  /** Does nothing, because the program counts as loaded only after it has generated text. */
  async warmup (): Promise<void> {}

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
    const { sizes: { contextLength, slots }, words, program: { pid } } = this.parts
    return { contextLength, answersAtOnce: slots, build: words, driver: this.parts.name, serverPid: pid }
  }

  async close (): Promise<void> { await this.parts.close() }

  private serve ({ kind, payload, trace }: EngineTask, signal: AbortSignal): AsyncGenerator<EngineChunk> {
    if (kind === 'chat') return this.write(kind, payload, signal, trace)
    if (/^completions?$/.test(kind)) return this.write('completion', payload, signal, trace)
    if (kind === 'tokenize') return this.tokenize(payload)
    if (kind === 'detokenize') return this.detokenize(payload)
    throw unknownTask(kind, 'chat, completion, tokenize and detokenize')
  }

  private async * write (
    kind: Kind, payload: Fields, signal: AbortSignal, trace: SpanSink | undefined
  ): AsyncGenerator<EngineChunk> {
    const { description, model, name, spec: { card: { defaults } } } = this.parts
    const asked = bodyOf(kind, payload, name, { model, description, defaults })
    const prompt = this.limit(asked.body, payload)
    const all = merged(copiesOf(asked).map((body, index) =>
      this.answer(kind, { ...asked, body }, index, { signal, trace, prompt })))
    const checked = kind === 'chat' ? withSchemaCheck(all, payload) : all
    for await (const chunk of checked) yield { payload: { ...chunk } }
  }

  /**
   * Sets `max_tokens` so that the answer fits into the context, and returns the tokens of the prompt, 0 if
   * they were not counted. Counting is left out if the prompt certainly fits. @throws context_length_exceeded
   */
  private limit (body: Body, payload: Fields): number {
    const { description: { lacks = [] }, sizes: { contextLength }, tokens, spec: { card } } = this.parts
    const wanted = numberOf(payload['max_tokens']) ?? numberOf(payload['n_predict'])
    const { messages, tools, prompt } = payload
    const length = Buffer.byteLength(JSON.stringify([messages, tools, prompt])) +
      (Array.isArray(messages) ? messages.length * FRAME_TOKENS : 0)
    if (wanted !== undefined) body['max_tokens'] = wanted
    if (!lacks.includes('context') && length + (wanted ?? 0) <= contextLength) return 0
    const count = tokens.promptOf(payload)?.length
    if ((count ?? 0) >= contextLength) throw contextExceeded(card.modelId, count!, contextLength)
    const most = contextLength - (count ?? 0)
    if (count !== undefined) body['max_tokens'] = Math.min(wanted ?? most, most)
    // Without a count, the program's own limit is used.
    else if ((wanted ?? 0) >= contextLength) delete body['max_tokens']
    return count ?? 0
  }

  private async * answer (
    kind: Kind, { body, stops, tops }: Asked, index: number,
    { signal, trace, prompt }: { signal: AbortSignal, trace: SpanSink | undefined, prompt: number }
  ): AsyncGenerator<AnswerChunk> {
    const { client, watch, name, description: { fragile = false } } = this.parts
    const plain = (kind === 'chat' ? programChatReader : completionReader)(index, tops)
    const reader = stops.length === 0 ? { ...plain, stopped: false }
      : withStops(plain, index, new StopFinder(stops), prompt)
    const spans = trace === undefined ? undefined : new ChunkSpans(trace, index)
    const open = watch.request()
    let isWhole = false
    try {
      for await (const event of client.events({ path: ROUTES[kind], body, signal, seen: open.seen })) {
        for (const chunk of reader.read(event)) {
          spans?.saw(chunk)
          yield chunk
        }
        // Leaving the loop closes the connection, which ends the work in the program.
        if (reader.stopped) break
      }
      isWhole = !reader.stopped
    } finally {
      open.done(!isWhole && (fragile || !signal.aborted))
    }
    const rest = reader.end(0)
    if (rest === null) throw new BrokenAnswer(`${name} ended a response early`)
    spans?.saw(rest)
    yield rest
  }

  private async * tokenize (payload: Fields): AsyncGenerator<EngineChunk> {
    const { tokens, name, sizes: { contextLength } } = this.parts
    const { messages, prompt, add_special_tokens: special } = payload
    const ids = messages === undefined && typeof prompt === 'string'
      ? tokens.encode(prompt, special !== false) : tokens.promptOf(payload)
    if (ids === null) throw invalid(`svc cannot read the tokenizer or the template for ${name}`, 'prompt')
    yield { payload: { kind: 'tokens', tokens: ids, count: ids.length, context_length: contextLength } }
  }

  private async * detokenize (payload: Fields): AsyncGenerator<EngineChunk> {
    const ids = idsOf(payload['tokens'])
    if (ids === undefined) throw invalid('tokens must be a list of token ids', 'tokens')
    yield { payload: { kind: 'text', text: textOf(this.parts.tokens.decode(ids)) } }
  }

  /** A broken answer is a loss unless the program is healthy; it may take seconds to exit after a crash. */
  private async toEngineError (error: unknown): Promise<unknown> {
    if (!(error instanceof BrokenAnswer)) return error
    const { program, name, healthy, lost } = this.parts
    const end = await program.endOf(END_MS)
    if (end === null && await healthy()) {
      return new EngineError('instance_lost', `${error.message}; it is asked again for a proof that it works`)
    }
    if (end === null) lost(error.message)
    return new EngineError('instance_lost', `${name} ${end ?? 'failed'}: ${error.message}`)
  }
}
