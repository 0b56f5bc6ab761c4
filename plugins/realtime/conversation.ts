import { newId } from './ids.js'
import { heardText, type SpokenClause } from './clauses.js'
import { badField } from '../../kernel/index.js'
import type { InputMessage } from '../chat/service.js'
import type { ItemInput } from './client-events.js'

/** Bounds of a conversation; the oldest items make room for new ones. */
const MOST_ITEMS = 1000
const MOST_CHARS = 4 * 1024 * 1024

export interface Content { type: string, text?: string, transcript?: string | null }

export interface Item {
  id: string
  object: 'realtime.item'
  type: 'message' | 'function_call' | 'function_call_output'
  status: 'in_progress' | 'completed' | 'incomplete'
  role?: 'system' | 'user' | 'assistant'
  content?: Content[]
  name?: string
  call_id?: string
  arguments?: string
  output?: string
}

/** An item that a client or a turn adds. */
const base = (id = newId('item')) => ({ id, object: 'realtime.item', status: 'completed' }) as const

/** The item of sound that is being transcribed. */
export const soundItem = (): Item =>
  ({ ...base(), type: 'message', role: 'user', content: [{ type: 'input_audio', transcript: null }] })

/** An item as a client gives it at `path`, without its sound, which is not kept. Throws `invalid_request`. */
export function itemOf ({ id, type, content = [], role, ...fields }: ItemInput, path = 'item'): Item {
  const { name = '', output = '', call_id: callId, arguments: text = '' } = fields
  if (type === 'message') {
    if (role === undefined) throw badField(`${path}.role`, 'is required')
    const image = content.findIndex((part) => part.type === 'input_image')
    if (image >= 0) throw badField(`${path}.content.${image}`, 'is an image; images are not supported here')
    const parts = content.map(({ audio, ...part }): Content =>
      audio === undefined ? part : { ...part, transcript: part.transcript ?? null })
    return { ...base(id), type, role, content: parts }
  }
  if (type === 'item_reference') throw badField(`${path}.type`, 'is for the input of a response only')
  if (callId === undefined) throw badField(`${path}.call_id`, 'is required')
  return type === 'function_call' ? { ...base(id), type, name, call_id: callId, arguments: text }
    : { ...base(id), type, call_id: callId, output }
}

/** An item; for an answer that was spoken, also the times of its clauses. */
interface Entry { item: Item, chars: number, clauses?: readonly SpokenClause[] }

const charsOf = (item: Item): number => JSON.stringify(item).length

/** The items of a session, oldest first. Reports changes to the client. */
export class Conversation {
  readonly id = newId('conv')
  readonly #send: (type: string, fields: object) => void
  readonly #entries: Entry[] = []
  /** Items without their transcripts yet, and functions that wait for these. */
  readonly #pending = new Set<Item>()
  readonly #waiting: (() => void)[] = []

  constructor (send: (type: string, fields: object) => void) {
    this.#send = send
    send('conversation.created', { conversation: { id: this.id, object: 'realtime.conversation' } })
  }

  get items (): Item[] { return this.#entries.map(({ item }) => item) }

  /** Adds an item at the end, or behind `previous` (`root`: at the start). */
  add (item: Item, previous?: string | null): void {
    const at = previous == null ? this.#entries.length : previous === 'root' ? 0 : this.#index(previous) + 1
    if (this.#entries.some((entry) => entry.item.id === item.id)) {
      throw badField('item.id', `"${item.id}" is in the conversation already`)
    }
    this.#entries.splice(at, 0, { item, chars: charsOf(item) })
    const fields = { item: { ...item }, previous_item_id: this.#entries[at - 1]?.item.id ?? null }
    this.#send('conversation.item.added', fields)
    if (item.status === 'completed') this.#send('conversation.item.done', fields)
    const isFull = (): boolean => this.#entries.length > MOST_ITEMS ||
      this.#entries.reduce((sum, { chars }) => sum + chars, 0) > MOST_CHARS
    while (this.#entries.length > 1 && isFull()) this.remove(this.#entries[0]!.item.id)
  }

  /** Throws `invalid_request` for an unknown id. */
  find (id: string): Item { return this.#entries[this.#index(id)]!.item }

  remove (id: string): void {
    this.#entries.splice(this.#index(id), 1)
    this.#send('conversation.item.deleted', { item_id: id })
  }

  /** Makes answers wait for the item's transcript until it is settled. */
  await (item: Item): void { this.#pending.add(item) }

  settle (item: Item): void {
    this.#pending.delete(item)
    if (this.#pending.size === 0) for (const wake of this.#waiting.splice(0)) wake()
  }

  /** Resolves when no transcript is missing. */
  async settled (): Promise<void> {
    if (this.#pending.size > 0) await new Promise<void>((resolve) => { this.#waiting.push(resolve) })
  }

  /** Call when an item's text has changed; `clauses` has the times of a spoken answer. */
  update (item: Item, clauses?: readonly SpokenClause[]): void {
    const entry = this.#entries.find((one) => one.item === item)
    if (entry === undefined) return
    entry.chars = charsOf(item)
    if (clauses !== undefined) entry.clauses = clauses
  }

  /** Shortens an answer to the text spoken before `ms`. Throws `invalid_request`. */
  truncate (id: string, ms: number): void {
    const { item, clauses = [] } = this.#entries[this.#index(id)]!
    const [part] = item.content ?? []
    if (part?.type !== 'output_audio') throw badField('item_id', `"${id}" is no spoken answer`)
    const endMs = Math.ceil(clauses.at(-1)?.endMs ?? 0)
    if (ms > endMs) throw badField('audio_end_ms', `is ${ms}, but the answer has ${endMs} ms of sound`)
    part.transcript = heardText(clauses, ms)
    this.update(item)
  }

  #index (id: string): number {
    const index = this.#entries.findIndex(({ item }) => item.id === id)
    if (index < 0) throw badField('item_id', `"${id}" is not in the conversation`)
    return index
  }
}

/** Converts items to messages of the chat API; sound counts by its transcript. */
export function messagesOf (items: readonly Item[], instructions: string): InputMessage[] {
  const messages: InputMessage[] = instructions === '' ? [] : [{ role: 'system', content: instructions }]
  for (const { type, role = 'user', content = [], call_id: id = '', ...item } of items) {
    const last = messages.at(-1)
    if (type === 'function_call_output') {
      messages.push({ role: 'tool', tool_call_id: id, content: item.output ?? '' })
    } else if (type === 'function_call') {
      const call = { id, type: 'function', function: { name: item.name, arguments: item.arguments } }
      // Chat templates expect the calls of a turn in one message.
      if (last?.role === 'assistant') last.tool_calls = [...last.tool_calls ?? [], call]
      else messages.push({ role: 'assistant', content: null, tool_calls: [call] })
    } else {
      const text = content.map((part) => part.text ?? part.transcript ?? '').filter(Boolean).join('\n')
      if (text !== '') messages.push({ role, content: text })
    }
  }
  return messages
}
