/** Converts a task's payload to requests for llama.cpp's server. Pure. */
import { createHash } from 'node:crypto'
import type { ChatMessage } from '../../runners/language/chunks.js'
import { parametersOf } from '../../runners/language/sampling.js'
import { invalid } from '../../runners/language/refusals.js'
import {
  fieldsOf, idsOf, isObject, listOf, numberOf, present, textOf, type Fields
} from '../../runners/language/json.js'
import { constraintOf, type Constraint, type AnswerFormats } from '../embedded/constraint.js'
import { toHermesFormat } from '../embedded/formats.js'
import { answerSchema, requiresCall } from '../../runners/language/structure.js'
import { reasoningMarkers, reasonings, type ReasoningName } from '../text/reasoning.js'

export interface Facts {
  contextLength: number
  defaults: Readonly<Record<string, unknown>>
  /** Which form of tool call ids the chat template accepts. */
  callIds?: 'any' | 'short'
  /** Whether the chat template renders tools; true by default. */
  tools?: boolean
  reasoning?: ReasoningName | null
}

export interface Bodies {
  bodies: Body[]
  /** Number of alternatives to report with each token. */
  tops: number
  /** A message for each part of the request that is accepted but not enforced. */
  warnings: string[]
}

type Body = Record<string, unknown>

const MOST_ANSWERS = 128
const MOST_BIAS = 100
const PLAIN: AnswerFormats = { tools: null, reasoning: null, thoughts: 'over' }
/** Upper bound for seeds (exclusive); this value itself means a random seed. */
const SEEDS = 2 ** 32 - 1
/** Fields that the server names differently or that need conversion; all others are passed on unchanged. */
const OWN_FORM = new Set([
  'messages', 'prompt', 'tools', 'tool_choice', 'parallel_tool_calls', 'response_format',
  'chat_template_kwargs', 'add_generation_prompt', 'n', 'n_predict', 'max_tokens', 'logit_bias', 'logprobs',
  'top_logprobs', 'seed', 'repeat_last_n', 'json_schema', 'extra_body',
  ...parametersOf('llama').map(({ parameter }) => parameter)
])

/** Validates a number in the request; undefined if absent. @throws EngineError invalid_request */
export function numberAt (
  payload: Fields, path: string, { min, max, whole = true }: { min: number, max: number, whole?: boolean }
): number | undefined {
  const value = payload[path]
  if (value == null) return undefined
  if (typeof value === 'number' && value >= min && value <= max && (!whole || Number.isInteger(value))) {
    return value
  }
  const kind = whole ? 'a whole number' : 'a number'
  throw invalid(`${path} is ${String(value)}, but must be ${kind} from ${min} to ${max}`, path)
}

/** Sampling parameters from the client, or else from the model's card; the server has its own defaults. */
function samplingOf (payload: Fields, { contextLength, defaults }: Facts): Body {
  const named = parametersOf('llama').map(({ parameter, name, min, max, whole = false }) =>
    [name, numberAt(payload, parameter, { min, max, whole }) ?? numberOf(defaults[parameter])])
  const last = numberAt(payload, 'repeat_last_n', { min: -1, max: 2 ** 31 - 1 }) ??
    numberOf(defaults['repeat_last_n'])
  const bias = biasOf(payload)
  const sent = present(Object.fromEntries(named) as Fields)
  return {
    ...sent,
    // Replace -1, which means the whole context, because newer servers refuse it.
    ...last === undefined ? {} : { repeat_last_n: last < 0 ? contextLength : Math.min(last, contextLength) },
    // For greedy sampling, do not sort all candidates, which takes a tenth of a small model's time per token.
    // This is safe because the server applies penalties and biases before top_k.
    ...sent['temperature'] === 0 ? { top_k: 1 } : {},
    ...bias.length === 0 ? {} : { logit_bias: bias }
  }
}

/**
 * Biases by token id, without ids above 32 bits, which the server would truncate.
 * @throws EngineError invalid_request
 */
export function biasOf ({ logit_bias: bias }: Fields): [number, number][] {
  const entries = Object.entries(fieldsOf(bias))
  const isFine = (bias == null || isObject(bias)) && entries.every(([id, value]) => /^\d+$/.test(id) &&
    Math.abs(numberOf(value) ?? Infinity) <= MOST_BIAS)
  if (!isFine) {
    throw invalid(`logit_bias must map token ids to numbers from -${MOST_BIAS} to ${MOST_BIAS}`, 'logit_bias')
  }
  return entries.map(([id, value]): [number, number] => [Number(id), value as number])
    .filter(([id]) => id < 2 ** 31)
}

/** One request per answer, each with its own seed, so that the answers differ but are reproducible. */
function copiesOf (body: Body, n: number, seed: number | undefined): Body[] {
  return Array.from({ length: n }, (_, index) => {
    if (seed === undefined) return body
    const own = seed + index
    return { ...body, seed: (own % SEEDS + SEEDS) % SEEDS }
  })
}

/** The form of tool call ids that a template accepts; Mistral's accept only nine letters and digits. */
export const callIdsOf = (template: string): 'any' | 'short' =>
  /alphanumeric strings with length 9/.test(template) ? 'short' : 'any'

/** Whether the chat template renders tools, according to `/props`; true if unknown. */
export function readsTools (props: Fields): boolean {
  const said = fieldsOf(props['chat_template_caps'])['supports_tools']
  const template = props['chat_template']
  return typeof said === 'boolean' ? said : typeof template !== 'string' || /\btools\b/.test(template)
}

const shortened = (id: unknown): unknown => typeof id !== 'string' || /^[a-zA-Z\d]{9}$/.test(id)
  ? id
  : createHash('sha256').update(id).digest('hex').slice(0, 9)

function withShortIds (message: Fields): Body {
  const { tool_calls: calls, tool_call_id: id, ...rest } = message
  return {
    ...rest,
    ...id === undefined ? {} : { tool_call_id: shortened(id) },
    ...Array.isArray(calls)
      ? { tool_calls: calls.map((call) => ({ ...fieldsOf(call), id: shortened(fieldsOf(call)['id']) })) }
      : {}
  }
}

function readMessages (value: unknown): ChatMessage[] {
  const fine = Array.isArray(value) && value.length > 0 && value.every((message) =>
    isObject(message) && typeof message['role'] === 'string' &&
    (message['content'] == null || typeof message['content'] === 'string' ||
      (Array.isArray(message['content']) && message['content'].every(isObject))))
  if (!fine) throw invalid('messages must have at least one message with a role and a text', 'messages')
  prefilledAnswer(value as ChatMessage[])
  return value as ChatMessage[]
}

/**
 * The final assistant message, which the model should continue; undefined if there is none. @throws
 * EngineError if llama.cpp cannot continue it
 */
export function prefilledAnswer (messages: readonly ChatMessage[]): ChatMessage | undefined {
  const last = messages.at(-1)
  if (last?.role !== 'assistant') return undefined
  const isEmpty = (last.content ?? '').length === 0 && textOf(last.reasoning_content) === ''
  const why = messages.at(-2)?.role === 'assistant' ? 'two answers: the model can continue only one'
    : listOf(last.tool_calls).length > 0 ? 'tool calls without their results'
      : isEmpty ? 'an empty answer: leave it out' : null
  if (why !== null) throw invalid(`messages ends with ${why}`, 'messages')
  return last
}

/** The fields that the chat template needs. @throws EngineError invalid_request */
export function templateBody (payload: Fields, callIds: Facts['callIds'] = 'any'): Body {
  const { tools, chat_template_kwargs: variables, add_generation_prompt: add } = payload
  return {
    messages: readMessages(payload['messages']).map((message) => ({
      ...callIds === 'short' ? withShortIds({ ...message }) : message, content: message.content ?? ''
    })),
    ...present({ tools }),
    ...variables == null ? {} : { chat_template_kwargs: fieldsOf(variables) },
    ...add === false ? { add_generation_prompt: false } : {}
  }
}

const nameOf = (tool: unknown): unknown => fieldsOf(fieldsOf(tool)['function'])['name']

/** The tools that `tool_choice` permits. */
export function offeredTools ({ tools, tool_choice: choice }: Fields): Fields[] {
  if (choice === 'none') return []
  return listOf(tools).filter((tool) => !isObject(choice) || nameOf(tool) === nameOf(choice))
}

/** Passes a request's tools to a template that renders tools, else puts them into the messages. */
export function templated (payload: Fields, { tools: reads = true }: Facts): Fields {
  const offered = offeredTools(payload)
  const { tools: _, ...asked } = payload
  if (offered.length === 0) return asked
  return reads ? { ...asked, tools: offered }
    : { ...asked, messages: toHermesFormat(readMessages(payload['messages']), offered) }
}

/** Whether svc's grammar constrains the answer. It cannot with images, which only the chat route accepts. */
export const isConstrained = (payload: Fields): boolean =>
  (requiresCall(payload) || answerSchema(payload) !== null || payload['grammar'] != null) &&
  !listOf(payload['messages']).some(({ content }) => Array.isArray(content) &&
    content.some((part) => fieldsOf(part)['type'] !== 'text'))

/** Limit on an answer's tokens, which leaves at least one token of the context for the prompt. */
function mostTokens (payload: Fields, { contextLength }: Facts): number {
  const most = contextLength - 1
  const own = numberAt(payload, 'n_predict', { min: 1, max: most })
  const asked = numberAt(payload, 'max_tokens', { min: 1, max: Number.MAX_SAFE_INTEGER })
  return Math.min(asked ?? own ?? most, most)
}

/** Builds the requests for a route: the fields that all routes share, plus those in `own`. */
function bodiesOf (payload: Fields, facts: Facts, own: Body, warnings: string[] = []): Bodies {
  const n = numberAt(payload, 'n', { min: 1, max: MOST_ANSWERS }) ?? 1
  const seed = numberAt(payload, 'seed', { min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER })
  const others = Object.entries(payload).filter(([name, value]) => !OWN_FORM.has(name) && value != null)
  const body = {
    cache_prompt: true, ...Object.fromEntries(others), stream: true, return_progress: true,
    ...samplingOf(payload, facts), ...own
  }
  return { bodies: copiesOf(body, n, seed), tops: topsOf(payload), warnings }
}

const topsOf = (payload: Fields): number => numberAt(payload, 'top_logprobs', { min: 0, max: 20 }) ?? 0
/** Number of alternatives to request; at least 1, because the server reports no logprobs with 0. */
const candidates = (payload: Fields): number => Math.max(1, topsOf(payload))

/** Requests for `/v1/chat/completions`, one per answer. @throws EngineError invalid_request */
export function chatBodies (payload: Fields, facts: Facts): Bodies {
  const { tool_choice: choice = 'auto', parallel_tool_calls: parallel, json_schema, grammar } = payload
  const { warnings } = constraintOf(payload, PLAIN)
  const asked = templated(payload, facts)
  return bodiesOf(payload, facts, {
    ...templateBody(asked, facts.callIds),
    ...present({ response_format: payload['response_format'], json_schema, grammar }),
    // The server cannot require a named function, so offer only that function and require a call.
    ...'tools' in asked
      ? { tool_choice: isObject(choice) ? 'required' : choice, ...present({ parallel_tool_calls: parallel }) }
      : {},
    max_tokens: mostTokens(payload, facts),
    stream_options: { include_usage: true },
    ...payload['logprobs'] === true ? { logprobs: true, top_logprobs: candidates(payload) } : {}
  }, warnings)
}

/** Validates a prompt, which is text or token ids. @throws EngineError invalid_request */
export function promptOf (prompt: unknown, path = 'prompt'): string | number[] {
  const given = typeof prompt === 'string' ? prompt : idsOf(prompt)
  if (given === undefined) throw invalid(`${path} must be a text or a list of token ids`, path)
  if (given.length === 0) throw invalid(`${path} is empty: there is nothing to continue`, path)
  return given
}

/** Requests for `/completion`, one per answer. @throws EngineError invalid_request */
export function completionBodies (
  payload: Fields, facts: Facts, { gbnf, warnings, reasoning }: Constraint = constraintOf(payload, PLAIN)
): Bodies {
  return bodiesOf(payload, facts, {
    prompt: promptOf(payload['prompt']), ...gbnf === null ? {} : { grammar: gbnf },
    ...reasoning === null ? {} : { preserved_tokens: reasoningMarkers(reasonings[reasoning]) },
    n_predict: mostTokens(payload, facts),
    ...payload['logprobs'] === true ? { n_probs: candidates(payload) } : {}
  }, warnings)
}
