import type { Logger } from '../../api/plugin.js'
import type { CloseWord, FrameKind, Greeting } from './frames.js'
import type { Link, Peer, Rival } from './link.js'

export type { MemberRequest, MemberResponse } from '../../api/services.js'

export interface LinkEvents {
  /** The first link to a member is up: both hellos were exchanged. */
  up (peer: Peer): void
  /** The last link to a member is gone. */
  down (installId: string, reason: string): void
  frame (installId: string, kind: FrameKind, body: unknown): void
  /** A member broke the protocol; `reason` is the name of the close code. Called once per back-off. */
  violation (installId: string, reason: string): void
}

interface Known {
  /** Every link that may still carry frames, greeted or not. */
  open: Set<Link>
  current: Link | undefined
  /** Node id that `events.up` was called with; null while it is down. */
  told: string | null
}

export interface RegistryOptions {
  self: string
  clusterId: () => string
  log: Logger
  events: LinkEvents
  /** After a member became linked or lost its link. */
  changed: () => void
}

/** All links by member, the one of each member that is used, and the events of it: up once, down once. */
export class Registry {
  readonly #options: RegistryOptions
  readonly #members = new Map<string, Known>()

  constructor (options: RegistryOptions) {
    this.#options = options
  }

  add (link: Link): void { this.#known(link.installId).open.add(link) }

  greeted (link: Link, { hello }: Greeting): CloseWord | undefined {
    if (hello.installId !== link.installId) return 'wrong_identity'
    if (hello.clusterId !== this.#options.clusterId()) return 'other_cluster'
    const state = this.#known(link.installId)
    const { current } = state
    if (current !== undefined && !replaces(link.rival, current.rival, this.#options.self, link.installId)) {
      link.fade()
      return undefined
    }
    this.#use(link, state)
    // Of an older process start nothing counts any more.
    if (current?.rival.nodeId === hello.nodeId) current.fade()
    else current?.end('duplicate')
    return undefined
  }

  closed (link: Link, word: string): void {
    const { installId } = link
    const state = this.#known(installId)
    state.open.delete(link)
    if (state.current === link) {
      state.current = undefined
      // Another connection may yet take over from one that was closed as a duplicate.
      if (word !== 'duplicate' || state.open.size === 0) this.#down(installId, state, word)
      this.#options.changed()
    } else if (state.current === undefined && state.open.size === 0) {
      this.#down(installId, state, word)
    }
    if (state.open.size === 0 && state.told === null) this.#members.delete(installId)
  }

  current (installId: string): Link | undefined { return this.#members.get(installId)?.current }

  /** What to send through: the current link, or the one that is about to take over from it. */
  outlet (installId: string): Link | undefined {
    const state = this.#members.get(installId)
    if (state === undefined || state.told === null) return undefined
    return state.current ?? [...state.open].find((link) => link.open)
  }

  /** The links that are used, one per member. */
  currents (): Link[] { return [...this.#members.values()].flatMap(({ current }) => current ?? []) }
  all (): Link[] { return [...this.#members.values()].flatMap(({ open }) => [...open]) }
  of (installId: string): Link[] { return [...this.#members.get(installId)?.open ?? []] }

  #known (installId: string): Known {
    let found = this.#members.get(installId)
    if (found === undefined) {
      this.#members.set(installId, found = { open: new Set(), current: undefined, told: null })
    }
    return found
  }

  #use (link: Link, state: Known): void {
    const { installId } = link
    const { nodeId } = link.greeting!.hello
    state.current = link
    if (state.told !== null && state.told !== nodeId) this.#down(installId, state, 'restarted')
    if (state.told === null) {
      state.told = nodeId
      this.#tell(() => { this.#options.events.up(link.describe()) })
    }
    this.#options.changed()
  }

  #down (installId: string, state: Known, reason: string): void {
    if (state.told === null) return
    state.told = null
    this.#tell(() => { this.#options.events.down(installId, reason) })
  }

  /** An exception of a listener must not harm the link. */
  #tell (act: () => void): void {
    try {
      act()
    } catch (error) {
      this.#options.log.error({ err: error }, 'a listener of cluster links failed')
    }
  }
}

/**
 * True when `next`, whose hello came later, replaces `current`. Both ends see the same facts, so that they
 * keep the same one:
 * a link of another process start replaces; so does one that the other end opened later without having the
 * first any more (its end is dead, we have not noticed yet); else the one that the smaller id dialled stays.
 */
export function replaces (next: Rival, current: Rival, self: string, peer: string): boolean {
  if (next.nodeId !== current.nodeId) return next.serial > current.serial
  const later = next.theirs.serial > current.theirs.serial
  if (later && next.theirs.alone) return true
  if (!later && current.theirs.alone) return false
  if (next.outgoing === current.outgoing) {
    return next.outgoing ? next.serial > current.serial : later
  }
  return next.outgoing === (self < peer)
}
