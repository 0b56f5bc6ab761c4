/** The session of a decoder: tasks `chat` and `completion`. */
import type {
  EngineChunk, EngineSession, EngineTask, ModelSpec, SpanSink
} from '../../../kernel/api/engine.js'
import type { KvBatch } from './cache.js'
import { Generation } from './generation.js'
import { limitsOf } from './limits.js'
import type { Loaded } from './load.js'
import { Mailbox } from './pieces.js'
import {
  detokenized, overloaded, readTextRequest, tokenized, unknownTask, type ModelFacts, type TextRequest
} from './request.js'
import type { LoadedText, Thoughts } from '../text/types.js'
import { Scheduler, type Clock } from './scheduler.js'

const NANOSECONDS = 1e6
const SYSTEM: Clock = {
  now: () => Number(process.hrtime.bigint()) / NANOSECONDS,
  yieldToEvents: async () => { await new Promise<void>((resolve) => { setImmediate(resolve) }) }
}
/** Tokens of the first run, and written in it: enough to measure both. */
const WARMUP_PROMPT = 64
const WARMUP_TOKENS = 4

/** A loaded decoder that answers tasks. */
export class DecoderSession implements EngineSession {
  private readonly loaded: Loaded
  private readonly facts: ModelFacts
  private readonly scheduler: Scheduler<KvBatch>
  /** Answers open at once. */
  private readonly most: number
  private readonly clock: Clock

  constructor (loaded: Loaded, spec: ModelSpec, clock: Clock = SYSTEM) {
    const { limits, contextLength, queue } = limitsOf(spec, loaded.contextLength, loaded.decoder)
    const { text, prompts, defaults } = loaded
    this.loaded = loaded
    this.clock = clock
    this.most = limits.maxSequences + queue
    this.facts = { modelId: spec.card.modelId, contextLength, text, prompts, defaults }
    this.scheduler = new Scheduler(loaded.decoder, limits, clock)
  }

  get text (): LoadedText { return this.facts.text }

  async warmup (): Promise<void> {
    const { contextLength } = this.facts
    const length = Math.max(1, Math.min(WARMUP_PROMPT, contextLength - WARMUP_TOKENS))
    // Ids that every vocabulary has; no ids twice in a row, as some graphs overflow on constant rows.
    const prompt = Array.from({ length }, (_, i) => i % 7 + 1)
    const payload = { prompt, max_tokens: WARMUP_TOKENS, params: { temperature: 0 } }
    const never = new AbortController().signal
    for await (const chunk of this.run({ kind: 'completion', payload }, never)) void chunk
    this.facts.text.warm()
  }

  async * run (task: EngineTask, signal: AbortSignal): AsyncGenerator<EngineChunk> {
    const { kind, payload, trace } = task
    if (kind === 'chat') yield * this.write(await this.read('chat', task, signal), signal, trace)
    else if (kind === 'completion' || kind === 'completions') {
      yield * this.write(await this.read('completion', task, signal), signal, trace)
    } else if (kind === 'tokenize') yield { payload: await tokenized(payload, this.facts, signal) }
    else if (kind === 'detokenize') yield { payload: detokenized(payload, this.facts.text) }
    else throw unknownTask(kind, 'chat, completion, tokenize and detokenize')
  }

  info (): Record<string, unknown> {
    const { decoder, probed, sliced, files } = this.loaded
    const { batching: { maxRows, ragged, padding, chunked }, binding } = decoder
    return {
      contextLength: this.facts.contextLength,
      vocabularySize: probed.vocabularySize,
      cacheType: binding.tensors[0]?.type,
      cacheBytesPerToken: decoder.tokenBytes,
      weightBytes: files.bytes,
      batches: maxRows === 1 ? 'none' : ragged ? `padded ${padding}` : 'same length',
      batchDeviation: probed.deviation,
      prefill: chunked ? 'in pieces' : 'whole',
      lastTokenOnly: sliced || binding.keep !== null,
      newEntriesOnly: binding.places !== null
    }
  }

  async close (): Promise<void> {
    await this.facts.prompts.close()
    await this.loaded.decoder.close()
  }

  private async read (
    kind: 'chat' | 'completion', { payload, trace }: EngineTask, signal: AbortSignal
  ): Promise<TextRequest> {
    const startMs = trace?.now() ?? 0
    const request = await readTextRequest(kind, payload, this.facts, signal)
    trace?.span('prompt', 'prompt', startMs, trace.now(), { tokens: request.prompt.length })
    return request
  }

  private async * write (
    request: TextRequest, signal: AbortSignal, trace: SpanSink | undefined
  ): AsyncGenerator<EngineChunk> {
    if (signal.aborted) return
    const { waiting, active } = this.scheduler.load
    const open = waiting + active
    if (open + request.n > this.most) throw overloaded(this.facts.modelId, open, this.most)
    const mailbox = new Mailbox(request.n)
    const thoughts = this.facts.text.thoughts(request.prompt)
    const cancel = this.scheduler.submit(this.jobs(request, thoughts, mailbox, trace))
    const onAbort = (): void => {
      cancel()
      mailbox.close()
    }
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      yield { payload: this.admitted(request.prompt, thoughts) }
      for await (const piece of mailbox.read()) {
        if (signal.aborted) return
        yield { payload: { ...piece } }
      }
    } finally {
      signal.removeEventListener('abort', onAbort)
      cancel()
    }
  }

  /** The first chunk: the request is taken, and what a reader of the text has to know. */
  private admitted (prompt: readonly number[], thoughts: Thoughts): EngineChunk['payload'] {
    const { toolFormat, reasoning } = this.facts.text
    return {
      kind: 'admitted', prompt_tokens: prompt.length, tool_format: toolFormat, reasoning,
      in_reasoning: thoughts === 'inside'
    }
  }

  private jobs (
    request: TextRequest, thoughts: Thoughts, mailbox: Mailbox, trace: SpanSink | undefined
  ): Generation[] {
    const { prompt, maxTokens, stop, n, markers, continues } = request
    const { text } = this.facts
    // The grammar is that of the answer, not of the reasoning before it; a text completion has none.
    const params = continues ? request.params : { ...request.params, thoughts }
    const { seed } = params
    return Array.from({ length: n }, (_, index) => new Generation({
      index, prompt, maxTokens, text, mailbox, trace,
      logprobs: params.logprobs,
      // Answers to one prompt differ, and each can be had again.
      chooser: text.chooser({ ...params, maxTokens, seed: seed === null ? null : seed + index }),
      stream: text.stream(stop, { continues, markers }),
      now: this.clock.now
    }))
  }
}
