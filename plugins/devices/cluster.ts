import { idOf, isSignedByNode, hasExpired, mergeEntries, LONGEST_MS, MOST_BYTES } from './grants.js'
import type { Clock, Section, SvcError } from '../../kernel/index.js'
import type { Grant } from './signing/protocol.js'
import type { Entry, Revocation } from './grants.js'

type Refuse = (
  reason: 'device_ended' | 'too_many_devices', message?: string, details?: Record<string, unknown>
) => SvcError

/** Commands that change the cluster's device list. Only the master runs them, synchronously, without I/O. */
export function deviceCommands (
  { section, clock, error }: { section: Section<Entry>, clock: Clock, error: Refuse }
) {
  const now = (): number => clock.now()
  /** Cached JSON sizes; entries in the document are immutable. */
  const sizes = new WeakMap<Entry, number>()
  const sizeOf = (entry: Entry): number => {
    const size = sizes.get(entry) ?? Buffer.byteLength(JSON.stringify(entry))
    sizes.set(entry, size)
    return size
  }
  const taken = (): number => [...section.entries()].reduce((sum, { value }) => sum + sizeOf(value), 0)
  const put = (entry: Entry): void => {
    const id = idOf(entry)
    const known = section.get(id)
    const next = mergeEntries(known, entry)
    if (next !== known) section.put(id, next)
  }
  const collect = (): void => {
    for (const { key, value } of [...section.entries()]) if (hasExpired(value, now())) section.remove(key)
  }
  // A known device's entry always fits, because a revocation is smaller than the grant that it replaces.
  const hasRoom = (entry: Entry): boolean =>
    section.get(idOf(entry)) !== undefined || taken() + sizeOf(entry) <= MOST_BYTES
  return {
    grantDevice: ({ grant }: { grant: Grant }): Record<string, unknown> => {
      collect()
      const known = section.get(grant.deviceId)
      if (known !== undefined && known.revoked !== null) {
        throw error('device_ended', 'This key was permanently revoked; pair the device again with a new one.',
          { why: 'revoked' })
      }
      if (!isSignedByNode(grant) || Date.parse(grant.expires) > now() + LONGEST_MS) {
        throw error('device_ended', 'The grant is invalid for the master.', { why: 'not_genuine' })
      }
      const entry = { grant, revoked: null }
      if (!hasRoom(entry)) {
        const kept = [...section.entries()].length
        throw error('too_many_devices', `The cluster has ${kept} devices, including revoked ones until ` +
          `their grants expire; they use ${taken()} of ${MOST_BYTES} bytes.`)
      }
      put(entry)
      return {}
    },
    revokeDevice: ({ revoked }: { revoked: Revocation }): Record<string, unknown> => {
      collect()
      put({ grant: null, revoked })
      return {}
    },
    /** Stores a node's entries that the document lacks, e.g. because an earlier session stored them. */
    keepDevices: ({ entries }: { entries: readonly unknown[] }): Record<string, unknown> => {
      collect()
      for (const entry of entries as readonly Entry[]) {
        const genuine = entry.grant === null || isSignedByNode(entry.grant)
        if (genuine && !hasExpired(entry, now()) && hasRoom(entry)) put(entry)
      }
      return {}
    }
  }
}

/** Maximum entries in one command. */
const AT_ONCE = 50

/** Selects the entries that the cluster's document lacks, or has in an older version. Pure. */
export function entriesToPublish (
  own: readonly Entry[], inDocument: (id: string) => Entry | undefined
): Entry[][] {
  const missing = own.filter((entry) => {
    const known = inDocument(idOf(entry))
    return known === undefined || mergeEntries(known, entry) !== known
  })
  return Array.from({ length: Math.ceil(missing.length / AT_ONCE) },
    (_, i) => missing.slice(i * AT_ONCE, (i + 1) * AT_ONCE))
}
