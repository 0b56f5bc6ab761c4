/** Checks the payload of a task, and reads it into a request. Every problem is reported at once. */
import { EngineError } from '../../../kernel/api/engine.js'
import type { Prompts } from './prompts.js'
import { isObject } from '../json.js'
import { SAMPLING, type SamplingNumbers } from '../sampling.js'
import { contextExceeded, invalid } from '../text/errors.js'
import type { ChatMessage, GrammarRequest, LoadedText, SamplingParams } from '../text/types.js'

/** A checked request for text. */
export interface TextRequest {
  prompt: number[]
  maxTokens: number
  stop: string[]
  n: number
  params: SamplingParams
  /** Special tokens that are passed on as text. */
  markers: string[]
  /** Text completion: the answer is appended to the prompt. */
  continues: boolean
}

/** What a request is checked against. `defaults` are OpenAI's names of parameters. */
export interface ModelFacts {
  modelId: string, contextLength: number, text: LoadedText, prompts: Prompts
  defaults: Readonly<Record<string, unknown>>
}

/** The parameters of an answer: all that a request has beside its prompt. */
export interface AnswerParameters extends Pick<TextRequest, 'stop' | 'n' | 'params' | 'markers'> {
  /** The most tokens it wants; the whole context where it says nothing. */
  asked: number
}

interface Range { min: number, max: number, whole?: boolean }

const MAX_ANSWERS = 128
const TOP_LOGPROBS: Range = { min: 0, max: 20, whole: true }
const GRAMMARS = new Set(['none', 'json', 'schema', 'tools'])

const within = (value: unknown, { min, max, whole }: Range): value is number =>
  typeof value === 'number' && value >= min && value <= max && (whole !== true || Number.isInteger(value))

/** Collects problems and reads fields. A null is taken as a field that is not there. */
class Reader {
  readonly issues: Array<{ path: string, message: string }> = []

  fail (path: string, message: string): void { this.issues.push({ path, message: `${path} ${message}` }) }

  number<F extends number | null> (
    from: Record<string, unknown>, path: string, range: Range, fallback: F
  ): number | F {
    const value = from[path.slice(path.indexOf('.') + 1)] ?? fallback
    if (value === null || within(value, range)) return value as number | F
    const kind = range.whole === true ? 'a whole number' : 'a number'
    this.fail(path, range.min === Number.MIN_SAFE_INTEGER
      ? `takes ${kind}`
      : `is ${String(value)}, but takes ${kind} from ${range.min} to ${range.max}`)
    return fallback
  }

  strings (value: unknown, path: string): string[] {
    const list = value == null ? [] : Array.isArray(value) ? value : [value]
    if (list.every((item) => typeof item === 'string' && item !== '')) return list as string[]
    this.fail(path, 'takes texts that are not empty')
    return []
  }

  end (): void {
    if (this.issues.length === 0) return
    const message = this.issues.map((issue) => issue.message).join('; ')
    throw new EngineError('invalid_request', message, { issues: this.issues })
  }
}

function readBias (reader: Reader, value: unknown, size: number): Record<number, number> {
  if (value == null) return {}
  const entries = isObject(value) ? Object.entries(value) : undefined
  const fine = entries?.every(([id, bias]) => /^\d+$/.test(id) && Number(id) < size &&
    within(bias, { min: -100, max: 100 }))
  if (fine === true) return value as Record<number, number>
  reader.fail('params.logit_bias', `maps token ids below ${size} to numbers from -100 to 100`)
  return {}
}

/** Every sampling parameter: the request's value, else the model's, else the default. */
function readNumbers (
  reader: Reader, given: Record<string, unknown>, defaults: Readonly<Record<string, unknown>>
): SamplingNumbers {
  return Object.fromEntries(Object.entries(SAMPLING).map(([name, row]) => {
    const own = defaults[name]
    const fallback = within(own, row) ? own : row.default
    return [row.field, reader.number(given, `params.${name}`, row, fallback)]
  })) as unknown as SamplingNumbers
}

function readGrammar (reader: Reader, value: unknown): GrammarRequest {
  if (value == null) return { kind: 'none' }
  const known = isObject(value) && GRAMMARS.has(String(value['kind']))
  if (known && (value['kind'] !== 'tools' || Array.isArray(value['tools']))) return value as GrammarRequest
  reader.fail('params.grammar', `takes an object whose kind is one of ${[...GRAMMARS].join(', ')}`)
  return { kind: 'none' }
}

function readParams (reader: Reader, value: unknown, facts: ParameterFacts): SamplingParams {
  if (value != null && !isObject(value)) reader.fail('params', 'is no object')
  const given = isObject(value) ? value : {}
  const after = given['grammar_after']
  return {
    ...readNumbers(reader, given, facts.defaults),
    topLogprobs: reader.number(given, 'params.top_logprobs', TOP_LOGPROBS, 0),
    logprobs: given['logprobs'] === true,
    logitBias: readBias(reader, given['logit_bias'], facts.vocabularySize),
    grammar: readGrammar(reader, given['grammar']),
    ...typeof after === 'string' ? { grammarAfter: after } : {}
  }
}

/** The messages of a conversation; `images` takes contents in parts. @throws EngineError invalid_request */
export function readMessages (value: unknown, { images = false } = {}): ChatMessage[] {
  const fine = Array.isArray(value) && value.length > 0 && value.every((message) =>
    isObject(message) && typeof message['role'] === 'string' &&
    (message['content'] == null || typeof message['content'] === 'string' ||
      (images && Array.isArray(message['content']) && message['content'].every(isObject))))
  if (fine) return value as ChatMessage[]
  throw invalid('messages takes at least one message with a role and a text', 'messages')
}

/** Token ids of a conversation. @throws EngineError for messages that the template refuses */
export function chatPrompt (payload: Record<string, unknown>, text: LoadedText): number[] {
  const messages = readMessages(payload['messages'])
  const { tools, template_variables: extra, add_generation_prompt: add } = payload
  const rendered = text.render(messages, {
    addGenerationPrompt: add !== false,
    ...Array.isArray(tools) && tools.length > 0 ? { tools } : {},
    ...isObject(extra) ? { extra } : {}
  })
  return text.encode(rendered, false)
}

/** The token ids that stand in the field at `path` as such. @throws EngineError for anything else */
export function givenIds (prompt: unknown, text: LoadedText, path: string): number[] {
  const range = { min: 0, max: text.vocabularySize - 1, whole: true }
  if (Array.isArray(prompt) && prompt.every((id) => within(id, range))) return prompt
  throw invalid(`${path} takes a text or token ids below ${text.vocabularySize}`, path)
}

/** Token ids of a conversation; a thread reads long ones. @throws EngineError */
export async function conversation (
  { messages, tools, template_variables, add_generation_prompt }: Record<string, unknown>, prompts: Prompts,
  signal: AbortSignal
): Promise<number[]> {
  const read = { messages: { messages, tools, template_variables, add_generation_prompt } }
  return (await prompts.read(read, signal))[0] as number[]
}

/** Token ids of a plain prompt: a text, or ids as they are. @throws EngineError */
export async function plainPrompt (
  { prompt, add_special_tokens: special }: Record<string, unknown>,
  { text, prompts }: Pick<ModelFacts, 'text' | 'prompts'>, signal: AbortSignal
): Promise<number[]> {
  if (typeof prompt !== 'string') return givenIds(prompt, text, 'prompt')
  return (await prompts.read({ texts: [prompt], special: special !== false }, signal))[0] as number[]
}

/** Checks that a prompt leaves room for a token. @throws EngineError context_length_exceeded */
export function checkContext (prompt: readonly number[], { contextLength, modelId }: ModelFacts): void {
  if (prompt.length === 0) {
    throw new EngineError('invalid_request', 'the prompt is empty: there is nothing to go on from',
      { issues: [{ path: 'prompt', message: 'prompt has no token' }] })
  }
  if (prompt.length < contextLength) return
  throw contextExceeded(modelId, prompt.length, contextLength)
}

/** What parameters are checked against. */
export interface ParameterFacts extends Pick<ModelFacts, 'contextLength' | 'defaults'> {
  vocabularySize: number
}

/** Reads everything but the prompt. @throws EngineError invalid_request with every problem */
export function readParameters (payload: Record<string, unknown>, facts: ParameterFacts): AnswerParameters {
  const reader = new Reader()
  const params = readParams(reader, payload['params'], facts)
  const n = reader.number(payload, 'n', { min: 1, max: MAX_ANSWERS, whole: true }, 1)
  const asked = reader.number(
    payload, 'max_tokens', { min: 1, max: Number.MAX_SAFE_INTEGER, whole: true }, facts.contextLength)
  const stop = reader.strings(payload['stop'], 'stop')
  const markers = reader.strings(payload['markers'], 'markers')
  reader.end()
  return { params, n, asked, stop, markers }
}

/**
 * Reads a chat or a plain prompt.
 * @throws EngineError invalid_request, context_length_exceeded, and what the template and the grammar refuse
 */
export async function readTextRequest (
  kind: 'chat' | 'completion', payload: Record<string, unknown>, facts: ModelFacts, signal: AbortSignal
): Promise<TextRequest> {
  const { vocabularySize } = facts.text
  const { asked, ...parameters } = readParameters(payload, { ...facts, vocabularySize })
  const prompt = kind === 'chat'
    ? await conversation(payload, facts.prompts, signal)
    : await plainPrompt({ prompt: payload['prompt'] }, facts, signal)
  checkContext(prompt, facts)
  const maxTokens = Math.min(asked, facts.contextLength - prompt.length)
  return { ...parameters, prompt, maxTokens, continues: kind === 'completion' }
}

/**
 * Task `tokenize`: `{ messages }`, or `{ prompt, add_special_tokens }`, to
 * `{ kind: 'tokens', tokens, count, context_length }`.
 */
export async function tokenized (
  payload: Record<string, unknown>, facts: Pick<ModelFacts, 'text' | 'prompts' | 'contextLength'>,
  signal: AbortSignal
): Promise<Record<string, unknown>> {
  const { contextLength } = facts
  const tokens = payload['messages'] !== undefined
    ? await conversation(payload, facts.prompts, signal)
    : await plainPrompt(payload, facts, signal)
  return { kind: 'tokens', tokens, count: tokens.length, context_length: contextLength }
}

/** Task `detokenize`: `{ tokens }` to `{ kind: 'text', text }`, special tokens included. */
export function detokenized ({ tokens }: Record<string, unknown>, text: LoadedText): Record<string, unknown> {
  const ids = givenIds(tokens, text, 'tokens')
  return { kind: 'text', text: text.decode(ids, false) }
}

/** The refusal of an answer above the most that may be open at once. */
export const overloaded = (modelId: string, open: number, limit: number): EngineError =>
  new EngineError('overloaded', `${modelId} has ${open} answers to write already; ` +
    `at most ${limit} may be open at once`, { open, limit })

/** The refusal of a task that a model does not serve. */
export const unknownTask = (kind: string, served: string): EngineError =>
  new EngineError('invalid_request', `this model serves ${served}, not ${kind}`)
