// Conversations in the browser's database of this origin, with a size limit.
import { within } from '../ui/database.js'
import { tooMany } from './bounds.js'
import { afterReload } from './conversation.js'
import type { Size } from './bounds.js'
import type { Conversation } from './conversation.js'

const PLACE = { database: 'svc-playground', store: 'conversations', keyPath: 'id' }

const sizeOf = (one: Conversation): Size =>
  ({ id: one.id, changedAt: one.changedAt, bytes: bytesOf(one) })

export async function readKept (): Promise<Conversation[]> {
  const all = await within<Conversation[]>(PLACE, 'readonly', (store) => store.getAll())
  return all.map(afterReload).sort((a, b) => b.changedAt - a.changedAt)
}

/** Sizes of conversations, which are immutable, so each is measured once. */
const measured = new WeakMap<Conversation, number>()

function bytesOf (conversation: Conversation): number {
  const bytes = measured.get(conversation) ?? JSON.stringify(conversation).length
  measured.set(conversation, bytes)
  return bytes
}

/** Saves a conversation, and deletes the oldest ones that no longer fit. Returns their ids. */
export async function keep (conversation: Conversation, all: Iterable<Conversation>): Promise<string[]> {
  const gone = tooMany([...all].map(sizeOf))
  await within(PLACE, 'readwrite', (store) => {
    for (const id of gone) store.delete(id)
    return store.put(conversation)
  })
  return gone
}

export const forget = async (id: string): Promise<void> =>
  await within(PLACE, 'readwrite', (store) => store.delete(id))

export const forgetAll = async (): Promise<void> =>
  await within(PLACE, 'readwrite', (store) => store.clear())
