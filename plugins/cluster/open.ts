import { randomInt } from 'node:crypto'
import { rmSync } from 'node:fs'
import { join as joinPath } from 'node:path'
import {
  BootError, COPIED_HOME_REMEDY, kernelError, openNodeKey, tryWrite, writeVersioned, type Audit,
  type ClusterHost, type ClusterOpening, type DialReport, type LinkReport, type NodeKey, type SvcError
} from '../../kernel/cluster.js'
import { ClusterCore, type LinkPeer } from './cluster.js'
import { NO_VOTE } from './election/hard-state.js'
import { clusterTiming } from './election/timing.js'
import { Gossip } from './gossip.js'
import {
  addressesOf, ANY_IPV4, isRemote, mayOpen, readAddress, type BindAddress
} from './identity/addresses.js'
import { JoinTokens, readJoinToken, type Maker } from './identity/join-tokens.js'
import { join } from './identity/join.js'
import { Bandwidth } from './links/bandwidth.js'
import { PROTOCOL } from './links/frames.js'
import { createDiscovery } from './links/discovery.js'
import { Links, type LinkEvents } from './links/links.js'
import { openMembers, type Members } from './members/file.js'
import { MAX_ADMITTING_CREDENTIALS, type Applicant } from './members/member.js'
import type { QuorumSetting } from './election/rules.js'
import type { Peer } from './links/link.js'

/** A node stops if a member refuses it as a copied home within this many ms after its start. */
const YOUNG_MS = 60_000

type Handler = Parameters<ClusterHost['start']>[0]

export class NodeLinks {
  readonly members: Members
  readonly joinTokens: JoinTokens
  readonly gossip: Gossip
  readonly #options: ClusterOpening
  /** This node's key; never logged, never sent. */
  readonly key: NodeKey
  readonly #bound: BindAddress
  readonly #links: Links
  readonly #bandwidth: Bandwidth
  joined = false
  /** Undefined until a join is complete, although members may already link with this node. */
  #cluster: ClusterCore | undefined
  /** True for a node without other members, which starts its election in `open`. */
  #alone = false
  /** Undefined until the API is listening. */
  #handler: Handler | undefined
  #audit: (() => Audit | undefined) | undefined
  #discovery: { stop (): Promise<void> } | undefined
  #stopWatching = (): void => {}
  readonly #startedMs: number

  /**
   * Listens for members, and joins a cluster if requested. A node without other members resolves as master;
   * others elect one after `start`. Throws HomeError, BootError (quorum), listener errors, `join_refused` and
   * `unreachable`.
   */
  static async open (options: ClusterOpening): Promise<NodeLinks> {
    const { node } = options
    const made = new NodeLinks(options, await openNodeKey(node.home, node.installId))
    try {
      await made.#listen()
      made.joined = await made.#join()
      made.#begin(made.joined)
      return made
    } catch (error) {
      await made.#links.close()
      throw error
    }
  }

  private constructor (options: ClusterOpening, key: NodeKey) {
    const { node, settings, api, clock, log, stands } = options
    this.#options = options
    this.#startedMs = clock.mono()
    this.key = key
    this.#bound = { host: settings.host ?? api.host, port: 0 }
    this.members = openMembers({ home: node.home, self: this.#self(), now: clock.now })
    this.joinTokens = new JoinTokens({ home: node.home, now: clock.now, mono: clock.mono, stands })
    this.gossip = new Gossip({
      clock, log, enabled: options.gossip, sample: options.vitals, periodMs: settings.heartbeat_ms,
      publish: (body) => ({
        peers: this.#links.broadcast('telemetry', body), bytes: JSON.stringify(body).length
      })
    })
    this.#links = new Links({
      key, members: this.members, joinTokens: this.joinTokens, clock, log,
      random: randomShare,
      hello: () => ({
        installId: node.installId, nodeId: node.nodeId, name: node.name, version: node.version,
        clusterId: this.members.current().clusterId, apiUrl: options.apiUrl(),
        address: this.#self().addresses[0] ?? null, protocol: PROTOCOL, quorum: this.quorum
      }),
      events: this.#linkEvents(),
      api: (request, response) => {
        if (this.#handler === undefined) response.writeHead(503).end()
        else this.#handler(request, response)
      },
      audit: () => this.#audit?.(),
      mayAdmit: () => { this.#mayAdmit() },
      admit: async (candidate, { by, authorities }) => await this.cluster.membership.admit(candidate,
        { by: options.makers(by).slice(-MAX_ADMITTING_CREDENTIALS),
          ...authorities === undefined ? {} : { authorities } })
    })
    this.#bandwidth = new Bandwidth({
      self: node.installId, clock, random: randomShare,
      request: async (to, request) => await this.#links.request(to, request)
    })
  }

  get cluster (): ClusterCore { return this.#cluster! }

  start (handler: Handler, audit: () => Audit | undefined): void {
    const { settings, node, log, emit } = this.#options
    this.#handler = handler
    this.#audit = audit
    if (!this.#alone) this.cluster.start()
    this.#links.start()
    for (const address of settings.peers) this.#links.hint(address)
    this.gossip.start()
    if (this.members.current().members.length === 1) emit('NodeJoined', { nodeId: node.nodeId })
    if (!settings.discovery) return
    this.#discovery = createDiscovery({
      port: this.#bound.port, ipv6: this.#bound.host.includes(':'), log, installId: node.installId,
      clusterHash: this.members.current().clusterId, found: (address) => { this.#links.hint(address) }
    })
  }

  async stop (): Promise<void> {
    this.#stopWatching()
    this.cluster.resign()
    this.gossip.close()
    this.#bandwidth.close()
    await this.#discovery?.stop()
    await this.#links.close()
    this.cluster.stop()
  }

  peers (): readonly (LinkPeer & Pick<Peer, 'version' | 'quorum'>)[] { return this.#links.peers() }

  dials (): readonly DialReport[] { return this.#links.dials() }

  links (): readonly LinkReport[] {
    return this.#links.peers().map(({ installId, framesIn, framesOut, bytesIn, bytesOut, buffered }) => ({
      installId, framesIn, framesOut, bytesIn, bytesOut, buffered,
      dropped: [...this.cluster.dropped.of(installId).values()].reduce((a, b) => a + b, 0)
    }))
  }

  get quorum (): string { return String(this.#options.settings.quorum ?? 1) }
  copies (): readonly string[] { return this.#links.copies.list() }

  addresses (): readonly string[] { return this.#bound.port === 0 ? [] : this.#self().addresses }
  bytesPerSecond (installId: string): number | null { return this.#bandwidth.bytesPerSecond(installId) }

  /** Creates a join token with this node's addresses as seeds, for a caller that may admit members. */
  invite (ttlSeconds: number, maker: Maker): { token: string, expires: string } {
    return this.joinTokens.create({
      ttlSeconds, ...maker, clusterId: this.members.current().clusterId,
      fingerprint: this.key.fingerprint, seeds: this.#self().addresses
    })
  }

  /**
   * Opens the members' listener on every address, unless svc.yaml sets one. Announces the new addresses
   * before it resolves, because a new member dials the others. Throws `loopback_only`.
   */
  async openOutside (): Promise<void> {
    const { settings, log } = this.#options
    if (!mayOpen(this.#bound, settings.host)) return
    const { host, port } = this.#bound
    this.#bound.host = ANY_IPV4
    try {
      await this.#links.listen({ host: ANY_IPV4, port })
    } catch (error) {
      this.#bound.host = host
      throw kernelError('loopback_only', `This node listens for members on ${host}:${port} only, and ` +
        `cannot listen on ${ANY_IPV4}:${port}: ${(error as Error).message}.`,
      { addresses: [`${host}:${port}`] })
    }
    log.info({ host: ANY_IPV4, port }, 'the members\' listener is open on every address, for other machines')
    await this.#cluster?.moved()
  }

  async #listen (): Promise<void> {
    const { settings, api } = this.#options
    if (mayOpen(this.#bound, settings.host) && this.#awaitsOthers()) this.#bound.host = ANY_IPV4
    const port = settings.port ?? (api.port === 0 ? 0 : api.port + 1)
    const { host } = this.#bound
    const at = await this.#links.listen({ host, port: port === 0 ? this.#lastPort() : port })
      .catch(async (error: NodeJS.ErrnoException) => {
        if (port === 0 && error.code === 'EADDRINUSE') return await this.#links.listen({ host, port })
        throw Object.assign(error, { setting: 'cluster.port' })
      })
    Object.assign(this.#bound, at)
  }

  /** The port that members recorded for this node, so that they find it again after a restart; else 0. */
  #lastPort (): number {
    const { node: { installId }, settings } = this.#options
    const [last = ''] = settings.advertise === undefined ? this.members.find(installId)?.addresses ?? [] : []
    return readAddress(last)?.port ?? 0
  }

  /** Joins if a token is given and this node is not a member yet; resolves to whether it joined. */
  async #join (): Promise<boolean> {
    const { join: to, clock, node } = this.#options
    if (to === undefined) return false
    if (readAddress(to) !== undefined) {
      if (this.members.current().members.length <= 1) {
        throw kernelError('join_refused', `This home belongs to no cluster yet, so ${to} would not ` +
          'know it: run `svc join-token` on a member and start with --join TOKEN.', { why: 'no_member' })
      }
      this.#links.hint(to)
      return false
    }
    const asks = { key: this.key, self: this.#self(), clock }
    // A unit file may contain the token, so a later start with the expired token is not an error.
    const known = readJoinToken(to, 0)
    if (this.members.current().clusterId === known.clusterId) {
      if (known.exp > clock.now()) await join({ ...asks, ticket: known, patienceMs: 0 }).catch(unlessRemoved)
      return false
    }
    const membership = await join({ ...asks, ticket: readJoinToken(to, clock.now()) })
    // This node's control data and votes belong to its former cluster of one.
    rmSync(joinPath(node.home, 'state', 'control.json'), { force: true })
    // Write an empty vote: without this file, a home with several members counts as having lost its votes.
    writeVersioned(joinPath(node.home, 'state', 'promise.json'), 1, NO_VOTE)
    this.members.replace(membership)
    return true
  }

  /** Creates the cluster over the links. Throws BootError for an invalid quorum or invalid timings. */
  #begin (joining: boolean): void {
    const { node, clock, log, settings, apiUrl, emit } = this.#options
    try {
      this.#cluster = new ClusterCore({
        node, clock, log, members: this.members, joining, self: () => this.#self(), apiUrl, emit,
        random: randomShare, quorum: settings.quorum as QuorumSetting, timing: clusterTiming(settings),
        folder: joinPath(node.home, 'state'),
        diskWrites: () => tryWrite(joinPath(node.home, 'state'), 1).then(() => true, () => false),
        transport: this.#links
      })
    } catch (error) {
      throw error instanceof RangeError ? new BootError([error.message]) : error
    }
    // Pass on the links that opened before the cluster existed.
    for (const peer of this.peers()) this.#cluster.up(peer)
    this.#alone = !joining && this.members.current().members.length <= 1
    if (this.#alone) this.#cluster.start()
    const letOthersIn = (): void => {
      if (!this.#awaitsOthers()) return
      this.openOutside().catch((err: unknown) => {
        log.error({ err }, 'members on other machines cannot reach this node')
      })
    }
    letOthersIn()
    this.#stopWatching = this.members.onChange(letOthersIn)
  }

  #linkEvents (): LinkEvents {
    return {
      up: (peer) => {
        this.#cluster?.up(peer)
        this.#bandwidth.up(peer.installId)
      },
      down: (installId, reason) => {
        this.gossip.forget(installId)
        this.#bandwidth.down(installId)
        this.#cluster?.down(installId, reason)
      },
      frame: (from, kind, body) => {
        if (kind === 'telemetry') {
          this.#cluster?.recordContact(from)
          const wrong = this.gossip.receive(from, body)
          if (wrong !== null) this.#cluster?.dropped.add(from, kind, wrong)
        } else if (this.#cluster?.frame(from, kind, body) === false) {
          this.#links.drop(from, 'off_protocol')
        }
      },
      copied: (address, known) => { this.#isCopied(address, known) },
      violation: (installId, reason) => { this.#cluster?.violation(installId, reason) }
    }
  }

  /** Another process has this node's key. If this node has just started, it is the copy and stops. */
  #isCopied (address: string, known: string): void {
    const { node, clock, refused } = this.#options
    const text = `A process at ${known} has the key of this node and is linked with the member at ` +
      `${address}; this one is at ${this.addresses().join(', ')}.`
    this.#links.copies.add(node.installId, text)
    if (clock.mono() - this.#startedMs < YOUNG_MS) {
      refused(kernelError('join_refused', `${text} ${COPIED_HOME_REMEDY}`, { why: 'copied' }))
    }
  }

  /** Throws `no_master` or `no_quorum` while the cluster cannot decide. */
  #mayAdmit (): void {
    const status = this.#cluster?.status()
    if (status?.quorum === 'lost') throw kernelError('no_quorum')
    // Until the API is listening, joins cannot be audited.
    if (status === undefined || status.stale || this.#handler === undefined) throw kernelError('no_master')
  }

  #awaitsOthers (): boolean {
    const { node: { installId }, join } = this.#options
    return needsRemoteListener({ members: this.members, joinTokens: this.joinTokens, installId, join })
  }

  #self (): Applicant {
    const { node: { installId, name }, settings } = this.#options
    const addresses = addressesOf(this.#bound, settings.advertise)
    return { installId, fingerprint: this.key.fingerprint, name, addresses }
  }
}

/** A member may start with a refused token, unless the reason is that it was removed. */
function unlessRemoved (error: SvcError): void { if (error.details['why'] === 'removed') throw error }

function randomShare (): number { return randomInt(2 ** 32) / 2 ** 32 }

export interface Awaited {
  members: Pick<Members, 'current'>
  joinTokens: Pick<JoinTokens, 'awaitsRemote'>
  installId: string
  join: string | undefined
}

/** Whether a remote member, join token or inviter needs the listener. Throws `invalid_request`. */
export function needsRemoteListener ({ members, joinTokens, installId, join }: Awaited): boolean {
  const seedsOf = (text: string): readonly string[] =>
    readAddress(text) === undefined ? readJoinToken(text, 0).seeds : [text]
  const joins = join !== undefined && seedsOf(join).some(isRemote)
  return joins || joinTokens.awaitsRemote || members.current().members.some((member) =>
    member.installId !== installId && member.addresses.some(isRemote))
}
