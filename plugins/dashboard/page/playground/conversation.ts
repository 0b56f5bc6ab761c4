// A conversation as a tree: each message has a parent, and of several children the chosen one is shown.
// Immutable: functions return new values.
import { shortened } from '../ui/text.js'
import type { Sampling } from './sampling.js'

export interface ToolCall { id: string, name: string, arguments: string }

export interface Tool {
  type: 'function'
  function: { name: string, description?: string, parameters?: Record<string, unknown> }
}

export interface Settings { system: string, sampling: Sampling, tools: Tool[] }

/** `lost`: the connection or the model instance was lost; the text so far stays. */
export type AnswerState = 'open' | 'done' | 'stopped' | 'failed' | 'lost'

export interface Answer {
  model: string
  /** The settings used for this answer, so that its request can be shown later. */
  sent: Settings
  state: AnswerState, note: string | null, remedy: string | null, reasoning: string
  toolCalls: ToolCall[], finish: string | null, commandId: string | null, traced: boolean
  node: string, firstMs: number | null, totalMs: number | null, tokens: number | null
  perSecond: number | null
}

export interface Message {
  id: string, parent: string | null, role: 'user' | 'assistant' | 'tool', content: string
  images?: string[]
  /** Id of the tool call whose result this message of role `tool` is. */
  callId?: string
  answer?: Answer
}

/** One model's messages in a conversation, which has two lanes while models are compared. */
export interface Lane {
  model: string
  messages: readonly Message[]
  /** Maps a message id ('' for the start) to the id of its shown successor. */
  chosen: Readonly<Record<string, string>>
}

export interface Conversation {
  id: string, title: string, changedAt: number, settings: Settings, lanes: readonly Lane[]
}

export const noSettings: Settings = { system: '', sampling: {}, tools: [] }

export const newLane = (model: string): Lane => ({ model, messages: [], chosen: {} })

export function newConversation (id: string, model: string, settings = noSettings): Conversation {
  return { id, title: 'New conversation', changedAt: 0, settings, lanes: [newLane(model)] }
}

const under = (parent: string | null): string => parent ?? ''

/** The shown messages, from the start to the end. */
export function pathOf ({ messages, chosen }: Lane): Message[] {
  const byId = new Map(messages.map((one) => [one.id, one]))
  const path: Message[] = []
  for (let next = byId.get(chosen[''] ?? ''); next !== undefined; next = byId.get(chosen[next.id] ?? '')) {
    path.push(next)
  }
  return path
}

export function pathTo (lane: Lane, id: string | null): Message[] {
  const byId = new Map(lane.messages.map((one) => [one.id, one]))
  const path: Message[] = []
  for (let at = byId.get(id ?? ''); at !== undefined; at = byId.get(at.parent ?? '')) path.unshift(at)
  return path
}

/** The alternatives of a message, itself included, oldest first. */
export function siblingsOf ({ messages }: Lane, { parent, role }: Message): Message[] {
  return messages.filter((one) => one.parent === parent && one.role === role)
}

export function add (lane: Lane, message: Message): Lane {
  return {
    ...lane, messages: [...lane.messages, message],
    chosen: { ...lane.chosen, [under(message.parent)]: message.id }
  }
}

export function replace (lane: Lane, message: Message): Lane {
  return { ...lane, messages: lane.messages.map((one) => one.id === message.id ? message : one) }
}

export function choose (lane: Lane, { parent, id }: Message): Lane {
  return { ...lane, chosen: { ...lane.chosen, [under(parent)]: id } }
}

export const titleOf = (text: string): string => shortened(text.trim().split('\n')[0]!) || 'An image'

/** The tool calls in the path's last answer that have no result yet. */
export function openCalls (path: readonly Message[]): ToolCall[] {
  const at = path.findLastIndex(({ role }) => role === 'assistant')
  const answered = new Set(path.slice(at + 1).map(({ callId }) => callId))
  return (path[at]?.answer?.toolCalls ?? []).filter(({ id }) => !answered.has(id))
}

/** Ends the answers in a saved conversation that were interrupted when the page was closed. */
export function afterReload (conversation: Conversation): Conversation {
  const lanes = conversation.lanes.map((lane) => ({
    ...lane,
    messages: lane.messages.map((message) => {
      if (message.answer?.state !== 'open') return message
      const note = 'This page was closed while the answer was being written.'
      return { ...message, answer: { ...message.answer, state: 'lost' as const, note } }
    })
  }))
  return { ...conversation, lanes }
}

export const isOpen = ({ lanes }: Conversation): boolean =>
  lanes.some(({ messages }) => messages.some(({ answer }) => answer?.state === 'open'))
