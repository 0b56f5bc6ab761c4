/** From the payload of a task to the bodies that llama.cpp's server takes. Pure. */
import { createHash } from 'node:crypto'
import { readMessages, readParameters } from '../engine/request.js'
import { readEmbed, type VectorShape } from '../engine/vectors.js'
import { parametersOf, type SamplingNumbers } from '../sampling.js'
import type { GrammarRequest, SamplingParams } from '../text/types.js'
import { invalid } from '../text/errors.js'
import { fieldsOf, idsOf, type Fields } from '../json.js'

/** What a request is checked against. */
export interface Facts {
  modelId: string
  contextLength: number
  defaults: Readonly<Record<string, unknown>>
  /** What the chat template takes as ids of calls. */
  callIds?: 'any' | 'short'
}

type Body = Record<string, unknown>

/** Above the size of every vocabulary; the server knows its own. */
const MAX_IDS = 2 ** 31 - 1
/** The server takes seeds below this one, which means a seed of its own choice. */
const SEEDS = 2 ** 32 - 1

/** Every parameter is sent, as the server's own defaults are others. */
function samplingOf (params: SamplingParams, { contextLength }: Facts): Body {
  const bias = Object.entries(params.logitBias).map(([id, value]) => [Number(id), value])
  const { repeatLastN: last } = params
  return {
    ...Object.fromEntries(parametersOf('llama').map(({ name, field }) =>
      [name, params[field as keyof SamplingNumbers]])),
    // Newer servers refuse -1, which once meant the whole context.
    repeat_last_n: last === null || last < 0 ? contextLength : Math.min(last, contextLength),
    // The one best token, without weighing all the others first: that costs as much as a tenth of a small
    // model's token. Penalties and biases come before.
    ...params.temperature === 0 ? { top_k: 1 } : {},
    ...bias.length === 0 ? {} : { logit_bias: bias }
  }
}

/** Answers to one prompt differ, and each can be had again: each is a request of its own. */
function copiesOf (body: Body, n: number, seed: number | null): Body[] {
  return Array.from({ length: n }, (_, index) => {
    if (seed === null) return body
    const own = seed + index
    return { ...body, seed: (own % SEEDS + SEEDS) % SEEDS }
  })
}

/** Mistral's templates refuse other ids than those of nine letters and digits. */
export const callIdsOf = (template: string): 'any' | 'short' =>
  /alphanumeric strings with length 9/.test(template) ? 'short' : 'any'

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

/** The messages and what else the template reads. @throws EngineError invalid_request */
export function templateBody (payload: Fields, callIds: Facts['callIds'] = 'any'): Body {
  const { tools, template_variables: variables, add_generation_prompt: add } = payload
  return {
    messages: readMessages(payload['messages'], { images: true }).map((message) => ({
      ...callIds === 'short' ? withShortIds({ ...message }) : message, content: message.content ?? ''
    })),
    ...Array.isArray(tools) && tools.length > 0 ? { tools } : {},
    ...variables == null ? {} : { chat_template_kwargs: fieldsOf(variables) },
    ...add === false ? { add_generation_prompt: false } : {}
  }
}

const nameOf = (tool: unknown): unknown => fieldsOf(fieldsOf(tool)['function'])['name']

/** The server takes `tool_choice` as a word only: one chosen function is the only tool, and required. */
function toolsBody ({ tools, choice }: { tools: unknown[], choice: unknown }): Body {
  if (choice == null || typeof choice === 'string') return { tools, tool_choice: choice ?? 'auto' }
  const wanted = nameOf(choice)
  const chosen = tools.filter((tool) => nameOf(tool) === wanted)
  if (chosen.length === 0) {
    throw invalid(`the chosen tool ${String(wanted)} is none of the tools`, 'params.grammar')
  }
  return { tools: chosen, tool_choice: 'required' }
}

function chatGrammar (grammar: GrammarRequest): Body {
  switch (grammar.kind) {
    case 'none': return {}
    case 'json': return { response_format: { type: 'json_object' } }
    case 'schema': {
      const schema = grammar.schema ?? {}
      return { response_format: { type: 'json_schema', json_schema: { schema } } }
    }
    case 'tools':
      if (grammar.answer !== undefined && (grammar.choice ?? 'auto') === 'auto') {
        throw invalid('llama-server calls no tools while it keeps an answer to a response_format; set ' +
          'tool_choice to "none" or "required", or leave one of them out', 'response_format')
      }
      return toolsBody(grammar)
  }
}

/**
 * The bodies for a route, one for each answer, which `own` and what both routes have in common make. All but
 * the prompt is checked as for every other language model: only the server can read that.
 */
function bodiesOf (
  payload: Fields, facts: Facts, own: (params: SamplingParams, maxTokens: number) => Body
): { bodies: Body[], tops: number } {
  const { params, n, stop, asked } = readParameters(payload, { ...facts, vocabularySize: MAX_IDS })
  // One token of the context at least is the prompt's.
  const maxTokens = Math.min(asked, facts.contextLength - 1)
  const body = {
    ...own(params, maxTokens),
    ...samplingOf(params, facts),
    stop,
    stream: true,
    return_progress: true,
    cache_prompt: true
  }
  return { bodies: copiesOf(body, n, params.seed), tops: params.topLogprobs }
}

/** The server reports the chosen token only beside at least one candidate. */
const candidates = ({ topLogprobs }: SamplingParams): number => Math.max(1, topLogprobs)

/** Bodies for `/v1/chat/completions`, one for each answer. @throws EngineError invalid_request */
export function chatBodies (payload: Fields, facts: Facts): { bodies: Body[], tops: number } {
  return bodiesOf(payload, facts, (params, maxTokens) => ({
    ...templateBody(payload, facts.callIds),
    ...chatGrammar(params.grammar),
    max_tokens: maxTokens,
    stream_options: { include_usage: true },
    ...params.logprobs ? { logprobs: true, top_logprobs: candidates(params) } : {}
  }))
}

function completionGrammar ({ grammar, grammarAfter }: SamplingParams): Body {
  if (grammarAfter !== undefined) {
    throw invalid('llama-server keeps a completion to a grammar from its beginning', 'params.grammar_after')
  }
  switch (grammar.kind) {
    case 'none': return {}
    case 'json': return { json_schema: { type: 'object' } }
    case 'schema': return { json_schema: grammar.schema ?? {} }
    case 'tools': throw invalid('llama-server calls tools in a chat only', 'params.grammar')
  }
}

/** A prompt: a text, or ids as they are. @throws EngineError invalid_request */
export function promptOf (prompt: unknown, path = 'prompt'): string | number[] {
  const given = typeof prompt === 'string' ? prompt : idsOf(prompt)
  if (given === undefined) throw invalid(`${path} takes a text or token ids`, path)
  if (given.length === 0) throw invalid(`${path} is empty: there is nothing to go on from`, path)
  return given
}

/** Bodies for `/completion`, one for each answer. @throws EngineError invalid_request */
export function completionBodies (payload: Fields, facts: Facts): { bodies: Body[], tops: number } {
  return bodiesOf(payload, facts, (params, maxTokens) => ({
    prompt: promptOf(payload['prompt']),
    ...completionGrammar(params),
    n_predict: maxTokens,
    ...params.logprobs ? { n_probs: candidates(params) } : {}
  }))
}

/** A request for embeddings. */
export interface EmbedRequest { inputs: (string | number[])[], shape: VectorShape }

/** `input` is a text, token ids, or a list of either. @throws EngineError invalid_request */
export function embedRequest (payload: Fields): EmbedRequest {
  const { inputs, shape } = readEmbed(payload)
  return { inputs: inputs.map((each) => promptOf(each, 'input')), shape }
}
