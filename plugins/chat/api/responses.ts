/** OpenAI's Responses API: POST /v1/responses. */
import { badField, type FromSchema } from '../../../kernel/index.js'
import { isObject, present, type Fields } from '../../runners/language/json.js'
import { SAMPLING, samplingOf } from '../../runners/language/sampling.js'
import { answer, answerJson } from './answer.js'
import { withApiFieldNames, stringAt, type Rules } from './errors.js'
import { imagePart, textUnlessImages, type VisionSupport } from './images.js'
import { formatOf } from './responses-format.js'
import {
  chatTask, visionSupportOf, functionCall, functionTool, partText, textOf, type VisionRules
} from './request-to-task.js'
import { countTokens } from './tokens.js'
import type { ApiParts, TextRequest, Handler } from './types.js'
import type { InputItem, inputTokensBody, responsesBody, ResponsesBody } from './responses-body.js'
import type { ChatBody, InputMessage, Tool } from './schema.js'

type CountBody = FromSchema<typeof inputTokensBody>

export const responses: Handler<typeof responsesBody> = async (parts, request) => {
  const { body } = request
  const asked = asTask(body, parts)
  const format = formatOf({ ...body, ...samplingUsed(parts, asked) })
  await answer(parts, request, asked, body.stream === true, format)
}

/** Sampling as Open Responses requires it in each answer: the request's, else the model's. */
function samplingUsed (
  { runners }: Pick<ApiParts, 'runners'>, { modelId, task: { payload } }: TextRequest
): Pick<ResponsesBody, 'temperature' | 'top_p'> {
  const defaults = runners.card(modelId)?.defaults
  const used = (key: 'temperature' | 'top_p'): number =>
    Number(payload[key] ?? defaults?.[key] ?? SAMPLING[key].default)
  return { temperature: used('temperature'), top_p: used('top_p') }
}

export const inputTokens: Handler<typeof inputTokensBody> = async (parts, request) => {
  const asked = asTask(request.body, parts)
  await answerJson(parts, request, async (call) =>
    ({ object: 'response.input_tokens', input_tokens: await countTokens(parts, asked, call) }))
}

/** Chat request fields that have other names in the Responses API. */
const NAMES = { response_format: 'text.format', max_tokens: 'max_output_tokens', messages: 'input' }

const asTask = (body: ResponsesBody | CountBody, rules: Rules): TextRequest =>
  withApiFieldNames(NAMES, () => chatTask(fromResponses(body, rules), rules))

/** Converts a body to a chat request. Throws `invalid_request`. */
export function fromResponses (body: ResponsesBody | CountBody, rules: VisionRules): ChatBody {
  const { model, instructions, input, parallel_tool_calls, reasoning } = body
  const { max_output_tokens: max_tokens } = body as ResponsesBody
  const messages = typeof input === 'string'
    ? [{ role: 'user', content: input }]
    : messagesOf(input, visionSupportOf(rules, model))
  return {
    model,
    messages: instructions == null ? messages : [{ role: 'system', content: instructions }, ...messages],
    ...samplingOf('responses', body),
    ...present({
      parallel_tool_calls, max_tokens, reasoning_effort: reasoning?.effort,
      tools: body.tools?.map(toolOf), tool_choice: choiceOf(body.tool_choice),
      response_format: responseFormat(body)
    })
  }
}

function toolOf (tool: NonNullable<ResponsesBody['tools']>[number], i: number): Tool {
  const { type, name, description = null, parameters = null, strict = null } = tool
  if (type !== 'function') {
    throw badField(`tools.${i}.type`, `"${type.slice(0, 64)}" is not served; send your own functions`)
  }
  if (name === undefined) throw badField(`tools.${i}.name`, 'is required')
  return functionTool(name, { description, parameters, strict })
}

function choiceOf (choice: ResponsesBody['tool_choice']): ChatBody['tool_choice'] {
  if (choice == null || typeof choice === 'string') return choice
  const { type, name } = choice
  if (type === 'function' && typeof name === 'string') return { type, function: { name } }
  throw badField('tool_choice', 'must be "none", "auto", "required" or {type: function, name}')
}

function responseFormat ({ text }: Pick<ResponsesBody, 'text'>): ChatBody['response_format'] {
  const { type, schema, strict } = text?.format ?? {}
  if (type !== 'json_schema') return type === undefined ? null : { type }
  if (schema === undefined) throw badField('text.format.schema', 'is required')
  return { type, json_schema: { schema, ...present({ strict }) } }
}

/** Consecutive calls and the text before them form one assistant message. */
function messagesOf (items: readonly InputItem[], vision: VisionSupport): InputMessage[] {
  const messages: InputMessage[] = []
  for (const [i, item] of items.entries()) {
    const path = `input.${i}`
    switch (item['type'] ?? 'message') {
      case 'message': messages.push(messageOf(item, path, vision)); break
      case 'function_call': {
        if (messages.at(-1)?.role !== 'assistant') messages.push({ role: 'assistant', content: null })
        const message = messages.at(-1)!
        message.tool_calls = [...message.tool_calls ?? [], callOf(item, path)]
        break
      }
      case 'function_call_output':
        messages.push({
          role: 'tool', tool_call_id: stringAt(item, 'call_id', path),
          content: contentAt(item, 'output', path)
        })
        break
      case 'reasoning': break
      default: throw badField(`${path}.type`, `"${String(item['type']).slice(0, 64)}" is not served`)
    }
  }
  return messages
}

const ROLES = ['system', 'developer', 'user', 'assistant']

function messageOf (item: InputItem, path: string, vision: VisionSupport): InputMessage {
  const role = stringAt(item, 'role', path)
  if (!ROLES.includes(role)) throw badField(`${path}.role`, `must be one of ${ROLES.join(', ')}`)
  const content = item['content']
  return { role, content: role === 'user' && isParts(content) && content.some(isInputImage)
    ? textUnlessImages(content.map((part, i) => partAt(part, `${path}.content.${i}`, vision)))
    : contentAt(item, 'content', path) }
}

const callOf = (item: InputItem, path: string): object => functionCall(
  stringAt(item, 'call_id', path), stringAt(item, 'name', path), stringAt(item, 'arguments', path))

const isInputImage = (part: Fields): boolean => part['type'] === 'input_image'

/** A part of a user message in the chat API's format. Throws `invalid_request`. */
function partAt (part: Fields, path: string, vision: VisionSupport): Fields {
  if (!isInputImage(part)) return { type: 'text', text: partText(part, path) }
  const { image_url: url, file_id: file, detail } = part
  if (url == null && file != null) throw badField(`${path}.file_id`,
    'is not served: svc stores no files')
  return imagePart({ image_url: { url, detail } }, path, vision)
}

const isParts = (value: unknown): value is Fields[] => Array.isArray(value) && value.every(isObject)

function contentAt (item: InputItem, key: string, path: string): string | null {
  const value = item[key]
  if (typeof value !== 'string' && !isParts(value)) {
    throw badField(`${path}.${key}`, 'must be a string or a list of parts')
  }
  return textOf(value, `${path}.${key}`)
}
