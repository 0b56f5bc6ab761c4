/** Messages of OpenAI's API as a chat template knows them. Pure. */
import { refused } from './errors.js'
import type { ChatMessage } from '../text/types.js'

/** A message as a client sends it; null is as good as absent. */
export interface InputMessage {
  role: string
  content?: string | unknown[] | null
  name?: string | null
  reasoning_content?: string | null
  tool_call_id?: string | null
  tool_calls?: unknown[] | null
}

/** A message for a template; some templates show earlier reasoning. */
export type TemplateMessage = ChatMessage & { reasoning_content?: string }

/** Parts of a content that no language model here reads, by their type. */
const UNREADABLE: Readonly<Record<string, string>> = {
  image_url: 'an image', input_image: 'an image', image: 'an image', input_audio: 'sound', file: 'a file',
  input_file: 'a file', document: 'a document', video_url: 'a video'
}

/** Throws `invalid_request` naming the message and the field. */
export function toMessages (messages: readonly InputMessage[]): TemplateMessage[] {
  return messages.map((message, i) => toMessage(message, `messages.${i}`))
}

function toMessage (message: InputMessage, path: string): TemplateMessage {
  const { role, name, tool_calls: calls, tool_call_id: callId, reasoning_content: reasoning } = message
  const content = textOf(message.content ?? null, `${path}.content`)
  const hasCalls = role === 'assistant' && calls != null && calls.length > 0
  if (content === null && !hasCalls) throw refused(`${path}.content`, 'is required')
  if (role === 'tool' && callId == null) throw refused(`${path}.tool_call_id`, 'is required')
  return {
    // Templates know no other word for it.
    role: role === 'developer' ? 'system' : role,
    content,
    ...name == null ? {} : { name },
    ...reasoning == null || role !== 'assistant' ? {} : { reasoning_content: reasoning },
    ...hasCalls ? { tool_calls: calls } : {},
    ...role === 'tool' && callId != null ? { tool_call_id: callId } : {}
  }
}

/** The text of a content: as it is, or its text parts joined by line breaks. */
export function textOf (content: string | unknown[] | null, path: string): string | null {
  if (content === null || typeof content === 'string') return content
  return content.map((part, i) => partText(part as Record<string, unknown>, `${path}.${i}`)).join('\n')
}

function partText (part: Record<string, unknown>, path: string): string {
  const type = String(part['type'])
  if (Object.hasOwn(UNREADABLE, type)) {
    throw refused(path, `is ${UNREADABLE[type]}; language models here read text only`)
  }
  const text = type === 'refusal' ? part['refusal'] : part['text']
  if (!['text', 'input_text', 'output_text', 'refusal'].includes(type)) {
    throw refused(`${path}.type`, `"${type.slice(0, 64)}" is not known here; send parts of type text`)
  }
  if (typeof text !== 'string') throw refused(`${path}.text`, 'must be a string')
  return text
}
