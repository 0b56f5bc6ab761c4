import { computed, signal } from '@preact/signals'
import { failed } from '../ui/toast.js'
import {
  add, afterReload, choose, isOpen, newConversation, newLane, noSettings, pathOf, replace, titleOf,
  type Conversation, type Lane, type Message, type Settings
} from './conversation.js'
import { within } from '../ui/database.js'
import { tooMany, type Size } from './bounds.js'

/** Milliseconds after which a changed conversation is saved. */
const KEEP_AFTER_MS = 1000

const newId = (): string => {
  // crypto.randomUUID is missing on pages that come over plain HTTP from another machine.
  const bytes = crypto.getRandomValues(new Uint8Array(12))
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

const blank = newConversation(newId(), '')
const all = signal<ReadonlyMap<string, Conversation>>(new Map([[blank.id, blank]]))
const currentId = signal(blank.id)

export const conversation = computed(() => all.value.get(currentId.value) ?? blank)
export const list = computed(() => [...all.value.values()].filter(({ changedAt }) => changedAt > 0)
  .sort((a, b) => b.changedAt - a.changedAt).map(({ id, title }) => ({ id, title })))
export const answering = computed(() => isOpen(conversation.value))
/** Why conversations are not saved, if the browser refuses storage. */
export const notKept = signal<string | null>(null)

const waiting = new Map<string, ReturnType<typeof setTimeout>>()

function put (one: Conversation): void { all.value = new Map(all.value).set(one.id, one) }

/** Changes a conversation, whether it is shown or not, and schedules saving it. */
export function change (id: string, how: (had: Conversation) => Conversation): void {
  const had = all.value.get(id)
  if (had === undefined) return
  put({ ...how(had), changedAt: Date.now() })
  if (!waiting.has(id)) waiting.set(id, setTimeout(() => { void keepNow(id) }, KEEP_AFTER_MS))
}

async function keepNow (id: string): Promise<void> {
  clearTimeout(waiting.get(id))
  waiting.delete(id)
  const one = all.value.get(id)
  if (one === undefined) return
  try {
    const gone = new Set(await keep(one, all.value.values()))
    if (gone.size > 0) all.value = new Map([...all.value].filter(([key]) => !gone.has(key)))
    notKept.value = null
  } catch (error) {
    notKept.value = `This browser does not keep conversations: ${(error as Error).message}`
  }
}

addEventListener('pagehide', () => { for (const id of waiting.keys()) void keepNow(id) })

export function changeLane (id: string, index: number, how: (lane: Lane) => Lane): void {
  change(id, (had) => ({ ...had, lanes: had.lanes.map((lane, i) => i === index ? how(lane) : lane) }))
}

/** Appends a message to the shown path of a lane, or below `parent`. */
export function say (
  id: string, index: number, message: Omit<Message, 'id' | 'parent'>, parent?: string | null
): Message {
  const lane = all.value.get(id)!.lanes[index]!
  const last = parent === undefined ? pathOf(lane).at(-1)?.id ?? null : parent
  const whole: Message = { ...message, id: newId(), parent: last }
  changeLane(id, index, (had) => add(had, whole))
  if (whole.parent === null) change(id, (had) => ({ ...had, title: titleOf(whole.content) }))
  return whole
}

export function update (id: string, index: number, message: Message): void {
  changeLane(id, index, (lane) => replace(lane, message))
}

export function show (index: number, message: Message): void {
  changeLane(currentId.value, index, (lane) => choose(lane, message))
}

let loaded: Promise<void> | null = null

/** Loads the saved conversations once, and shows the newest. */
export function load (): Promise<void> {
  return loaded ??= (async () => {
    try {
      const saved = await within<Conversation[]>(PLACE, 'readonly', (store) => store.getAll())
      const kept = saved.map(afterReload).sort((a, b) => b.changedAt - a.changedAt)
      all.value = new Map([...all.value, ...kept.map((one) => [one.id, one] as const)])
      if (kept[0] !== undefined && conversation.value.changedAt === 0) currentId.value = kept[0].id
    } catch (error) {
      notKept.value = `This browser does not keep conversations: ${(error as Error).message}`
    }
  })()
}

export function begin (model = conversation.value.lanes[0]!.model, settings: Settings = noSettings): void {
  const one = newConversation(newId(), model, settings)
  all.value = new Map([...all.value].filter(([, { changedAt }]) => changedAt > 0)).set(one.id, one)
  currentId.value = one.id
}

export function open (id: string): void { if (all.value.has(id)) currentId.value = id }

export async function remove (): Promise<void> {
  const { id } = conversation.value
  const { model } = conversation.value.lanes[0]!
  all.value = new Map([...all.value].filter(([key]) => key !== id))
  await within(PLACE, 'readwrite', (store) => store.delete(id)).catch(failed)
  const next = list.value[0]
  if (next === undefined) begin(model)
  else open(next.id)
}

/** Changes the shown conversation. An empty one is not saved yet. */
function alter (how: (had: Conversation) => Partial<Conversation>): void {
  const had = conversation.value
  if (had.changedAt === 0) put({ ...had, ...how(had) })
  else change(had.id, (one) => ({ ...one, ...how(one) }))
}

export function useModel (index: number, model: string): void {
  alter(({ lanes }) => ({ lanes: lanes.map((lane, i) => i === index ? { ...lane, model } : lane) }))
}

export function useSettings (settings: Settings): void { alter(() => ({ settings })) }

/** Adds a second model for comparison, which continues from the same messages; null removes the model. */
export function compare (model: string | null): void {
  alter(({ lanes: [first = newLane('')] }) =>
    ({ lanes: model === null ? [first] : [first, { ...first, model }] }))
}

const PLACE = { database: 'svc-playground', store: 'conversations', keyPath: 'id' }

/** Sizes of conversations, which are immutable, so each is measured once. */
const measured = new WeakMap<Conversation, number>()

function sizeOf (one: Conversation): Size {
  const bytes = measured.get(one) ?? JSON.stringify(one).length
  measured.set(one, bytes)
  return { id: one.id, changedAt: one.changedAt, bytes }
}

/** Saves a conversation, and deletes the oldest ones that no longer fit. Returns their ids. */
async function keep (conversation: Conversation, all: Iterable<Conversation>): Promise<string[]> {
  const gone = tooMany([...all].map(sizeOf))
  await within(PLACE, 'readwrite', (store) => {
    for (const id of gone) store.delete(id)
    return store.put(conversation)
  })
  return gone
}
