// Conversations that outlive the page: in the browser's own database, of this origin, and bounded.
import { tooMany } from './bounds.js'
import { afterReload } from './conversation.js'
import type { Size } from './bounds.js'
import type { Conversation } from './conversation.js'

const DATABASE = 'svc-playground'
const STORE = 'conversations'

const wanted = <T>(request: IDBRequest<T>): Promise<T> => new Promise((resolve, reject) => {
  request.onsuccess = () => { resolve(request.result) }
  request.onerror = () => { reject(request.error ?? new Error('The browser keeps nothing.')) }
})

let opened: Promise<IDBDatabase> | null = null

function database (): Promise<IDBDatabase> {
  if (opened !== null) return opened
  const request = indexedDB.open(DATABASE, 1)
  request.onupgradeneeded = () => { request.result.createObjectStore(STORE, { keyPath: 'id' }) }
  return opened = wanted(request)
}

async function store (mode: IDBTransactionMode): Promise<IDBObjectStore> {
  return (await database()).transaction(STORE, mode).objectStore(STORE)
}

const sizeOf = (one: Conversation): Size =>
  ({ id: one.id, changedAt: one.changedAt, bytes: bytesOf(one) })

/** All saved conversations, newest first. */
export async function readKept (): Promise<Conversation[]> {
  const all = await wanted((await store('readonly')).getAll()) as Conversation[]
  return all.map(afterReload).sort((a, b) => b.changedAt - a.changedAt)
}

/** A conversation never changes, a newer one takes its place: each is measured once. */
const measured = new WeakMap<Conversation, number>()

function bytesOf (conversation: Conversation): number {
  const bytes = measured.get(conversation) ?? JSON.stringify(conversation).length
  measured.set(conversation, bytes)
  return bytes
}

/** Keeps a conversation, and lets go of the oldest ones that no longer fit. Answers with their ids. */
export async function keep (conversation: Conversation, all: Iterable<Conversation>): Promise<string[]> {
  const gone = tooMany([...all].map(sizeOf))
  const at = await store('readwrite')
  for (const id of gone) at.delete(id)
  await wanted(at.put(conversation))
  return gone
}

export async function forget (id: string): Promise<void> {
  await wanted((await store('readwrite')).delete(id))
}

export async function forgetAll (): Promise<void> {
  await wanted((await store('readwrite')).clear())
}
