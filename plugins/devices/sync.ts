import { entriesToPublish } from './cluster.js'
import { hasExpired } from './grants.js'
import type { Clock, Logger, Section } from '../../kernel/index.js'
import type { DeviceStore } from './store.js'
import type { Entry } from './grants.js'

export interface SyncOptions {
  section: Section<Entry>
  book: DeviceStore
  clock: Clock
  log: Logger
  masterKnown: () => boolean
  /** Sends the master any entries that the cluster's document lacks. */
  keep: (entries: readonly Entry[]) => Promise<void>
}

/** Synchronises a node's list of devices with the cluster's document. */
export interface Sync {
  hear: () => void
  tell: () => void
  /** On the master: removes expired entries from the document. */
  collect: (isMaster: boolean) => void
}

export function createSync ({ section, book, clock, log, masterKnown, keep }: SyncOptions): Sync {
  let telling = false
  const inDocument = (): Map<string, Entry> =>
    new Map([...section.entries()].map(({ key, value }) => [key, value]))
  const tell = async (): Promise<void> => {
    if (telling || !masterKnown()) return
    const known = inDocument()
    const parts = entriesToPublish(book.entries(), (id) => known.get(id))
    telling = true
    try {
      for (const part of parts) await keep(part)
    } catch (err) {
      // Without a master this fails; it is retried with the next session and every ten seconds.
      log.debug({ err }, 'the device entries of this node could not be stored in the cluster yet')
    } finally {
      telling = false
    }
  }
  return {
    hear: () => { book.merge(inDocument().values()) },
    tell: () => { void tell() },
    collect (isMaster) {
      const over = isMaster && [...section.entries()].some(({ value }) => hasExpired(value, clock.now()))
      if (!over) return
      keep([]).catch((err: unknown) => { log.debug({ err }, 'expired devices could not be removed yet') })
    }
  }
}
