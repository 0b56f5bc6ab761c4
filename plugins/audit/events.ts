import { readRecord, type AuditRecord } from './chain/record.js'
import type { Caller, Clock, Logger, LocalApi } from '../../kernel/index.js'
import type { Chain } from './chain/chain.js'

export interface RetellParts {
  readonly chain: Chain
  readonly own: LocalApi
  readonly clock: Clock
  readonly log: Logger
  readonly node: string
  readonly emit: (kind: 'AuditRecorded', record: AuditRecord) => void
}

const AFTER_MS = 10_000
/** Maximum number of events re-emitted after a start. */
const MOST = 100
const CALLER: Caller = { id: 'audit', mode: 'direct', authorities: new Set(['operator']) }

interface Page { events?: { event: { AuditRecorded?: AuditRecord } }[] }

/**
 * Once after the start, emits the events that were lost in a crash: those of records newer than the newest
 * one in the event log. Duplicates have the same `seq` and `hash`. Returns a function that cancels this.
 */
export function emitMissedEvents (parts: RetellParts): () => void {
  const over = new AbortController()
  // Records written after the start emit their own events.
  const until = parts.chain.head?.seq ?? 0
  const cancel = until === 0 ? () => {} : parts.clock.after(AFTER_MS, () => {
    tellAgain(parts, until, over.signal).catch((error: unknown) => {
      parts.log.debug({ err: error }, 'the newest audit records may lack events')
    })
  })
  return () => { cancel(); over.abort() }
}

async function tellAgain (
  { chain, own, node, emit }: RetellParts, until: number, signal: AbortSignal
): Promise<void> {
  const { status, text } = await own.ask({
    path: '/events?kinds=AuditRecorded&limit=1000', caller: CALLER, signal
  })
  if (status !== 200) return
  const { events = [] } = JSON.parse(text) as Page
  const known = events.flatMap(({ event: { AuditRecorded: one } }) => one?.node === node ? [one.seq] : [])
  const from = Math.max(until - MOST, ...known)
  if (from >= until) return
  for await (const line of chain.lines()) {
    const record = readRecord(line)
    if (record !== null && record.seq > from && record.seq <= until) emit('AuditRecorded', record)
  }
}
