import {
  backoffMs, type DialReport, type MemberRequest, type MemberResponse
} from '../../../kernel/cluster.js'
import { formatAddress, readAddress } from '../identity/addresses.js'
import { CopiedHomes } from './copied-homes.js'
import { Dialler, connectMember, upgrade, type Target } from './dialler.js'
import {
  closeCodes, encodeFrame, VIOLATIONS, type CloseReason, type FrameKind, type Greeting, type Hello
} from './frames.js'
import { defaultLimits, type LinkLimits } from './limits.js'
import { Link, type LinkHooks, type LinkOptions, type Peer, type LinkPriority } from './link.js'
import { createListener, type ListenerOptions } from './listener.js'
import { Requests } from './requests.js'
import type { WebSocket } from 'ws'
import type { Member } from '../members/member.js'

export interface LinkEvents {
  /** Called when the first link to a member is up, after both hellos. */
  up (peer: Peer): void
  down (installId: string, reason: string): void
  frame (installId: string, kind: FrameKind, body: unknown): void
  /** A member at `address` refused this node as a copy, because `known` is linked with the same key. */
  copied (address: string, known: string): void
  /** Called once per back-off when a member breaks the protocol; `reason` is the name of the close code. */
  violation (installId: string, reason: string): void
}

interface Known {
  /** All links that may still carry frames, greeted or not. */
  open: Set<Link>
  current: Link | undefined
  /** Node id last passed to `events.up`; null before that and after `events.down`. */
  announced: string | null
}

export interface LinksOptions extends Omit<ListenerOptions, 'accept' | 'limits'> {
  hello: () => Hello
  /** Uniform in [0, 1). */
  random: () => number
  events: LinkEvents
  limits?: Partial<LinkLimits>
}

/** A node's links: one per member, whichever end dialled. `listen` and `start` may come in either order. */
export class Links {
  readonly copies: CopiedHomes
  /** Members with an open link or a pending `events.down`. */
  readonly #members = new Map<string, Known>()
  readonly #dialler: Dialler
  readonly #requests: Requests
  readonly #options: LinksOptions
  readonly #limits: LinkLimits
  readonly #hooks: LinkHooks
  /** Members in back-off after breaking the protocol `times` times in a row, until `until` (monotonic ms). */
  readonly #backOffs = new Map<string, { until: number, times: number }>()
  #listener: ReturnType<typeof createListener> | undefined
  #serial = 0
  #encoded: { kind: FrameKind, body: unknown, frame: Uint8Array } | undefined
  #stop: (() => void)[] = []
  #closed = false

  constructor (options: LinksOptions) {
    const { key, members, clock, random } = options
    this.#options = options
    this.copies = new CopiedHomes(options)
    const limits = this.#limits = { ...defaultLimits, ...options.limits }
    const self = key.installId
    this.#dialler = new Dialler({
      clock, limits, random,
      members: () => members.current().members.filter(({ installId }) => installId !== self),
      linked: (installId) => this.#current(installId) !== undefined,
      attempt: (target, signal) => this.#attempt(target, signal)
    })
    this.#requests = new Requests({
      key, clock, limits, member: (installId) => members.find(installId),
      addresses: (installId) => this.#addresses(installId)
    })
    this.#hooks = this.#linkHooks()
    this.#stop.push(members.onChange(() => { this.#membersChanged() }))
    this.#stop.push(clock.every(limits.pingMs, () => {
      for (const link of this.#currents()) link.tick()
    }))
  }

  /** Opens or moves the members' listener. Rejects with Node's error; an open one then stays as it was. */
  async listen (at: { host: string, port: number }): Promise<{ host: string, port: number }> {
    this.#listener ??= createListener({
      ...this.#options,
      limits: this.#limits,
      accept: (ws, socket, member) => {
        if (this.#inBackOff(member.installId)) {
          ws.on('error', () => {}).close(closeCodes.too_soon, 'too_soon')
          return
        }
        const address = formatAddress(socket.remoteAddress ?? '', socket.remotePort ?? 0)
        this.#adopt(ws, member, { socket, outgoing: false, address })
      }
    })
    return await (await this.#listener).listen(at)
  }

  start (): void { this.#dialler.start() }

  /**
   * False if there is no link, the frame exceeds the limit, or too much is queued. Documents and channel
   * messages wait for the other end's credit; other frames bypass them. A full socket buffer closes the link
   * (4429). `lazy`: see Link.send.
   */
  send (to: string, kind: FrameKind, body: unknown, lazy = false): boolean {
    const link = this.#sendingLink(to)
    return link !== undefined && link.send(kind, this.#encode(kind, body), lazy)
  }

  /** Encodes once; returns the number of peers it was sent to. */
  broadcast (kind: FrameKind, body: unknown): number {
    const links = this.#currents()
    if (links.length === 0) return 0
    const frame = this.#encode(kind, body)
    return links.reduce((sent, link) => sent + (link.send(kind, frame) ? 1 : 0), 0)
  }

  peers (): Peer[] { return this.#currents().map((link) => link.describe()) }
  dials (): readonly DialReport[] { return this.#dialler.dials() }

  /** Adds an address (host:port) to dial; any member's key is accepted there. Ignores invalid addresses. */
  hint (address: string): void { this.#dialler.hint(address) }

  /**
   * Sends one HTTP request to a member. Throws SvcError `unreachable` (no address answers, the connection
   * broke), `timeout` (no response head in time), `cancelled` (by `signal`).
   */
  async request (installId: string, request: MemberRequest): Promise<MemberResponse> {
    return await this.#requests.request(installId, request)
  }

  drop (installId: string, word: CloseReason = 'not_member'): void {
    for (const link of this.#open(installId)) link.end(word)
    this.#requests.drop(installId)
    void this.#listener?.then((listener) => { listener.dropRequests(installId) })
  }

  async close (): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    for (const stop of this.#stop) stop()
    this.#dialler.close()
    this.#requests.close()
    const links = this.#all()
    const gone = links.map((link) => link.gone)
    for (const link of links) link.end('stopping')
    await Promise.all(gone)
    await (await this.#listener)?.close()
  }

  /** Caches the last frame, because the same body is often sent to several peers. */
  #encode (kind: FrameKind, body: unknown): Uint8Array {
    const last = this.#encoded
    if (last !== undefined && last.body === body && last.kind === kind) return last.frame
    const frame = encodeFrame(kind, body)
    this.#encoded = { kind, body, frame }
    if (frame.byteLength > this.#limits.frameBytes) {
      const { byteLength: bytes } = frame
      this.#options.log.error({ kind, bytes, limit: this.#limits.frameBytes }, 'a frame is too large to send')
    }
    return frame
  }

  /** One dial, up to the other end's hello; see DiallerOptions.attempt. */
  async #attempt (target: Target, signal: AbortSignal): Promise<string> {
    const { key, members, clock } = this.#options
    const options = { key, members, clock, limits: this.#limits }
    const { socket, member } = await connectMember(target, options, signal)
    const { installId } = member
    // Never dial a second link to a member, since each end could then close a different one.
    const current = this.#current(installId)
    const mine = (link: Link): boolean => (link.outgoing && link.open) || link === current
    if (this.#inBackOff(installId)) {
      socket.on('error', () => {}).destroy()
      throw new Error('too_soon')
    }
    if (this.#open(installId).some(mine)) {
      socket.on('error', () => {}).destroy()
      return installId
    }
    await upgrade(socket, options, signal, async (ws) => {
      const link = this.#adopt(ws, member, { socket, outgoing: true, address: target.address })
      if (!link.open) throw new Error('not_member')
      await link.greeted
    })
    return installId
  }

  #adopt (ws: WebSocket, member: Member, from: Pick<LinkOptions, 'socket' | 'outgoing' | 'address'>): Link {
    const { hello, clock } = this.#options
    const { installId, fingerprint } = member
    const serial = ++this.#serial
    const alone = !this.#open(installId).some((other) => other.open)
    const link = new Link({
      ws, serial, installId, fingerprint, ...from, clock, greeting: { hello: hello(), serial, alone },
      limits: this.#limits, hooks: this.#hooks
    })
    this.#known(installId).open.add(link)
    // The member was removed, or got another key, during the handshake.
    if (this.#options.members.find(installId)?.fingerprint !== fingerprint) link.end('not_member')
    if (this.#closed) link.end('stopping')
    return link
  }

  #linkHooks (): LinkHooks {
    const { log, events } = this.#options
    return {
      greeted: (link, greeting) => this.#greeted(link, greeting),
      frame: (link, kind, body) => {
        try {
          events.frame(link.installId, kind, body)
        } catch (error) {
          log.error({ err: error, kind, from: link.installId }, 'a frame could not be handled')
        }
      },
      closed: (link, word, mine, detail) => {
        const { installId: peer, address } = link
        if (word === 'copied' && !mine) events.copied(link.listensAt, detail)
        log.info({ peer, address, reason: word, by: mine ? 'this node' : 'the other end' }, 'a link closed')
        if (mine && VIOLATIONS.has(word)) this.#startBackOff(peer, word)
        this.#linkClosed(link, word)
      }
    }
  }

  /** Handles the other end's hello: uses the link, or closes it in favour of a better one. */
  #greeted (link: Link, { hello }: Greeting): CloseReason | undefined {
    const { key, members } = this.#options
    if (hello.installId !== link.installId) return 'wrong_identity'
    if (hello.clusterId !== members.current().clusterId) return 'other_cluster'
    const state = this.#known(link.installId)
    const { current } = state
    const refused = current === undefined ? undefined : this.copies.refused(link, current)
    if (refused !== undefined || !link.open) return refused
    if (current !== undefined && !replaces(link.rival, current.rival, key.installId, link.installId)) {
      link.markReplaced()
      return undefined
    }
    this.#use(link, state)
    // Ignore frames in flight on the old link if it belongs to the member's earlier process.
    if (current?.rival.nodeId === hello.nodeId) current.markReplaced()
    else current?.end('duplicate')
    return undefined
  }

  #use (link: Link, state: Known): void {
    const { installId } = link
    const { nodeId } = link.greeting!.hello
    state.current = link
    if (state.announced !== null && state.announced !== nodeId) this.#down(installId, state, 'restarted')
    if (state.announced === null) {
      state.announced = nodeId
      this.#notify(() => { this.#options.events.up(link.describe()) })
    }
    this.#dialler.update()
  }

  #linkClosed (link: Link, word: string): void {
    const { installId } = link
    const state = this.#known(installId)
    state.open.delete(link)
    if (state.current === link) {
      state.current = undefined
      // A duplicate was closed in favour of another link: report `down` only if no link is left.
      if (word !== 'duplicate' || state.open.size === 0) this.#down(installId, state, word)
      this.#dialler.update()
    } else if (state.current === undefined && state.open.size === 0) {
      this.#down(installId, state, word)
    }
    if (state.open.size === 0 && state.announced === null) this.#members.delete(installId)
  }

  #down (installId: string, state: Known, reason: string): void {
    if (state.announced === null) return
    state.announced = null
    this.#notify(() => { this.#options.events.down(installId, reason) })
  }

  #notify (act: () => void): void {
    try {
      act()
    } catch (error) {
      this.#options.log.error({ err: error }, 'a listener of cluster links failed')
    }
  }

  #known (installId: string): Known {
    let found = this.#members.get(installId)
    if (found === undefined) {
      this.#members.set(installId, found = { open: new Set(), current: undefined, announced: null })
    }
    return found
  }

  #current (installId: string): Link | undefined { return this.#members.get(installId)?.current }

  /** The link to send through: the current one, or the one that is about to replace it. */
  #sendingLink (installId: string): Link | undefined {
    const state = this.#members.get(installId)
    if (state === undefined || state.announced === null) return undefined
    return state.current ?? [...state.open].find((link) => link.open)
  }

  #currents (): Link[] { return [...this.#members.values()].flatMap(({ current }) => current ?? []) }
  #all (): Link[] { return [...this.#members.values()].flatMap(({ open }) => [...open]) }
  #open (installId: string): Link[] { return [...this.#members.get(installId)?.open ?? []] }

  #inBackOff (installId: string): boolean {
    return this.#options.clock.mono() < (this.#backOffs.get(installId)?.until ?? -Infinity)
  }

  /** Backs off exponentially, because repeated protocol violations by a member would fill the event log. */
  #startBackOff (installId: string, word: string): void {
    if (this.#inBackOff(installId)) return
    const { violationMinMs: minMs, violationMaxMs: maxMs } = this.#limits
    const now = this.#options.clock.mono()
    const before = this.#backOffs.get(installId)
    const times = before === undefined || now > before.until + maxMs ? 1 : before.times + 1
    this.#backOffs.set(installId, { until: now + backoffMs(times, { minMs, maxMs }, 1), times })
    this.#options.events.violation(installId, word)
  }

  #membersChanged (): void {
    const { members } = this.#options
    const keys = new Map(members.current().members.map((member) => [member.installId, member.fingerprint]))
    for (const link of this.#all()) {
      if (keys.get(link.installId) !== link.fingerprint) link.end('not_member')
    }
    this.#requests.keep(keys)
    void this.#listener?.then((listener) => { listener.keep(keys) })
    this.#dialler.update()
  }

  /** Addresses for requests to a member: those of its link and its hello, then those in the members file. */
  #addresses (installId: string): readonly string[] {
    const link = this.#current(installId)
    const advertised = link?.greeting?.hello.address
    const listed = this.#options.members.find(installId)?.addresses ?? []
    const own = [advertised ?? '', link?.listensAt ?? '']
    if (link?.outgoing === true) own.reverse()
    return [...new Set([...own, ...listed])].filter((address) => readAddress(address) !== undefined)
  }
}

/**
 * True if `next`, whose hello came later, replaces `current`. Both ends decide from the same facts and so
 * keep the same link. The later link wins if it is from another process start, or if the other end opened it
 * after losing the current one (which this node has not noticed yet). Otherwise the one dialled by the
 * smaller id stays; if one end dialled both, the later one.
 */
export function replaces (next: LinkPriority, current: LinkPriority, self: string, peer: string): boolean {
  if (next.nodeId !== current.nodeId) return next.serial > current.serial
  const later = next.theirs.serial > current.theirs.serial
  if (later && next.theirs.alone) return true
  if (!later && current.theirs.alone) return false
  if (next.outgoing === current.outgoing) {
    return next.outgoing ? next.serial > current.serial : later
  }
  return next.outgoing === (self < peer)
}
