import { kernelError, type Clock, type Logger } from '../../../kernel/cluster.js'
import { EntryCheck } from '../sections.js'
import { fits, invalidField, problem, read, mapShapeError, type Schema } from '../wire.js'
import { MAX_MEMBERS, MAX_REMOVED, memberRecordSchema, memberSchema, removedSchema } from './member.js'
import type { CommandRouter } from '../commands.js'
import type { ElectionDriver } from '../driver.js'
import type { ControlLog } from '../log/log.js'
import type { Members } from './file.js'
import type { Admission, Applicant, Member, MemberRecord, MemberList, Removed } from './member.js'

const MEMBER = 'member/'
const REMOVED = 'removed/'
const CLUSTER = 'cluster/id'

/** `put` records a new member or a member's own changes; `keep` re-adds a known member to a new document. */
export const memberCommands = {
  put: 'kernel.member-put', keep: 'kernel.member-keep', remove: 'kernel.member-remove'
} as const

export interface MembershipOptions {
  members: Members, control: ControlLog, commands: CommandRouter
  driver: () => ElectionDriver
  self: () => Applicant & { nodeId: string }
  clock: Clock, log: Logger
  onRemoved: (member: Pick<MemberRecord, 'installId' | 'name'>) => void
  /** Sends the list to all peers after a removal, because some have no link to the master. */
  broadcast: (list: MemberList) => void
}

/** Reduces a value to the fields of its schema; undefined if the value does not match. */
const readable = <T>(schema: Schema<T>, value: unknown): T | undefined =>
  fits(schema, value) ? read(schema, value) : undefined

/** Reads a command's argument. Throws `invalid_request` that names the field. */
const argument = <T>(schema: Schema<T>, args: unknown): T =>
  mapShapeError(() => read(schema, args), invalidField)

/**
 * The member list. Members are only added, and a removal is permanent, so that lists merge in any order. The
 * control document distributes the list; each home has a copy, which authenticates links before there is a
 * document.
 */
export class Membership {
  readonly #options: MembershipOptions
  #aligning = false
  readonly #memberCheck: EntryCheck
  readonly #removedCheck: EntryCheck

  constructor (options: MembershipOptions) {
    this.#options = options
    const { commands, control, log } = options
    this.#memberCheck = new EntryCheck('member', (value) => problem(memberRecordSchema, value), log)
    this.#removedCheck = new EntryCheck('removed', (value) => problem(removedSchema, value), log)
    commands.handle(memberCommands.put,
      (args, from) => { this.#put(argument(memberRecordSchema, args), from) })
    commands.handle(memberCommands.keep, (args) => { this.#keep(argument(memberRecordSchema, args)) })
    commands.handle(memberCommands.remove, (args) => { this.#remove(argument(removedSchema, args)) })
    control.observe((keys) => {
      if ([...keys].some((key) => key.startsWith(MEMBER) || key.startsWith(REMOVED))) {
        queueMicrotask(() => { this.#spread() })
      }
    })
  }

  records (): MemberRecord[] {
    const inDocument = this.#inDocument()
    return this.#options.members.current().members.map((member) =>
      inDocument.get(member.installId) ?? { ...member, nodeId: null })
  }

  /** Adds the known members to the first document of a session. */
  seed (into: Map<string, unknown>): void {
    const { clusterId, members, removed } = this.#options.members.current()
    if (!into.has(CLUSTER)) into.set(CLUSTER, clusterId)
    for (const gone of removed) {
      into.set(REMOVED + gone.installId, gone)
      into.delete(MEMBER + gone.installId)
    }
    for (const member of members) {
      const key = MEMBER + member.installId
      if (!into.has(key)) into.set(key, { ...member, nodeId: null })
    }
  }

  /** Adds a new member; resolves when the cluster has committed it. */
  async admit (candidate: Applicant, admitter: Omit<Admission, 'node'>): Promise<MemberList> {
    const joinedAt = new Date(this.#options.clock.now()).toISOString()
    const admitted = { ...admitter, node: this.#options.self().installId }
    await this.#options.commands.run(memberCommands.put, { ...candidate, joinedAt, nodeId: null, admitted })
    this.#spread()
    return this.#options.members.current()
  }

  /** Removes a member permanently. Throws `node_not_found` and `member_self`. */
  async remove (installId: string): Promise<void> {
    const member = this.#options.members.find(installId)
    if (member === undefined) throw kernelError('node_not_found', `No member ${installId} is known.`)
    if (installId === this.#options.self().installId) throw kernelError('member_self')
    const at = new Date(this.#options.clock.now()).toISOString()
    const removed: Removed = { installId, fingerprint: member.fingerprint, at }
    await this.#options.commands.run(memberCommands.remove, removed)
    // Apply the removal at once: the changed document may arrive after the master's answer.
    this.#spread({ members: [], removed: [removed] })
  }

  /** Re-adds known members that the document seems to lack; the master decides which are really missing. */
  async introduce (): Promise<void> {
    const { commands, members, self } = this.#options
    const inDocument = this.#inDocument()
    const gone = this.#removedInDocument()
    const own = self()
    const known = members.current()
    for (const removed of known.removed) {
      if (!gone.has(removed.installId)) await commands.run(memberCommands.remove, removed)
    }
    for (const member of known.members) {
      if (member.installId === own.installId || inDocument.has(member.installId)) continue
      if (!gone.has(member.installId)) await commands.run(memberCommands.keep, { ...member, nodeId: null })
    }
    const mine = { ...members.find(own.installId)!, ...own }
    const recorded = inDocument.get(own.installId)
    if (recorded === undefined || !sameRecord(recorded, mine)) await commands.run(memberCommands.put, mine)
  }

  /** Merges a list of another session, whose master may refuse this one. Skips invalid records. */
  merge (other: MemberList): void {
    const { clusterId, members, removed } = other
    if (clusterId !== this.#options.members.current().clusterId) return
    if (Array.isArray(members) && Array.isArray(removed)) this.#spread({ members, removed })
  }

  /** Adds or removes one voter, until the voters are the members; also in available mode, to be prepared. */
  async alignVoters (): Promise<void> {
    const { driver, control } = this.#options
    if (this.#aligning || !driver().isMaster) return
    const { liveNodes } = driver().status()
    const members = [...this.#inDocument().keys()]
    const next = nextVoters(control.voters(), { members, live: liveNodes }, driver().leader!.master)
    if (next === null) return
    this.#aligning = true
    try {
      await driver().changeVoters(`voters:${driver().leader?.sid ?? ''}:${control.last().seq}`, next)
    } finally { this.#aligning = false }
  }

  #inDocument (): Map<string, MemberRecord> { return this.#values(MEMBER, this.#memberCheck) }

  #removedInDocument (): Map<string, Removed> { return this.#values(REMOVED, this.#removedCheck) }

  /** The document's valid entries under a prefix, by install id. */
  #values<T extends { installId: string }> (prefix: string, check: EntryCheck): Map<string, T> {
    const found = new Map<string, T>()
    for (const [key, value] of this.#options.control.entries()) {
      if (!key.startsWith(prefix) || !check.fits('master', key, value)) continue
      const record = value as T
      if (prefix + record.installId === key) found.set(record.installId, record)
    }
    return found
  }

  /** Only a member itself changes its record, and never its key; any member may add a new member. */
  #put ({ admitted, ...record }: MemberRecord, from?: string): void {
    const { control, commands, log } = this.#options
    const { installId, fingerprint } = record
    const gone = [...this.#removedInDocument().values()]
    if (control.get(REMOVED + installId) !== undefined || gone.some((r) => r.fingerprint === fingerprint)) {
      throw kernelError('join_refused', 'This node was removed from the cluster permanently; ' +
        'it needs a new home to join again.')
    }
    const members = this.#inDocument()
    const known = members.get(installId)
    const holder = [...members.values()].find((m) => m.fingerprint === fingerprint)
    if (holder?.installId !== known?.installId) {
      throw kernelError('join_refused', `The install id ${installId} or its key belongs to another member; ` +
        'run: svc members remove on a member first, if that one is gone.', { why: 'taken' })
    }
    if (known === undefined) {
      if (members.size >= MAX_MEMBERS) {
        throw kernelError('join_refused', `The cluster has ${members.size} members, the maximum is ` +
          `${MAX_MEMBERS}; run svc members remove for one that is gone.`, { why: 'full' })
      }
      log.info({ installId, fingerprint, by: from }, 'a new member')
    } else if (from !== undefined && from !== installId) {
      return
    }
    const before = known ?? this.#options.members.find(installId)
    // The record of a known member keeps its admitter, whatever the new record contains.
    const by = before === undefined && from !== undefined ? this.#bounded(admitted, from) : before?.admitted
    commands.write(MEMBER + installId, {
      ...record, joinedAt: known?.joinedAt ?? record.joinedAt, ...by === undefined ? {} : { admitted: by }
    })
  }

  /** Limits an admission to the authorities that the admitting node may vouch for. */
  #bounded (admitted: Admission | undefined, node: string): Admission | undefined {
    const most = this.#options.members.find(node)?.admitted?.authorities
    if (most === undefined) return admitted && { ...admitted, node }
    const authorities = most.filter((one) => admitted?.authorities?.includes(one) !== false)
    return { node, by: admitted?.by ?? [], authorities }
  }

  #keep (record: MemberRecord): void {
    const { installId } = record
    if (this.#options.control.get(REMOVED + installId) !== undefined) return
    if (!this.#inDocument().has(installId)) this.#put(record)
  }

  #remove (removed: Removed): void {
    this.#options.commands.write(MEMBER + removed.installId, undefined)
    this.#options.commands.write(REMOVED + removed.installId, removed)
  }

  /** Merges the lists of the document, the file and another node into the file, and drops removed members. */
  #spread (other?: Omit<MemberList, 'clusterId'>): void {
    const { members, log, onRemoved, broadcast } = this.#options
    const before = members.current()
    const next = union(before,
      [...this.#inDocument().values()], [...this.#removedInDocument().values()], other)
    if (JSON.stringify(next) === JSON.stringify(before)) return
    try {
      members.replace(next)
    } catch (err) {
      // Removals take effect anyway, the next change retries the write, and nodeHealth reports the disk.
      log.error({ err }, 'the list of members could not be written')
    }
    const left = before.members.filter(({ installId }) => members.find(installId) === undefined)
    for (const member of left) onRemoved(member)
    if (left.length > 0) broadcast(members.current())
  }
}

function sameRecord (a: MemberRecord, b: MemberRecord): boolean {
  return a.nodeId === b.nodeId && a.name === b.name && a.fingerprint === b.fingerprint &&
    a.addresses.join() === b.addresses.join()
}

/** Merges lists: the document has newer addresses, removals win, a key belongs to one member. Pure. */
export function union (
  file: MemberList, members: readonly (Member | MemberRecord)[], removed: readonly Removed[],
  other: Omit<MemberList, 'clusterId'> = { members: [], removed: [] }
): MemberList {
  const gone = new Map<string, Removed>()
  for (const value of [...removed, ...file.removed, ...other.removed]) {
    const record = readable(removedSchema, value)
    if (record === undefined || gone.has(record.installId) || gone.size >= MAX_REMOVED) continue
    gone.set(record.installId, record)
  }
  const removedKeys = new Set([...gone.values()].map((r) => r.fingerprint))
  const all = new Map<string, Member>()
  const keys = new Map<string, string>()
  const take = (value: unknown, newer: boolean): void => {
    const record = readable(memberSchema, value)
    if (record === undefined || gone.has(record.installId) || removedKeys.has(record.fingerprint)) return
    const known = all.get(record.installId)
    if (keys.get(record.fingerprint) !== known?.installId) return
    if (known === undefined ? all.size >= MAX_MEMBERS : !newer) return
    // Keep the known admission, because a master of the previous release drops it.
    const { admitted } = known ?? record
    all.set(record.installId, admitted === undefined ? record : { ...record, admitted })
    keys.set(record.fingerprint, record.installId)
  }
  for (const value of file.members) take(value, false)
  for (const value of members) take(value, true)
  for (const value of other.members) take(value, false)
  const byId = <T extends { installId: string }>(a: T, b: T): number => a.installId < b.installId ? -1 : 1
  return {
    clusterId: file.clusterId, members: [...all.values()].sort(byId),
    removed: [...gone.values()].sort(byId)
  }
}

/**
 * The voters after one step towards the members: adds a live member, since an absent one would only raise the
 * majority, or else removes a former member, but never the master. Null if nothing changes. Pure.
 */
export function nextVoters (
  voters: readonly string[], { members, live }: { members: readonly string[], live: readonly string[] },
  master: string
): string[] | null {
  const added = members.find((id) => !voters.includes(id) && live.includes(id))
  if (added !== undefined) return [...voters, added]
  const removed = voters.find((id) => !members.includes(id) && id !== master)
  return removed === undefined ? null : voters.filter((id) => id !== removed)
}
