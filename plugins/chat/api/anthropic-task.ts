/** Anthropic's Messages requests as chat requests. Pure. */
import { samplingOf, strictFields } from '../sampling.js'
import { textOf } from './messages.js'
import { refused } from './errors.js'
import type { FromSchema } from '../../../kernel/index.js'
import type { InputMessage } from './messages.js'
import type { ChatBody } from './task.js'

const name = { type: 'string', minLength: 1 } as const
const blocks = { type: 'array', items: { type: 'object', required: ['type'] } } as const

/** Body of POST /v1/messages. Unknown fields are ignored. */
export const messagesBody = {
  type: 'object', required: ['model', 'max_tokens', 'messages'],
  properties: {
    model: name,
    max_tokens: { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER },
    messages: {
      type: 'array', minItems: 1,
      items: {
        type: 'object', required: ['role', 'content'],
        properties: {
          role: { enum: ['user', 'assistant'] },
          content: { type: ['string', 'array'], items: blocks.items }
        }
      }
    },
    system: { type: ['string', 'array'], items: blocks.items },
    stop_sequences: { type: 'array', items: name },
    ...strictFields('anthropic'),
    stream: { type: 'boolean' },
    tools: {
      type: 'array',
      items: {
        type: 'object', required: ['name'],
        properties: {
          type: { type: 'string' }, name, description: { type: 'string' }, input_schema: { type: 'object' }
        }
      }
    },
    tool_choice: {
      type: 'object', required: ['type'],
      properties: {
        type: { enum: ['auto', 'any', 'tool', 'none'] }, name, disable_parallel_tool_use: { type: 'boolean' }
      }
    },
    thinking: { type: 'object', required: ['type'], properties: { type: { type: 'string' } } }
  }
} as const

/** A request as its schema has let it through. */
export type MessagesBody = FromSchema<typeof messagesBody>
type Block = Record<string, unknown>

/** Throws `invalid_request` naming the field. */
export function fromAnthropic (body: MessagesBody): ChatBody {
  const { model, max_tokens, thinking, tool_choice: choice } = body
  const system = textOf(body.system as string | Block[] | undefined ?? null, 'system')
  const messages = body.messages.flatMap((message, i) =>
    toChat(message.role, message.content, `messages.${i}.content`))
  return {
    model, max_tokens,
    messages: system === null ? messages : [{ role: 'system', content: system }, ...messages],
    ...samplingOf('anthropic', body),
    ...body.stop_sequences === undefined ? {} : { stop: body.stop_sequences },
    ...body.tools === undefined ? {} : { tools: body.tools.map(toolOf) },
    ...choice === undefined ? {} : choiceOf(choice),
    ...thinking === undefined
      ? {}
      : { chat_template_kwargs: { enable_thinking: thinking.type !== 'disabled' } }
  }
}

type AnthropicTool = NonNullable<MessagesBody['tools']>[number]

function toolOf (tool: AnthropicTool, i: number): NonNullable<ChatBody['tools']>[number] {
  const { type, name, description, input_schema: parameters } = tool
  if (type !== undefined && type !== 'custom') {
    throw refused(`tools.${i}.type`, `"${type.slice(0, 64)}" is not served; send tools of your own`)
  }
  return {
    type: 'function',
    function: {
      name,
      ...description === undefined ? {} : { description },
      ...parameters === undefined ? {} : { parameters }
    }
  }
}

function choiceOf (
  { type, name, disable_parallel_tool_use: single }: NonNullable<MessagesBody['tool_choice']>
): Pick<ChatBody, 'tool_choice' | 'parallel_tool_calls'> {
  const parallel = single === true ? { parallel_tool_calls: false } : {}
  if (type !== 'tool') return { tool_choice: type === 'any' ? 'required' : type, ...parallel }
  if (name === undefined) throw refused('tool_choice.name', 'is required')
  return { tool_choice: { type: 'function', function: { name } }, ...parallel }
}

/** A message with results of tools is several messages in the chat API: the results come first. */
function toChat (role: 'user' | 'assistant', content: string | Block[], path: string): InputMessage[] {
  if (typeof content === 'string') return [{ role, content }]
  const sorted = { results: [] as InputMessage[], calls: [] as object[], texts: [] as Block[], thoughts: '' }
  for (const [i, block] of content.entries()) {
    const at = `${path}.${i}`
    switch (block['type']) {
      case 'tool_result': sorted.results.push(resultOf(block, at)); break
      case 'tool_use': sorted.calls.push(callOf(block, at)); break
      case 'thinking': sorted.thoughts += stringAt(block, 'thinking', at); break
      case 'redacted_thinking': break
      default: sorted.texts.push(block)
    }
  }
  const { results, calls, texts, thoughts } = sorted
  if (texts.length === 0 && calls.length === 0) return results
  return [...results, {
    role,
    content: texts.length === 0 ? null : textOf(texts, path),
    ...calls.length === 0 ? {} : { tool_calls: calls },
    ...thoughts === '' ? {} : { reasoning_content: thoughts }
  }]
}

function resultOf (block: Block, path: string): InputMessage {
  const content = block['content'] ?? ''
  if (typeof content !== 'string' && !Array.isArray(content)) {
    throw refused(`${path}.content`, 'must be a string or a list')
  }
  return {
    role: 'tool',
    tool_call_id: stringAt(block, 'tool_use_id', path),
    content: textOf(content, `${path}.content`)
  }
}

function callOf (block: Block, path: string): object {
  const text = JSON.stringify(block['input'] ?? {})
  const id = stringAt(block, 'id', path)
  return { id, type: 'function', function: { name: stringAt(block, 'name', path), arguments: text } }
}

function stringAt (block: Block, key: string, path: string): string {
  const value = block[key]
  if (typeof value !== 'string') throw refused(`${path}.${key}`, 'must be a string')
  return value
}
