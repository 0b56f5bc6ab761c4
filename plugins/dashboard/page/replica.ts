// One connection to a node's read-only replica of /state, held as a plain object.
import { WebsocketProvider } from 'y-websocket'
import { Doc } from 'yjs'
import { stateOf } from './assembly.js'
import { emptyState, type State } from './state.js'
import type { Entry } from '../../../kernel/state/entries.js'

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
