// One connection to a node's read-only replica of /state, kept as a plain object.
import { WebsocketProvider } from 'y-websocket'
import { Doc } from 'yjs'
import { emptyState } from './state.js'
import type { State } from './state.js'

/** How long a change may wait for others before it is shown, ms. */
const GATHER_MS = 40
/** How long the first whole state may take, ms. */
const SYNC_LIMIT_MS = 10_000

interface Entry { key: string, val: unknown }

/**
 * Puts the entries of the replica together: `{key: 'instances', val: {}}` says that there is such an object,
 * `{key: 'instances/ID', val}` is one member of it, anything else is the value itself. Of two entries with
 * one key the later one counts. Values are the very objects of the document: what has not changed is `===`.
 */
export function stateFrom (entries: Iterable<Entry>): State {
  const state: Record<string, unknown> = { ...emptyState }
  const members = new Map<string, Record<string, unknown>>()
  for (const { key, val } of entries) {
    const slash = key.indexOf('/')
    const top = slash === -1 ? key : key.slice(0, slash)
    if (slash === -1) {
      state[top] = val
      continue
    }
    let group = members.get(top)
    if (group === undefined) members.set(top, group = {})
    group[key.slice(slash + 1)] = val
  }
  for (const [top, group] of members) state[top] = group
  return state as unknown as State
}

export interface ReplicaEvents {
  /** The state, at once and after each change. */
  state (state: State): void
  /** The connection has ended, or never came about. */
  over (): void
}

/** Follows the state of the node at this origin until `close`. */
export function followState (origin: string, token: string | null, events: ReplicaEvents): () => void {
  const doc = new Doc()
  const provider = new WebsocketProvider(`${origin.replace(/^http/, 'ws')}/state`, 'sync', doc, {
    disableBc: true, connect: false,
    // A browser cannot set a header on a WebSocket; the node answers with the first of these.
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
    events.state(stateFrom(entries.toArray()))
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
