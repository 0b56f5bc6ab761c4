import { basename, join } from 'node:path'
import { RING_BYTES, RING_ENTRIES, RING_STORED, RING_TEXTS } from './limits.js'
import { createEventLog } from './log.js'
import { restore } from './restore.js'
import { startStore } from './store/start.js'
import type { Clock, Logger } from '../../kernel/index.js'
import type { EventLog } from './log.js'
import type { Gap } from './store/gaps.js'
import type { DiskStore } from './store/types.js'
import type { Damaged } from './store/types.js'
import type { StoreParts } from './store/start.js'

export interface OpeningOptions {
  readonly parts: StoreParts
  readonly home: string
  readonly clock: Clock
  readonly logger: Logger
  readonly onGap: (gap: Gap) => void
  readonly onDamaged: (damaged: Damaged) => void
  /** Nothing can be stored, for this reason. */
  readonly unavailable: (why: string) => void
  /** Nothing is stored at the moment; null when that is over. */
  readonly counting: (why: string | null) => void
}

/** The log in memory with the store behind it: what it holds at the start, and each change from then on. */
export async function openLog (options: OpeningOptions): Promise<{ log: EventLog, store: DiskStore }> {
  const { parts, home, counting, logger, unavailable } = options
  const { store, newest } = await startStore(parts, {
    ...options,
    folder: join(home, 'events'),
    onDamaged (damaged) {
      const file = basename(damaged.file)
      logger.error({ file, error: damaged.error }, 'a damaged file of the event log was set aside')
      options.onDamaged({ ...damaged, file })
    },
    unavailable (why) {
      logger.error({ why }, 'events cannot be stored: the newest are kept in memory only')
      unavailable(why)
    }
  })
  const log = createEventLog(
    store.status().mode === 'memory' ? RING_ENTRIES : RING_STORED, RING_BYTES, RING_TEXTS)
  await restore(log, newest)
  log.onChange((change) => {
    if (change.type === 'append') store.append([change.entry], [change.text])
    // One that begins anew further on: what is stored up to there is as true as before.
    else store.cut(change.base?.idx ?? change.after)
  })
  const tell = (): void => {
    const { mode, counted } = store.status()
    counting(mode === 'counting-only' ? `${counted} events were counted so far` : null)
  }
  store.onMode(tell)
  tell()
  return { log, store }
}
