import { join } from 'node:path'
import {
  kernelError, Listeners, type Channel, type Cluster, type Clock, type Logger, type NodeInfo
} from '../../kernel/cluster.js'
import { Channels, DroppedMessages } from './links/channels.js'
import { CommandRouter } from './commands.js'
import { Directory, type LinkedNode } from './members/directory.js'
import { ControlLog, type Position } from './log/log.js'
import { fileStore, memoryStore } from './log/snapshot.js'
import { Replicas } from './replicas/replicas.js'
import { DiskWatch } from './disk-watch.js'
import { ElectionDriver, readHardState, writeHardState } from './driver.js'
import { readMessage, type Leader } from './election/protocol.js'
import { Membership } from './members/membership.js'
import { createSections, type Sections } from './sections.js'
import { SessionView } from './session.js'
import type { FrameKind } from './links/frames.js'
import type { Status } from './election/core.js'
import type { Timing } from './election/timing.js'
import type { MemberList, MemberRecord, Applicant } from './members/member.js'
import type { QuorumSetting } from './election/rules.js'
import type { Links } from './links/links.js'
import type { Members } from './members/file.js'

export interface LinkPeer extends LinkedNode { readonly address: string, readonly rttMs: number | null }

/** The subset of Links that the cluster uses; a lone node has no links. */
export interface Transport extends Pick<Links, 'send' | 'broadcast' | 'request'> {
  peers (): readonly LinkPeer[]
  drop (installId: string): void
}

export interface ClusterOptions {
  node: NodeInfo, clock: Clock, log: Logger
  random: () => number
  quorum: QuorumSetting, timing: Timing
  /** Folder for the state files; null keeps the state in memory only. */
  folder: string | null
  members: Members
  /** True if this home has just joined and so has the member list but not the control document. */
  joining?: boolean
  /** Writes a test file to check the disk; called every other heartbeat. */
  diskWrites?: () => Promise<boolean>
  /** The record of this node, with its current addresses. */
  self: () => Applicant
  apiUrl: () => string | null
  transport: Transport
  emit: (kind: string, payload: Record<string, unknown>) => void
}

interface Digest {
  /** Node id, new at each process start. */
  readonly boot: string
  readonly observed: { readonly seq: number, readonly hash: string }
  readonly control: Position
}

const DIGEST_EVERY = 2

/** The cluster from this node's view. Inactive before `start`. */
export class ClusterCore {
  readonly dropped: DroppedMessages
  readonly service: Cluster
  readonly session: SessionView
  readonly sections: Sections
  readonly commands: CommandRouter
  readonly membership: Membership
  readonly directory: Directory
  readonly control: ControlLog
  readonly replicas: Replicas
  readonly #options: ClusterOptions
  readonly #driver: ElectionDriver
  readonly #channels: Channels
  readonly #digests: Channel<Digest>
  readonly #knownMembers: Channel<MemberList>
  /** Channel for announcing that this node is stopping; links that open later get the announcement too. */
  readonly #leaving: Channel<null>
  readonly #peerListeners: Listeners<{ installId: string, up: boolean }>
  #live: ReadonlySet<string> = new Set()
  /** The session in whose control document this node has recorded itself and the members that it knows. */
  #introduced: string | undefined
  readonly #evidence = new Map<string, string>()
  #stopTick: (() => void) | undefined
  #beats = 0
  readonly disk: DiskWatch

  /** Throws RangeError for a quorum setting that the number of voters does not allow. */
  constructor (options: ClusterOptions) {
    this.#options = options
    const { node, clock, log, transport, members, timing } = options
    const { installId } = node
    const majority = options.quorum !== 1
    this.#peerListeners = new Listeners(log)
    this.disk = new DiskWatch({
      clock, log, everyMs: 2 * timing.heartbeat, write: options.diskWrites,
      refused: () => { if (!this.#alone()) this.#driver.storageFailed() }
    })
    this.commands = new CommandRouter({
      clock, log, submit: async (id, payload) => await this.#driver.command(id, payload),
      quorumLost: () => this.#driver.status().quorum === 'lost'
    })
    this.control = new ControlLog({
      store: options.folder === null ? memoryStore : fileStore(join(options.folder, 'control.json')),
      durable: majority, execute: (payload, from) => this.commands.execute(payload, from),
      seed: (previous) => this.#seed(previous), clock, log, founders: this.#alone() ? [installId] : []
    })
    this.replicas = new Replicas({
      installId, nodeId: node.nodeId, send: (to, message) => transport.send(to, 'document', message),
      broadcast: (message) => { transport.broadcast('document', message) }, clock, log,
      diverged: (who) => { this.#diverged(who, 'observed') }
    })
    this.#driver = this.#openDriver(timing)
    this.membership = new Membership({
      members, control: this.control, commands: this.commands, driver: () => this.#driver, clock, log,
      self: () => ({ ...options.self(), nodeId: node.nodeId }),
      onRemoved: (gone) => { this.#gone(gone) },
      broadcast: (list) => { this.#knownMembers.broadcast(list) }
    })
    this.directory = new Directory({
      self: () => ({ installId, nodeId: node.nodeId, name: node.name, apiUrl: options.apiUrl() }),
      linked: () => transport.peers(), members: () => this.membership.records(),
      status: () => this.#driver.status(), clock, wokeAt: () => this.#driver.wokeAt
    })
    this.session = new SessionView(this.#driver, (id) => this.directory.nodeIdOf(id), installId, log)
    this.sections = createSections({
      self: node, control: this.control, replicas: this.replicas, commands: this.commands,
      masterNodeId: () => this.session.masterNodeId, log
    })
    this.dropped = new DroppedMessages(log)
    this.#channels = new Channels({
      send: (to, body) => transport.send(to, 'channel', body),
      broadcast: (body) => transport.broadcast('channel', body), dropped: this.dropped
    })
    this.#knownMembers = this.#channels.open<MemberList>('kernel.members', (_from, known) => {
      this.membership.merge(known)
    })
    this.#leaving = this.#channels.open<null>('kernel.leaving',
      (from) => { this.directory.markLeaving(from) })
    this.#digests = this.#channels.open<Digest>('kernel.digest',
      (from, digest) => { this.#compare(from, digest) })
    this.service = this.#openService()
    this.control.observe(() => { queueMicrotask(() => { void this.#introduce() }) })
  }

  start (): void {
    const { clock, timing } = this.#options
    this.#driver.start(this.#alone())
    const stops = [clock.every(timing.heartbeat, () => { this.#beat() }), this.disk.start()]
    this.#stopTick = () => { for (const stop of stops) stop() }
  }

  status (): Status { return this.#driver.status() }

  get storing (): boolean { return this.disk.writes && this.#driver.status().storing }

  /** See ElectionDriver.openStream. */
  openStream (id: string, end: () => void): () => void { return this.#driver.openStream(id, end) }

  up (peer: LinkPeer): void {
    this.directory.recordIdentity(peer)
    this.#evidence.delete(peer.installId)
    this.#driver.up(peer.installId)
    this.replicas.up(peer.installId)
    this.#knownMembers.send(peer.installId, this.#options.members.current())
    // When a link opens, the peer forgets that this node announced its stop, so announce it again.
    if (this.directory.isLeaving(this.#options.node.installId)) this.#leaving.send(peer.installId, null)
    this.#noteLive()
    this.#peerListeners.tell({ installId: peer.installId, up: true })
  }

  /** Called when the last link to the node has closed. */
  down (installId: string, reason: string): void {
    this.#driver.down(installId)
    this.replicas.down(installId)
    this.#evidence.set(installId, reason)
    this.#noteLive()
    this.#peerListeners.tell({ installId, up: false })
  }

  /** False for a frame that breaks the protocol, after which the caller closes the link. */
  frame (from: string, kind: Exclude<FrameKind, 'telemetry'>, body: unknown): boolean {
    this.recordContact(from)
    // Another version may send unknown election messages, so they are counted but do not close the link.
    if (kind === 'election') {
      // The peer's disk refuses writes. Nodes may share a disk, so test this node's disk now.
      if ((body as { durable?: unknown } | null)?.durable === false) void this.disk.check()
      if (this.#driver.receive(from, body) || readMessage(body) !== null) return true
      this.dropped.add(from, (body as { kind?: unknown } | null)?.kind ?? kind)
    } else if (kind === 'channel') return this.#channels.receive(from, body)
    else return this.replicas.receive(from, body) === 'ok'
    return true
  }

  recordContact (installId: string): void {
    this.directory.recordContact(installId)
    this.#driver.recordContact(installId)
  }

  leave (): void {
    this.directory.markLeaving(this.#options.node.installId)
    this.#leaving.broadcast(null)
  }

  resign (): void { this.#driver.resign() }

  stop (): void {
    this.#stopTick?.()
    this.#driver.stop()
    this.replicas.close()
    this.control.close()
  }

  #alone (): boolean {
    return this.#options.joining !== true && this.#options.members.current().members.length <= 1
  }

  #openDriver (timing: Timing): ElectionDriver {
    const { node, clock, random, transport, folder } = this.#options
    const path = folder === null ? null : join(folder, 'promise.json')
    return new ElectionDriver({
      id: node.installId,
      quorum: this.#options.quorum,
      timing: this.#alone() ? { ...timing, grace: 1 } : timing,
      stored: readHardState(path),
      // A lone node continues with a full disk, because no other node depends on its vote.
      persist: (record) => writeHardState(path, record) || this.#alone(),
      log: this.control,
      clock,
      random,
      send: (to, message, lazy) => { transport.send(to, 'election', message, lazy) },
      events: {
        sessionChanged: (next, previous) => { this.#sessionChanged(next, previous) },
        becameMaster: (leader) => {
          this.#emitSession('MasterElected', leader)
          this.#noteLive()
        },
        staleRefused: ({ sid, term, master }, voted) => {
          this.#emitNode('StaleDirectiveRefused', node.installId, {
            masterNodeId: this.directory.nodeIdOf(master) ?? master, sessionId: sid, term,
            promisedTerm: voted.term
          })
        },
        storageChanged: (storing) => {
          if (!storing) this.#options.log.error({}, 'the disk refuses votes: this node cannot be master')
          this.disk.changed.tell()
        }
      }
    })
  }

  #sessionChanged (next: Leader | null, previous: Leader | null): void {
    this.session.changed(next)
    if (next === null || next.sid === previous?.sid) return
    if (next.master === this.#options.node.installId) this.#emitSession('SessionChanged', next)
    // Followers track live nodes too, because they must report losses when they become master.
    else this.#noteLive()
    void this.#introduce()
  }

  /** Records this node's new addresses in the control document, if there is a master. */
  async moved (): Promise<void> {
    this.#introduced = undefined
    await this.#introduce()
  }

  /** Records this node and its known members in the control document, once per session. */
  async #introduce (): Promise<void> {
    const sid = this.#driver.leader?.sid
    if (sid === undefined || sid === this.#introduced || sid !== this.control.position().sid) return
    this.#introduced = sid
    await this.membership.introduce().catch((err: unknown) => {
      if (this.#introduced === sid) this.#introduced = undefined
      this.#options.log.warn({ err }, 'this node could not enter its record; the next heartbeat retries')
    })
  }

  #emitSession (kind: 'MasterElected' | 'SessionChanged', { sid, term }: Leader): void {
    const before = this.session.before
    this.#options.emit(kind, {
      sessionId: sid, term, masterNodeId: this.#options.node.nodeId,
      ...(kind === 'SessionChanged' ? { previousSessionId: before } : {})
    })
  }

  #seed (previous: ReadonlyMap<string, unknown>): Map<string, unknown> {
    const next = new Map([...previous].filter(([key]) => this.sections.carried(key)))
    this.membership.seed(next)
    return next
  }

  #beat (): void {
    // The heartbeat is a lazy frame: it shares one write with the digest and the readings. See Link.send.
    this.#driver.beat()
    if (this.#beats++ % DIGEST_EVERY === 0) {
      const { nodeId: boot } = this.#options.node
      this.#digests.broadcast({ boot, observed: this.replicas.digest(), control: this.control.position() })
    }
    void this.#introduce()
    this.#noteLive()
    this.membership.alignVoters().catch((err: unknown) => {
      this.#options.log.warn({ err }, 'the voters could not be changed; the next heartbeat retries')
    })
  }

  /** Reloads a document whose hash differs from a peer's at the same position. */
  #compare (from: string, { boot, observed, control: theirs }: Digest): void {
    this.replicas.compare(from, { boot, ...observed })
    if (from !== this.#driver.leader?.master) return
    const mine = this.control.position()
    const same = (['sid', 'term', 'seq', 'gen'] as const).every((field) => mine[field] === theirs[field])
    if (!same || mine.hash === theirs.hash || mine.sid === null) return
    this.control.invalidate()
    this.#options.transport.send(from, 'election', { kind: 'need', sid: mine.sid })
    this.#diverged(from, 'control')
  }

  /**
   * The master emits NodeJoined and NodeTimedOut. A new master also reports the changes since the previous
   * master, and that master's loss. After a suspension, links get time to reconnect.
   */
  #noteLive (): void {
    const before = this.#live
    const live = new Set(this.directory.nodes().filter((n) => n.live && !n.self).map((n) => n.installId))
    const { isMaster, isWaking, leader } = this.#driver
    if (isWaking) for (const id of before) live.add(id)
    if (isMaster || (leader !== null && live.has(leader.master))) this.#live = live
    if (!isMaster) return
    for (const id of live) if (!before.has(id)) this.#emitNode('NodeJoined', id, {})
    for (const id of before) {
      if (live.has(id) || this.#options.members.find(id) === undefined) continue
      const evidence = this.#evidence.get(id) ?? 'silent for three heartbeats'
      this.#emitNode('NodeTimedOut', id, { evidence })
    }
  }

  #emitNode (kind: string, installId: string, more: Record<string, unknown>): void {
    this.#options.emit(kind, { nodeId: this.directory.nodeIdOf(installId) ?? installId, ...more })
  }

  /** Reports a peer whose link was closed because it broke the protocol. */
  violation (installId: string, reason: string): void {
    this.#emitNode('ProtocolViolation', installId, { reason })
  }

  #diverged (who: string, document: string): void { this.#emitNode('StateDiverged', who, { document }) }

  #gone ({ installId, name }: Pick<MemberRecord, 'installId' | 'name'>): void {
    if (this.#driver.isMaster) this.#emitNode('NodeRemoved', installId, { name })
    this.#options.transport.drop(installId)
    this.#driver.forget(installId)
    this.dropped.forget(installId)
    this.#evidence.delete(installId)
    this.replicas.drop(installId)
    this.directory.forget(installId)
  }

  #openService (): Cluster {
    const { node, transport } = this.#options
    const driver = this.#driver
    return {
      self: { installId: node.installId, nodeId: node.nodeId },
      get masterInstallId () { return driver.leader?.master ?? null },
      nodes: () => this.directory.nodes(),
      resolve: (ref) => this.directory.resolve(ref),
      admittedBy: (id) => this.#options.members.current().members
        .filter(({ admitted }) => admitted?.node === id || admitted?.by.includes(id))
        .map(({ installId, name }) => ({ installId, name })),
      channel: (name, receive) => this.#channels.open(name, receive),
      onPeers: (fn) => this.#peerListeners.add(fn),
      lives: (nodeId) => {
        const there = transport.peers().find((peer) => peer.nodeId === nodeId)
        if (there !== undefined) this.recordContact(there.installId)
      },
      request: async (installId, request) => {
        if (installId === node.installId) throw kernelError('internal', 'A node cannot ask itself.')
        return await transport.request(installId, request)
      }
    }
  }
}
