// One connection to a node's read-only replica of /state, held as a plain object.
import { WebsocketProvider } from 'y-websocket'
import { Doc } from 'yjs'
import { emptyState, type State } from './state.js'
import { type Entry, keyOf } from '../../../kernel/state/entries.js'

/** Milliseconds for which changes are collected before they are shown together. */
const GATHER_MS = 40
/** Milliseconds to wait for the first complete state. */
const SYNC_LIMIT_MS = 10_000

/** Calls `events.state` with the first complete state and after each change; returns a function to stop. */
export function followState (
  origin: string, token: string | null, events: { state (state: State): void, over (): void }
): () => void {
  const doc = new Doc()
  const provider = new WebsocketProvider(`${origin.replace(/^http/, 'ws')}/state`, 'sync', doc, {
    disableBc: true, connect: false,
    // Browsers cannot set WebSocket headers, so the token is a subprotocol; the node selects `svc`.
    ...(token === null ? {} : { protocols: ['svc', `svc.bearer.${token}`] })
  })
  const entries = doc.getArray<Entry>('entries')
  let open = true
  let timer: ReturnType<typeof setTimeout> | undefined
  const close = (): void => {
    if (!open) return
    open = false
    clearTimeout(timer)
    clearTimeout(limit)
    provider.destroy()
    doc.destroy()
  }
  const end = (): void => {
    if (!open) return
    close()
    events.over()
  }
  const limit = setTimeout(end, SYNC_LIMIT_MS)
  const show = (): void => {
    timer = undefined
    events.state({ ...emptyState, ...stateOf(entries.toArray()) } as State)
  }
  provider.on('sync', (ok: boolean) => {
    if (!ok || !open) return
    clearTimeout(limit)
    show()
    entries.observe(() => { timer ??= setTimeout(show, GATHER_MS) })
  })
  provider.on('connection-close', end)
  provider.connect()
  return close
}

/** Builds the state from a replica's entries (see kernel/state/entries.ts). */
export function stateOf (entries: Iterable<Entry>): Record<string, unknown> {
  const state = new Map<string, unknown>()
  const members = new Map<string, Map<string, unknown>>()
  for (const { key, val } of entries) {
    const of = keyOf(key)
    if (of === key) state.set(key, val)
    else members.set(of, (members.get(of) ?? new Map<string, unknown>()).set(key.slice(of.length + 1), val))
  }
  for (const [key, own] of members) {
    const val = state.get(key)
    if (typeof val !== 'object' || val === null || Array.isArray(val)) continue
    // Object.fromEntries creates a property even for a member named __proto__; an assignment would not.
    state.set(key, Object.fromEntries(own))
  }
  return Object.fromEntries(state)
}
