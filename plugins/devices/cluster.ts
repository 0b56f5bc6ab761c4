import { idOf, isGenuine, isOver, joined, LONGEST_MS, MOST_DEVICES, MOST_ENTRIES } from './grants.js'
import type { Clock, Grant, Section, SvcError } from '../../kernel/index.js'
import type { Entry, Revocation } from './grants.js'

type Refuse = (
  reason: 'device_ended' | 'too_many_devices', message?: string, details?: Record<string, unknown>
) => SvcError

/** What the master decides about devices: it alone writes their section. Synchronous, without I/O. */
export function deviceCommands (
  { section, clock, error }: { section: Section<Entry>, clock: Clock, error: Refuse }
) {
  const now = (): number => clock.now()
  const keys = (): string[] => [...section.entries()].map(({ key }) => key)
  const live = (): number => [...section.entries()].filter(({ value: { grant } }) =>
    grant !== null && Date.parse(grant.expires) > now()).length
  const put = (entry: Entry): void => {
    const id = idOf(entry)
    const known = section.get(id)
    const next = joined(known, entry)
    if (next !== known) section.put(id, next)
  }
  const collect = (): void => {
    for (const { key, value } of [...section.entries()]) if (isOver(value, now())) section.remove(key)
  }
  const hasRoom = (id: string): boolean => section.get(id) !== undefined || keys().length < MOST_ENTRIES
  return {
    grantDevice: ({ grant }: { grant: Grant }): Record<string, unknown> => {
      collect()
      const known = section.get(grant.deviceId)
      if (known !== undefined && known.revoked !== null) {
        throw error('device_ended', 'This key was revoked for good; pair the device anew with a fresh one.',
          { why: 'revoked' })
      }
      if (!isGenuine(grant) || Date.parse(grant.expires) > now() + LONGEST_MS) {
        throw error('device_ended', 'The grant makes no sense to the master.', { why: 'not_genuine' })
      }
      if (known === undefined && (live() >= MOST_DEVICES || !hasRoom(grant.deviceId))) {
        throw error('too_many_devices', `${live()} devices are paired; at most ${MOST_DEVICES} may be.`)
      }
      put({ grant, revoked: null })
      return {}
    },
    revokeDevice: ({ revoked }: { revoked: Revocation }): Record<string, unknown> => {
      collect()
      put({ grant: null, revoked })
      return {}
    },
    /** What a node knows and the document does not: of a session that gave way, say. */
    keepDevices: ({ entries }: { entries: readonly unknown[] }): Record<string, unknown> => {
      collect()
      for (const entry of entries as readonly Entry[]) {
        const genuine = entry.grant === null || isGenuine(entry.grant)
        if (genuine && !isOver(entry, now()) && hasRoom(idOf(entry))) put(entry)
      }
      return {}
    }
  }
}

/** Entries that fit into one command. */
const AT_ONCE = 50

/** What one node has to tell the others: the entries that the document lacks, or knows less of. Pure. */
export function untold (own: readonly Entry[], inDocument: (id: string) => Entry | undefined): Entry[][] {
  const missing = own.filter((entry) => {
    const known = inDocument(idOf(entry))
    return known === undefined || joined(known, entry) !== known
  })
  return Array.from({ length: Math.ceil(missing.length / AT_ONCE) },
    (_, i) => missing.slice(i * AT_ONCE, (i + 1) * AT_ONCE))
}
