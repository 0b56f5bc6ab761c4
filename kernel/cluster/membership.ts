import { kernelError } from '../errors.js'
import type { Clock } from '../clock.js'
import type { Logger } from '../define.js'
import type { CommandDesk } from './desk.js'
import type { Control } from './documents/index.js'
import type { ElectionDriver } from './driver.js'
import type { Candidate, Member, Members, Membership, Removed } from './identity/index.js'

/** A member as the control document has it. */
export interface MemberRecord extends Member {
  /** Id of its present start; null before its first one in this cluster. */
  readonly nodeId: string | null
}

const MEMBER = 'member/'
const REMOVED = 'removed/'
const CLUSTER = 'cluster/id'

/** `put`: a node about itself, or a new one. `keep`: what a node knows of others, where nothing is known. */
export const memberCommands = {
  put: 'kernel.member-put', keep: 'kernel.member-keep', remove: 'kernel.member-remove'
} as const

export interface MembershipOptions {
  members: Members
  control: Control
  desk: CommandDesk
  driver: () => ElectionDriver
  /** This node as it is now. */
  self: () => Candidate & { nodeId: string }
  clock: Clock
  log: Logger
  /** A node was removed: nothing of it is kept. */
  gone: (installId: string) => void
}

/**
 * Who belongs to the cluster. The list only grows, and what is removed stays removed, so that lists which two
 * halves changed apart can be put together without asking which is newer. The control document spreads it;
 * every node keeps a copy in its home, by which links are judged before there is any document.
 */
export class MembershipKeeper {
  readonly #options: MembershipOptions
  #aligning = false

  constructor (options: MembershipOptions) {
    this.#options = options
    const { desk, control } = options
    desk.handle(memberCommands.put, (args) => { this.#put(args as MemberRecord) })
    desk.handle(memberCommands.keep, (args) => { this.#keep(args as MemberRecord) })
    desk.handle(memberCommands.remove, (args) => { this.#remove(args as Removed) })
    control.observe((keys) => {
      if ([...keys].some((key) => key.startsWith(MEMBER) || key.startsWith(REMOVED))) {
        queueMicrotask(() => { this.#spread() })
      }
    })
  }

  /** Members as this node knows them. */
  records (): MemberRecord[] {
    const inDocument = this.#inDocument()
    return this.#options.members.current().members.map((member) =>
      inDocument.get(member.installId) ?? { ...member, nodeId: null })
  }

  /** What the first document of a session says about the members, when it says nothing yet. */
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

  /** Takes a new member into the cluster; resolves once the cluster holds it. */
  async admit (candidate: Candidate): Promise<Membership> {
    const joinedAt = new Date(this.#options.clock.now()).toISOString()
    await this.#options.desk.run(memberCommands.put, { ...candidate, joinedAt, nodeId: null })
    this.#spread()
    return this.#options.members.current()
  }

  /** Removes a member for good. Throws `node_not_found` and `member_self`. */
  async remove (installId: string): Promise<void> {
    const member = this.#options.members.find(installId)
    if (member === undefined) throw kernelError('node_not_found', `No member ${installId} is known.`)
    if (installId === this.#options.self().installId) throw kernelError('member_self')
    const at = new Date(this.#options.clock.now()).toISOString()
    const { fingerprint } = member
    await this.#options.desk.run(memberCommands.remove, { installId, fingerprint, at } satisfies Removed)
    this.#spread()
  }

  /**
   * A session began: what this node knows and the document does not is entered. The document may still be
   * on its way, so that the master decides what is news.
   */
  async introduce (): Promise<void> {
    const { desk, members, self } = this.#options
    const inDocument = this.#inDocument()
    const gone = this.#removedInDocument()
    const own = self()
    const known = members.current()
    for (const removed of known.removed) {
      if (!gone.has(removed.installId)) await desk.run(memberCommands.remove, removed)
    }
    for (const member of known.members) {
      if (member.installId === own.installId || inDocument.has(member.installId)) continue
      if (!gone.has(member.installId)) await desk.run(memberCommands.keep, { ...member, nodeId: null })
    }
    const mine = { ...members.find(own.installId)!, ...own }
    const said = inDocument.get(own.installId)
    if (said === undefined || !sameRecord(said, mine)) await desk.run(memberCommands.put, mine)
  }

  /**
   * Takes over what another member knows, whatever session either is in: two halves whose masters refuse each
   * other would never meet else. Throws what the members file throws for nonsense.
   */
  merge (other: Membership): void {
    if (other.clusterId === this.#options.members.current().clusterId) this.#spread(other)
  }

  /**
   * Brings the voters one step nearer to the members; called on the master from time to time. Also where one
   * node decides alone, so that a majority can be asked for later.
   */
  async alignVoters (): Promise<void> {
    const { driver, control } = this.#options
    if (this.#aligning || !driver().isMaster) return
    const { liveNodes } = driver().status()
    const members = [...this.#inDocument().keys()]
    const next = nextVoters(control.voters(), { members, live: liveNodes }, driver().leader!.master)
    if (next === null) return
    this.#aligning = true
    try {
      await driver().changeVoters(`voters:${driver().leader?.sid ?? ''}:${control.fresh().seq}`, next)
    } finally {
      this.#aligning = false
    }
  }

  #inDocument (): Map<string, MemberRecord> {
    return new Map(this.#values<MemberRecord>(MEMBER).map((record) => [record.installId, record]))
  }

  #removedInDocument (): Map<string, Removed> {
    return new Map(this.#values<Removed>(REMOVED).map((record) => [record.installId, record]))
  }

  #values<T> (prefix: string): T[] {
    return [...this.#options.control.entries()].flatMap(([key, value]) =>
      key.startsWith(prefix) ? [value as T] : [])
  }

  #put (record: MemberRecord): void {
    if (this.#options.control.get(REMOVED + record.installId) !== undefined) {
      throw kernelError('join_refused', 'This node was removed from the cluster for good; ' +
        'give it a fresh home to join again.')
    }
    const known = this.#options.control.get(MEMBER + record.installId) as MemberRecord | undefined
    const joinedAt = known?.joinedAt ?? record.joinedAt
    this.#options.desk.write(MEMBER + record.installId, { ...record, joinedAt })
  }

  #keep (record: MemberRecord): void {
    const { control } = this.#options
    const said = control.get(MEMBER + record.installId) ?? control.get(REMOVED + record.installId)
    if (said === undefined) this.#put(record)
  }

  #remove (removed: Removed): void {
    this.#options.desk.write(MEMBER + removed.installId, undefined)
    this.#options.desk.write(REMOVED + removed.installId, removed)
  }

  /** Puts the document's list and the file's together, and another node's, and drops who is removed. */
  #spread (other?: Membership): void {
    const { members, log } = this.#options
    const before = members.current()
    const own = union(before, [...this.#inDocument().values()], [...this.#removedInDocument().values()])
    const next = other === undefined ? own : union(other, own.members, own.removed)
    if (JSON.stringify(next) === JSON.stringify(before)) return
    try {
      members.replace(next)
    } catch (err) {
      // The list in force goes on; the next change tries again, and nodeHealth tells of the disk.
      log.error({ err }, 'the list of members could not be written')
      return
    }
    const left = new Set(next.members.map((m) => m.installId))
    for (const { installId } of before.members) if (!left.has(installId)) this.#options.gone(installId)
  }
}

function sameRecord (a: MemberRecord, b: MemberRecord): boolean {
  return a.nodeId === b.nodeId && a.name === b.name && a.fingerprint === b.fingerprint &&
    a.addresses.join() === b.addresses.join()
}

/** The lists of a file and a document together: the document knows newer addresses, removal wins. Pure. */
export function union (
  file: Membership, members: readonly (Member | MemberRecord)[], removed: readonly Removed[]
): Membership {
  const out = new Map([...file.removed, ...removed].map((r) => [r.installId, r]))
  const all = new Map<string, Member>(file.members.map((m) => [m.installId, m]))
  for (const { nodeId: _, ...member } of members as readonly MemberRecord[]) all.set(member.installId, member)
  const byId = <T extends { installId: string }>(a: T, b: T): number => a.installId < b.installId ? -1 : 1
  return {
    clusterId: file.clusterId,
    members: [...all.values()].filter((m) => !out.has(m.installId)).sort(byId),
    removed: [...out.values()].sort(byId)
  }
}

/**
 * The next list of voters on the way to the members: one node is added, or one removed, never the master
 * itself. A node gets its vote once it is there: one that is still on its way would only be missed. Null when
 * nothing is to be done. Pure.
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
