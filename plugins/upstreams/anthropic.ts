/**
 * Anthropic's Messages API (https://platform.claude.com/docs/en/api/messages) for servers that speak only
 * that: converts requests from OpenAI's form, and events to chunks. Pure.
 */
import { EngineError } from '../../kernel/index.js'
import { fieldsOf, listOf, numberOf, parsed, present, textOf, type Fields } from '../runners/language/json.js'
import { endOf, newsOf, type ReaderFactory } from '../runners/openai/answer.js'
import type { Choice, Finish } from '../runners/language/chunks.js'

/** The header that names the API's version, which every request needs. */
export const VERSION = { 'anthropic-version': '2023-06-01' }
/** The API requires a limit on the answer, in tokens. */
const MAX_TOKENS = 4096
const DATA_URL = /^data:([^;,]{1,100});base64,/
const EFFORTS = ['low', 'medium', 'high']
const CHOICES: Readonly<Record<string, string>> = { auto: 'auto', required: 'any', none: 'none' }

/** Converts a body of `/chat/completions`, without the fields that have no counterpart. */
export function messagesBody (body: Fields): Record<string, unknown> {
  const { tool_choice: choice, parallel_tool_calls: parallel, response_format: format } = body
  const system = listOf(body['messages']).filter(isSystem).flatMap(({ content }) => blocksOf(content))
  const tools = listOf(body['tools']).map(({ function: one }) => fieldsOf(one))
  const type = CHOICES[textOf(choice)] ?? (choice == null ? 'auto' : 'tool')
  const effort = EFFORTS.find((one) => one === body['reasoning_effort'])
  const output = present({ effort, format: format && schemaOf(fieldsOf(format)) })
  const { model, stream, temperature, top_p: topP, top_k: topK, stop } = body
  return present({
    // Temperatures end at 1 there, and newer models take only one of temperature and top_p.
    model, stream, top_k: topK, max_tokens: body['max_tokens'] ?? MAX_TOKENS,
    ...temperature == null ? { top_p: topP } : { temperature: Math.min(1, Number(temperature)) },
    stop_sequences: stop == null ? null : [stop].flat(),
    messages: turnsOf(listOf(body['messages']).filter((message) => !isSystem(message))),
    system: system.length === 0 ? null : system,
    output_config: Object.keys(output).length === 0 ? null : output,
    ...tools.length === 0 ? {} : {
      tools: tools.map(({ name, description, parameters }) =>
        present({ name, description, input_schema: { type: 'object', ...fieldsOf(parameters) } })),
      tool_choice: present({
        type, name: type === 'tool' ? fieldsOf(fieldsOf(choice)['function'])['name'] : null,
        disable_parallel_tool_use: parallel === false && type !== 'none' ? true : null
      })
    }
  })
}

const isSystem = ({ role }: Fields): boolean => role === 'system' || role === 'developer'

function schemaOf ({ type, json_schema: schema }: Fields): object | null {
  if (type === 'text') return null
  if (type === 'json_schema') return { type, schema: fieldsOf(schema)['schema'] }
  throw new EngineError('invalid_request', 'response_format: the server of this model needs a json_schema')
}

/** The turns of a conversation; results of tools belong to the user, and turns of one role are joined. */
function turnsOf (messages: readonly Fields[]): { role: string, content: object[] }[] {
  const turns: { role: string, content: object[] }[] = []
  for (const { role, content, tool_call_id: id, tool_calls: calls } of messages) {
    const blocks = blocksOf(content)
    const own = role === 'tool' ? [{ type: 'tool_result', tool_use_id: id, content: blocks }] : blocks
    const used = listOf(calls).map(({ id, function: one }) => ({
      type: 'tool_use', id, name: fieldsOf(one)['name'],
      input: fieldsOf(parsed(textOf(fieldsOf(one)['arguments'])))
    }))
    const speaker = role === 'assistant' ? 'assistant' : 'user'
    // The server refuses turns without content.
    if (own.length + used.length === 0) continue
    if (turns.at(-1)?.role === speaker) turns.at(-1)!.content.push(...own, ...used)
    else turns.push({ role: speaker, content: [...own, ...used] })
  }
  return turns
}

function blocksOf (content: unknown): object[] {
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }]
  return listOf(content).flatMap(({ type, text, image_url: image }): object[] => {
    if (type !== 'image_url') return textOf(text) === '' ? [] : [{ type: 'text', text }]
    const url = textOf(fieldsOf(image)['url'])
    const [head, media] = DATA_URL.exec(url) ?? []
    return [{ type: 'image', source: head === undefined ? { type: 'url', url }
      : { type: 'base64', media_type: media, data: url.slice(head.length) } }]
  })
}

const FINISHES: Readonly<Record<string, Finish>> = {
  max_tokens: 'length', model_context_window_exceeded: 'length', tool_use: 'tool_calls'
}

/** Reads an answer from `/messages`, which consists of content blocks. */
export const messagesReader: ReaderFactory = (index) => {
  let finish: Finish | null = null
  let usage: Fields = {}
  /** The calls in order, by block; `given` once a part of the input has come. */
  const calls = new Map<unknown, { index: number, given: boolean }>()
  const deltaOf = ({ type, index: block, delta, content_block: begun }: Fields): Choice['delta'] => {
    const { text, thinking, partial_json: json } = { ...fieldsOf(begun), ...fieldsOf(delta) }
    if (fieldsOf(begun)['type'] === 'tool_use') {
      const { id, name, input } = fieldsOf(begun)
      const given = Object.keys(fieldsOf(input)).length > 0
      calls.set(block, { index: calls.size, given })
      const named = { name: textOf(name), arguments: given ? JSON.stringify(input) : '' }
      return { tool_calls: [{ index: calls.size - 1, id: textOf(id), function: named }] }
    }
    const call = calls.get(block)
    const more = type === 'content_block_stop' && call?.given === false ? '{}' : textOf(json)
    if (call !== undefined && more !== '') {
      call.given = true
      return { tool_calls: [{ index: call.index, function: { arguments: more } }] }
    }
    return textOf(text) !== '' ? { content: textOf(text) }
      : textOf(thinking) !== '' ? { reasoning_content: textOf(thinking) } : {}
  }
  return {
    read (event) {
      usage = { ...usage, ...fieldsOf(fieldsOf(event['message'])['usage']), ...fieldsOf(event['usage']) }
      const why = textOf(fieldsOf(event['delta'])['stop_reason'])
      if (why !== '') finish = FINISHES[why] ?? 'stop'
      return newsOf(index, { delta: deltaOf(event)! }, [])
    },
    end (peakBytes) {
      if (finish === null) return null
      const [read, cached, stored, written] = ['input_tokens', 'cache_read_input_tokens',
        'cache_creation_input_tokens', 'output_tokens'].map((name) => numberOf(usage[name]) ?? 0)
      const counts = { prompt_tokens: read! + cached! + stored!, completion_tokens: written,
        prompt_tokens_details: { cached_tokens: cached } }
      return endOf({ index, delta: {} }, { finish, stop: null, usage: counts, timings: {}, peakBytes })
    }
  }
}
