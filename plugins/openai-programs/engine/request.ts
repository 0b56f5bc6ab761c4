/** Converts a task's payload to the body of a request for a program. Pure. */
import {
  fieldsOf, isObject, listOf, numberOf, present, textOf, type Fields
} from '../../runners/language/json.js'
import { invalid } from '../../runners/language/refusals.js'
import { answerSchema, requiresCall } from '../../runners/language/structure.js'
import type { Description, Lack } from '../schema.js'

export type Body = Record<string, unknown>

/** Names of models, adapters, templates, addresses and transfers, which only svc sets. */
const REFUSED = ['model', 'adapters', 'lora_path', 'lora', 'draft_model', 'chat_template',
  'kv_transfer_params',
  'mm_processor_kwargs', 'media_io_kwargs', 'bootstrap_host', 'bootstrap_port', 'bootstrap_room']
const MEDIA = ['image_url', 'audio_url', 'video_url', 'file_url', 'input_audio', 'file']
/** Unknown fields with such words may name files, models, transfers or code, so they do not pass. */
const NAMES = RegExp('(^|_)(models?|adapters?|loras?|paths?|ur[il]s?|files?|folders?|hosts?|ports?|rooms?|' +
  'transfers?|templates?|tokenizers?|processors?|xargs|kwargs|documents?|images?|videos?|audios?)(_|$)|' +
  '^(session_params|data_parallel_rank|priority|prompt_logprobs|best_of)$', 'i')
/** Fields of other servers that hold the answer to a form. */
const FORMS = ['structured_outputs', 'guided_json', 'guided_regex', 'guided_choice', 'guided_grammar',
  'regex', 'ebnf']
/** Fields that svc reads itself or writes in another form. */
const OWN_FORM = new Set(['n', 'n_predict', 'max_tokens', 'repeat_penalty', 'logit_bias', 'json_schema',
  'response_format', 'extra_body', 'stream', 'stream_options', 'grammar', 'logprobs', 'top_logprobs'])
const SEEDS = 2 ** 31

export interface Asked { body: Body, stops: readonly string[], answers: number, tops: number }

/** Builds the body without `max_tokens`. @throws EngineError invalid_request naming the field */
export function bodyOf (
  kind: 'chat' | 'completion', given: Fields, name: string, { model, description, defaults }:
  { model: string, description: Description, defaults: Fields }
): Asked {
  const { extra_body: extra, ...known } = given
  const others = Object.entries(fieldsOf(extra))
    .filter(([field]) => REFUSED.includes(field) || !NAMES.test(field))
  const payload: Fields = { ...Object.fromEntries(others), ...known }
  const lacks = (one: Lack): boolean => description.lacks?.includes(one) === true
  refuse(payload, name, lacks)
  const { rename = {} } = description
  const fields = Object.entries({ ...defaults, ...payload, ...penaltyOf(payload) })
    .flatMap(([field, value]): [string, unknown][] => {
      const to = Object.hasOwn(rename, field) ? rename[field] : field
      return value == null || to == null || OWN_FORM.has(field) ? [] : [[to, value]]
    })
  const stops = [payload['stop'] ?? []].flat().map(textOf)
  const { logprobs } = payload
  const tops = logprobs === true ? numberOf(payload['top_logprobs']) ?? 0 : 0
  const body: Body = {
    ...Object.fromEntries(fields),
    ...present({ logit_bias: biasOf(payload), response_format: formatOf(payload) }),
    ...logprobs !== true ? {} : kind === 'chat' ? { logprobs, top_logprobs: tops } : { logprobs: tops },
    model, stream: true, stream_options: { include_usage: true }
  }
  if (lacks('stop')) delete body['stop']
  return { body, stops: lacks('stop') ? stops : [], tops, answers: numberOf(payload['n']) ?? 1 }
}

const penaltyOf = ({ repeat_penalty: given, repetition_penalty: own }: Fields): Fields =>
  own == null && given != null ? { repetition_penalty: given } : {}

/** A map by token id, also from llama.cpp's list of pairs. */
function biasOf ({ logit_bias: bias }: Fields): object | undefined {
  if (Array.isArray(bias)) return Object.fromEntries(bias.filter(Array.isArray) as [string, unknown][])
  return isObject(bias) && Object.keys(bias).length > 0 ? bias : undefined
}

function formatOf (payload: Fields): object | undefined {
  const { response_format: format } = payload
  const named = answerSchema(payload)
  if (named === null || fieldsOf(format)['type'] === 'json_object') {
    return isObject(format) ? format : undefined
  }
  const { schema, strict } = named
  const given = fieldsOf(fieldsOf(format)['json_schema'])
  const described = { name: 'answer', ...given, schema, ...strict ? { strict } : {} }
  return { type: 'json_schema', json_schema: described }
}

function refuse (payload: Fields, name: string, lacks: (one: Lack) => boolean): void {
  const fail = (field: string, why: string): never => { throw invalid(`${field} ${why}`, field) }
  for (const field of REFUSED) {
    if (payload[field] != null) fail(field, 'is not served: the placement of the model decides it')
  }
  for (const [i, { content }] of listOf(payload['messages']).entries()) {
    for (const [j, part] of listOf(content).entries()) {
      for (const media of MEDIA.filter((one) => part[one] != null)) {
        const given = part[media]
        const { url, file_id: id, data, file_data: file = data } = isObject(given) ? given : { url: given }
        const isInside = textOf(url).startsWith('data:') ||
          (url === undefined && id === undefined && file !== undefined)
        const field = `messages.${i}.content.${j}.${media}`
        if (!isInside) fail(field, 'must have its bytes as data:, not an address')
      }
    }
  }
  const without = `is not served: ${name} does not`
  if (payload['grammar'] != null) fail('grammar', 'is not served: GBNF needs llama.cpp')
  if (lacks('schema')) {
    const form = answerSchema(payload)?.path.split('.')[0] ?? FORMS.find((field) => payload[field] != null)
    if (form !== undefined) fail(form, `${without} hold answers to a form`)
  }
  if (lacks('required_tools') && requiresCall(payload)) {
    fail('tool_choice', `${without} enforce calls of tools`)
  }
  if (lacks('logprobs') && payload['logprobs'] === true) fail('logprobs', `${without} report them in streams`)
  if (lacks('token_ids') && Array.isArray(payload['prompt'])) fail('prompt', `${without} take token ids`)
}

/** One request per answer, each with its own seed, so that the answers differ but are reproducible. */
export function copiesOf ({ body, answers }: Asked): Body[] {
  const seed = numberOf(body['seed'])
  return Array.from({ length: answers }, (_, i) =>
    seed === undefined ? body : { ...body, seed: ((seed + i) % SEEDS + SEEDS) % SEEDS })
}
