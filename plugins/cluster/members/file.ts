import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { HomeError, identityFile, readVersioned, writeVersioned } from '../../../kernel/cluster.js'
import { invalidField, mapShapeError } from '../wire.js'
import { readMemberList, type Applicant, type Member, type MemberList } from './member.js'

export type Members = ReturnType<typeof openMembers>

export interface MembersOptions { home: string, self: Applicant, now: () => number }

const FORMAT = 1

function readStored (path: string, self: MembersOptions['self']): MemberList | undefined {
  const stored = readVersioned(path, FORMAT)
  if (stored === undefined) return undefined
  const found = mapShapeError(() => readMemberList(stored), ({ message }) =>
    new HomeError(`${path}: ${message}; restore it from a backup, or remove it and join the cluster again`))
  const own = found.members.find((member) => member.installId === self.installId)
  if (own !== undefined && own.fingerprint !== self.fingerprint) {
    throw new HomeError(`${path} lists this node with key ${own.fingerprint}, but ${identityFile.key} is ` +
      `${self.fingerprint}; restore that key from a backup, or run: rm ${path} and join the cluster again`)
  }
  return found
}

/** Opens the members file, or starts a cluster of one. Throws HomeError for a broken file or another key. */
export function openMembers ({ home, self, now }: MembersOptions) {
  const path = join(home, identityFile.members)
  const listeners = new Set<() => void>()
  let current: MemberList
  let byId: ReadonlyMap<string, Member>
  let byKey: ReadonlyMap<string, Member>
  let removed: ReadonlySet<string>
  const take = (next: MemberList): void => {
    current = next
    byId = new Map(next.members.map((member) => [member.installId, member]))
    byKey = new Map(next.members.map((member) => [member.fingerprint, member]))
    removed = new Set(next.removed.map((entry) => entry.fingerprint))
  }
  const write = (next: MemberList): void => {
    writeVersioned(path, FORMAT, next)
    take(next)
  }
  const stored = readStored(path, self)
  if (stored === undefined) write(alone(self, now()))
  else take(stored)
  return {
    current: () => current,
    find: (installId: string) => byId.get(installId),
    /** Finds a member by its key's fingerprint; undefined for unknown and for removed keys. */
    byFingerprint: (fingerprint: string) => removed.has(fingerprint) ? undefined : byKey.get(fingerprint),
    isRemoved: (fingerprint: string) => removed.has(fingerprint),
    /**
     * Replaces the list: writes it durably, then calls onChange if it differs. For a bad field, throws
     * `invalid_request` and changes nothing. Removals apply even if the disk refuses the write.
     */
    replace (next: MemberList) {
      const checked = mapShapeError(() => readMemberList(next), invalidField)
      if (JSON.stringify(checked) === JSON.stringify(current)) return
      const grown = checked.removed.length > current.removed.length
      const tell = (): void => { for (const fn of [...listeners]) fn() }
      try {
        write(checked)
      } catch (error) {
        // Apply removals even if the write failed, because accepting a removed key would be worse.
        if (grown) {
          take(without(current, checked.removed))
          tell()
        }
        throw error
      }
      tell()
    },
    /** Subscribes to changes to the list; returns a function that unsubscribes. */
    onChange (fn: () => void) {
      const own = (): void => { fn() }
      listeners.add(own)
      return () => { listeners.delete(own) }
    }
  }
}

function without ({ clusterId, members }: MemberList, removed: MemberList['removed']): MemberList {
  const gone = new Set(removed.flatMap(({ installId, fingerprint }) => [installId, fingerprint]))
  const left = members.filter((m) => !gone.has(m.installId) && !gone.has(m.fingerprint))
  return Object.freeze({ clusterId, members: Object.freeze(left), removed })
}

function alone (self: MembersOptions['self'], nowMs: number): MemberList {
  const joinedAt = new Date(nowMs).toISOString()
  const fresh = { clusterId: randomUUID(), members: [{ ...self, joinedAt }], removed: [] }
  return mapShapeError(() => readMemberList(fresh), invalidField)
}
