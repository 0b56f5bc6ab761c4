/**
 * The protocol of language models around this engine's own: takes OpenAI's requests, and makes OpenAI's
 * chunks of the marked text that the model writes.
 */
import { randomUUID } from 'node:crypto'
import {
  EngineError, type EngineChunk, type EngineSession, type EngineTask
} from '../../../kernel/api/engine.js'
import type { AnswerChunk, CallDelta, Choice, NamedToken } from '../chunks.js'
import { fieldsOf, isObject, listOf, present, type Fields } from '../json.js'
import { SAMPLING } from '../sampling.js'
import { invalid } from '../text/errors.js'
import { MARKERS, OutputReader, type OutputDelta } from '../text/parse/output.js'
import type { AnswerShape, GrammarRequest, LoadedText } from '../text/types.js'
import type { Delta, Done, NamedToken as OwnToken, TokenReport } from './pieces.js'

type Admitted = {
  kind: 'admitted', prompt_tokens: number, in_reasoning: boolean
}

/** Fields that are read here, or by the session inside. */
const KNOWN = new Set([
  ...Object.keys(SAMPLING), 'messages', 'prompt', 'tools', 'tool_choice', 'parallel_tool_calls', 'n', 'stop',
  'response_format', 'json_schema', 'max_tokens', 'n_predict', 'logit_bias', 'logprobs', 'top_logprobs',
  'chat_template_kwargs', 'add_generation_prompt', 'add_special_tokens', 'cache_prompt'
])

/** A decoder's session, spoken to in OpenAI's requests and chunks. */
export class OpenAiSession implements EngineSession {
  private readonly inner: EngineSession
  private readonly text: Pick<LoadedText, 'toolFormat' | 'reasoning'>

  constructor (inner: EngineSession, text: Pick<LoadedText, 'toolFormat' | 'reasoning'>) {
    this.inner = inner
    this.text = text
  }

  async warmup (): Promise<void> { await this.inner.warmup() }
  info (): Record<string, unknown> { return this.inner.info() }
  async close (): Promise<void> { await this.inner.close?.() }

  async * run (task: EngineTask, signal: AbortSignal): AsyncGenerator<EngineChunk> {
    try {
      yield * this.answer(task, signal)
    } catch (error) {
      throw underOwnNames(error)
    }
  }

  private async * answer (task: EngineTask, signal: AbortSignal): AsyncGenerator<EngineChunk> {
    const { kind, payload } = task
    const isChat = kind === 'chat'
    if (!isChat && kind !== 'completion' && kind !== 'completions') {
      const same = kind === 'tokenize' ? templated(payload) : payload
      yield * this.inner.run({ ...task, payload: same }, signal)
      return
    }
    const warnings: string[] = []
    const asked = this.asked(payload, warnings)
    const chunks = this.inner.run({ ...task, payload: asked }, signal)
    if (warnings.length > 0) yield { payload: { choices: [], warnings } }
    const read = new Reading(isChat, listOf(asked['tools']), this.text)
    for await (const { payload: piece } of chunks) {
      for (const chunk of read.chunks(piece as unknown as Admitted | Delta | Done)) {
        yield { payload: { ...chunk } }
      }
    }
  }

  /** The request in the fields of the session inside. @throws EngineError invalid_request */
  private asked (payload: Fields, warnings: string[]): Record<string, unknown> {
    if (payload['grammar'] != null) throw invalid('grammar is not served by this model\'s engine', 'grammar')
    const unknown = Object.keys(payload).filter((name) => !KNOWN.has(name))
    if (unknown.length > 0) warnings.push(`not known to this model's engine: ${unknown.join(', ')}`)
    const tools = this.offered(payload, warnings)
    const { messages, prompt, n, stop, max_tokens: most, n_predict: predict, logit_bias, logprobs } = payload
    const sampling = Object.keys(SAMPLING).map((name) => [name, payload[name]])
    return {
      ...templated({ ...payload, tools: tools.length === 0 ? null : tools }),
      ...present({ messages, prompt, n, stop, max_tokens: most ?? predict }),
      markers: MARKERS,
      params: present({
        ...Object.fromEntries(sampling) as object, logit_bias, logprobs,
        top_logprobs: payload['top_logprobs'], grammar: grammarOf(payload, tools)
      })
    }
  }

  /** The tools that the model can be given. @throws EngineError invalid_request for a call it cannot make */
  private offered ({ tools: given, tool_choice: choice }: Fields, warnings: string[]): Fields[] {
    const tools = choice === 'none' ? [] : listOf(given)
    if (tools.length === 0 || this.text.toolFormat !== null) return tools
    const why = 'the chat template of this model has no place for'
    if (choice != null && choice !== 'auto') {
      throw invalid(`tool_choice requires a call, and ${why} tools; leave it out, or use another model`,
        'tool_choice')
    }
    warnings.push(`tools: not offered to the model, as ${why} them`)
    return []
  }
}

/** A refusal under the names of the request's fields: parameters have a prefix inside. */
function underOwnNames (error: unknown): unknown {
  if (!(error instanceof EngineError) || error.reason !== 'invalid_request') return error
  const plain = (text: string): string => text.replace(/(^|[\s;])params\./g, '$1')
  const issues = (listOf(error.details['issues']) as { path: string, message: string }[])
    .map(({ path, message }) => ({ path: plain(path), message: plain(message) }))
  return new EngineError(error.reason, plain(error.message), { ...error.details, issues })
}

/** What the chat template reads. */
function templated ({ chat_template_kwargs: variables, ...payload }: Fields): Record<string, unknown> {
  const { messages, prompt, tools, add_generation_prompt, add_special_tokens } = payload
  return present({
    messages, prompt, tools, template_variables: variables, add_generation_prompt, add_special_tokens
  })
}

/** The shape that is enforced: that of the tool calls, or that of the response format; null for none. */
function grammarOf (payload: Fields, tools: Fields[]): GrammarRequest | null {
  const format = shapeOf(payload)
  if (tools.length === 0) return format
  const choice = payload['tool_choice'] ?? 'auto'
  return { kind: 'tools', tools, choice, ...format === null ? {} : { answer: format } }
}

function shapeOf ({ response_format: format, json_schema: alone }: Fields): AnswerShape | null {
  if (isObject(alone)) return { kind: 'schema', schema: alone }
  if (!isObject(format)) return null
  const { schema, strict } = fieldsOf(format['json_schema'])
  if (format['type'] !== 'json_schema') return { kind: 'json' }
  return { kind: 'schema', schema, ...strict === true ? { strict: true } : {} }
}

/** Makes chunks of the pieces of one task. */
class Reading {
  private readonly readers = new Map<number, OutputReader>()
  private readonly chat: boolean
  private readonly tools: readonly Fields[]
  private readonly text: Pick<LoadedText, 'toolFormat' | 'reasoning'>
  private inReasoning = false

  constructor (chat: boolean, tools: readonly Fields[], text: Pick<LoadedText, 'toolFormat' | 'reasoning'>) {
    this.chat = chat
    this.tools = tools
    this.text = text
  }

  chunks (piece: Admitted | Delta | Done): AnswerChunk[] {
    if (piece.kind === 'admitted') {
      this.inReasoning = piece.in_reasoning
      return [{ choices: [], usage: { prompt_tokens: piece.prompt_tokens } }]
    }
    const { index } = piece
    if (piece.kind === 'done') return this.ended(piece)
    const { text, tokens = [] } = piece
    const logprobs = tokens.length === 0 ? {} : { logprobs: { content: tokens.map(reportOf) } }
    if (!this.chat) return [{ choices: [{ index, text, ...logprobs }] }]
    const delta = deltaOf(this.reader(index).push(text))
    const hasNews = tokens.length > 0 || Object.keys(delta).length > 0
    return hasNews ? [{ choices: [{ index, delta, ...logprobs }] }] : []
  }

  private ended ({ index, finish_reason: reason, stop_text, usage, stats }: Done): AnswerChunk[] {
    const reader = this.chat ? this.reader(index) : null
    const delta = reader === null ? {} : deltaOf(reader.end())
    const finish = reason === 'stop' && reader !== null && reader.calls > 0 ? 'tool_calls' : reason
    const { prompt_tokens, completion_tokens, cached_tokens } = usage
    return [
      ...Object.keys(delta).length === 0 ? [] : [{ choices: [{ index, delta }] }],
      {
        choices: [{ index, ...this.chat ? { delta: {} } : { text: '' }, finish_reason: finish, stop_text }],
        usage: { prompt_tokens, completion_tokens, prompt_tokens_details: { cached_tokens } },
        timings: {
          prompt_per_second: stats.prompt_tps, predicted_per_second: stats.generation_tps,
          peak_memory_bytes: stats.peak_memory_bytes
        }
      }
    ]
  }

  private reader (index: number): OutputReader {
    const { tools, text: { toolFormat, reasoning } } = this
    const reader = this.readers.get(index) ?? new OutputReader({
      tools: tools.length > 0 ? toolFormat : null,
      reasoning,
      parameters: (name) => tools.map((tool) => fieldsOf(tool['function']))
        .find((one) => one['name'] === name)?.['parameters'],
      startsInReasoning: this.inReasoning,
      newId: () => `call_${randomUUID().replaceAll('-', '')}`
    })
    this.readers.set(index, reader)
    return reader
  }
}

/** One entry for each call: clients put what they get of one together once in a chunk. */
function deltaOf ({ content, reasoning, toolCalls }: OutputDelta): NonNullable<Choice['delta']> {
  const calls = new Map<number, CallDelta>()
  for (const { index, id, name, arguments: text = '' } of toolCalls) {
    const known = calls.get(index)
    const before = known?.function.arguments ?? ''
    calls.set(index, {
      ...known ?? { index, ...present({ id }) },
      function: { ...known?.function ?? present({ name }), arguments: before + text }
    })
  }
  return {
    ...content === '' ? {} : { content },
    ...reasoning === '' ? {} : { reasoning_content: reasoning },
    ...calls.size === 0 ? {} : { tool_calls: [...calls.values()] }
  }
}

/** A token under OpenAI's names. Its bytes are those of its text, if that has all of them. */
const tokenOf = ({ text, bytes }: OwnToken, logprob: number | null): NamedToken => ({
  token: text, logprob, bytes: bytes ?? (text.includes('\ufffd') ? null : [...Buffer.from(text)])
})

const reportOf = ({ top, ...token }: TokenReport) => ({
  ...tokenOf(token, token.logprob), top_logprobs: top.map((each) => tokenOf(each, each.logprob))
})
