import { place, samePosition, submissionOf } from '../log/entries.js'
import { adopt, Fetching, LEARN_MS, Learning } from './catching-up.js'
import { Feeding } from './feeding.js'
import { readMessage } from './messages.js'
import { Outbox } from './outbox.js'
import type { Entry, Position, Submission } from '../log/entries.js'
import type { EventLog } from '../log/log.js'
import type { Host } from './feeding.js'
import type { Input, Of, World } from './messages.js'

/** A follower acknowledges after so many indices. */
const TOOK_IDX = 500

/** A `want` or a `submit` that is not answered is sent again after this time, ms. */
const RESEND_MS = 1_000

/** How often a master sends where the log ends, in case a message was lost, ms. */
const HEAD_MS = 5_000

/**
 * Keeps the logs of all nodes equal. The master gives the indices; followers submit their events to it,
 * append what it sends and ask for what they miss. Deterministic: no clock, no sockets, no random numbers.
 *
 * Two logs that share a position (index and digest) are equal up to it. So a follower sends some of its
 * positions, and the master answers with the entries that follow the newest one it knows. Other entries that
 * the follower has after it are removed and submitted again.
 */
export class Replication implements Host {
  readonly log: EventLog
  readonly world: World
  readonly peers = new Set<string>()
  /** Session of this node. */
  sid = ''
  /** Received messages that were malformed. */
  garbled = 0
  /** Time of the step that is being taken, ms. */
  now = 0
  readonly #outbox = new Outbox()
  readonly #feeding = new Feeding(this)
  #isMaster = false
  #master: string | null = null
  /** Set while a new master fetches what its peers have beyond its log. */
  #learning: Learning | null = null
  /** Set while a follower fetches from other peers what its master no longer has. */
  #fetching: Fetching | null = null
  /** No peer has what this follower missed: its log begins again where the master's does. */
  #gaveUp = false
  /** Highest index in any message: new ones are above it. */
  #highestHeard: number
  /** The open `want` to the master, and when it was sent. */
  #asked: { n: number, at: number } | null = null
  #questions = 0
  /** The last page of the master brought nothing new: it does not have what follows here. */
  #ledNowhere = false
  /** The events of the open `submit` that are not in the log yet, and when it was sent. */
  #sent: { ids: Set<string>, at: number } | null = null
  #headAt = 0
  /** As a follower: newest index that was acknowledged to the master. */
  #acknowledged = 0
  /** As a follower: this log was equal to the master's once since they met. */
  #met = false

  /** New indices are above `reserved`, since those up to it may have been given before a crash. */
  constructor (log: EventLog, world: World, reserved = 0) {
    this.log = log
    this.world = world
    this.#highestHeard = reserved
  }

  /** Events of this node that are not in the log yet. */
  get waiting (): number { return this.#outbox.size }

  /** Highest index in the log or in any message. */
  get highest (): number { return Math.max(this.log.last.idx, this.#highestHeard) }

  /** True on a master that gives indices. */
  get settled (): boolean { return this.#isMaster && this.#learning === null }

  /** True when this log is complete, as far as is known. */
  get inStep (): boolean { return this.settled || (this.#reachableMaster !== null && this.#met) }

  get #reachableMaster (): string | null {
    const master = this.#master
    return !this.#isMaster && master !== null && this.peers.has(master) ? master : null
  }

  /** Takes one input. `now`: milliseconds that only rise. */
  step (input: Input, now: number): void {
    this.now = now
    switch (input.type) {
      case 'local':
        this.#outbox.add(input.submission, this.log.last.idx)
        this.#forward()
        break
      case 'message': this.#receive(input.from, input.message); break
      case 'peerUp': this.#peerUp(input.peer); break
      case 'peerDown': this.#peerDown(input.peer); break
      case 'session': this.#session(input); break
      case 'found': this.#feeding.found(input); break
      case 'tick': this.#tick()
    }
    const dropped = this.#outbox.takeDropped()
    if (dropped !== null) this.world.dropped({ ...dropped, to: this.log.last.idx })
  }

  /** Moves waiting events on: into the log on a master, else to the master. */
  #forward (): void {
    if (this.settled) {
      for (let page = this.#outbox.page(); page.length > 0; page = this.#outbox.page()) {
        this.#assign(page)
        for (const { id } of page) this.#outbox.settle(id)
      }
      return
    }
    const master = this.#reachableMaster
    if (master === null || this.#sent !== null) return
    const events = this.#outbox.page()
    if (events.length === 0) return
    this.#sent = { ids: new Set(events.map((e) => e.id)), at: this.now }
    this.world.send(master, { type: 'submit', sid: this.sid, events })
  }

  /** Gives an index to each event that is not in the log, and has the new entries sent. */
  #assign (submissions: readonly Submission[]): void {
    const fresh = submissions.filter(({ id }) => !this.log.has(id))
    for (const submission of fresh) this.log.extend(this.highest + 1, this.sid, submission)
    this.#feeding.added(fresh.length)
  }

  #peerUp (peer: string): void {
    this.peers.add(peer)
    if (this.#learning !== null) this.#learn([peer])
    else if (this.#isMaster) {
      this.#feeding.begin(peer)
      this.#feeding.announce([peer])
    } else if (peer === this.#master) this.#meetMaster()
  }

  #peerDown (peer: string): void {
    this.peers.delete(peer)
    this.#feeding.end(peer)
    this.#fetching?.remove(peer)
    this.#learning?.remove(peer)
    if (this.#learning !== null) this.#learn([])
    if (peer === this.#master) {
      this.#asked = null
      this.#sent = null
    }
  }

  #session ({ sid, isMaster, master }: Extract<Input, { type: 'session' }>): void {
    if (sid === this.sid && isMaster === this.#isMaster && master === this.#master) return
    this.sid = sid
    this.#isMaster = isMaster
    this.#master = master
    this.#learning = null
    // Peers ask for what they were not sent.
    this.#feeding.clear()
    if (!isMaster) {
      this.#meetMaster()
      return
    }
    this.#forgetQuestions()
    this.#learning = new Learning(this.log, this.now)
    this.world.wake(LEARN_MS)
    this.#learn([...this.peers])
  }

  #forgetQuestions (): void {
    this.#fetching = null
    this.#asked = null
    this.#sent = null
  }

  #meetMaster (): void {
    this.#forgetQuestions()
    this.#met = false
    this.#gaveUp = false
    this.#ledNowhere = false
    this.#ask()
    this.#forward()
  }

  /** As a new master: asks these peers for what they have; settles when there is nobody left to wait for. */
  #learn (peers: readonly string[]): void {
    for (const peer of peers) this.#learning!.asked(peer, this.#want(peer, true))
    if (this.#learning!.done(this.now)) this.#settle()
  }

  /** Asks a peer for what follows here, as question `n`, which it returns. */
  #want (peer: string, learn: boolean, n = ++this.#questions): number {
    const have = this.#ledNowhere && !learn ? [place(this.log.last)] : this.log.locator()
    this.world.send(peer, { type: 'want', sid: this.sid, n, learn, have, above: this.highest })
    return n
  }

  /** The new master has what it could get: from here on it gives indices. */
  #settle (): void {
    this.#learning = null
    for (const peer of this.peers) this.#feeding.begin(peer)
    this.#announce()
    this.#forward()
  }

  #announce (): void {
    this.#headAt = this.now
    this.#feeding.announce([...this.peers].filter((peer) => this.#feeding.ends(peer)))
  }

  #tick (): void {
    if (this.#learning !== null) {
      if (this.#learning.done(this.now)) this.#settle()
      else this.world.wake(LEARN_MS)
    } else if (this.#isMaster) {
      this.#feeding.flush()
      if (this.now - this.#headAt >= HEAD_MS) this.#announce()
      this.#feeding.giveUpStalled()
    } else {
      if (this.#fetching !== null) this.#fetch()
      if (this.#asked !== null) this.#askUnlessAsked()
      if (this.#sent !== null && this.now - this.#sent.at >= RESEND_MS) this.#sent = null
      this.#forward()
    }
  }

  #receive (from: string, raw: unknown): void {
    const message = readMessage(raw)
    if (message === null) {
      this.garbled++
      return
    }
    // True for a message of the master that this node follows, in its session.
    const isOfMaster = !this.#isMaster && from === this.#master && message.sid === this.sid
    const isForMaster = this.settled && message.sid === this.sid
    switch (message.type) {
      case 'want':
        this.#hearOf(Math.max(message.have[0]?.idx ?? 0, message.above ?? 0))
        this.#feeding.asked(from, message)
        break
      case 'submit': if (isForMaster) this.#onSubmit(from, message); break
      case 'took': if (isForMaster) this.#feeding.took(from, message.last.idx); break
      case 'page':
        this.#hearOf(Math.max(message.last.idx, message.above ?? 0))
        this.#onPage(from, message, isOfMaster)
        break
      case 'head':
        this.#hearOf(message.last.idx)
        if (isOfMaster) this.#onHead(message.last)
        break
      case 'append':
        this.#hearOf((message.last ?? message.entries.at(-1))?.idx ?? 0)
        if (isOfMaster) this.#onAppend(message)
    }
  }

  #hearOf (idx: number): void { this.#highestHeard = Math.max(this.#highestHeard, idx) }

  #onSubmit (from: string, { events }: Of<'submit'>): void {
    const known = events.some((e) => this.log.has(e.id))
    this.#assign(events)
    // The follower has not seen entries that are in the log: the head shows it that it is behind.
    if (known) this.#feeding.announce([from])
  }

  #onHead (last: Position): void {
    // The logs are equal, so a submission that is still open was lost, or came before the master was ready.
    if (samePosition(last, this.log.last)) {
      this.#met = true
      this.#asked = null
      this.#sent = null
    } else {
      this.#askUnlessAsked()
    }
    this.#forward()
  }

  #onAppend ({ entries, last }: Of<'append'>): void {
    const fits = entries.every((entry) => this.log.holds(entry) || this.#append(entry))
    if (!fits) this.#askUnlessAsked()
    if (last !== undefined && samePosition(this.log.last, last)) this.#met = true
    if (fits && this.log.last.idx - this.#acknowledged >= TOOK_IDX) this.#acknowledge()
    this.#forward()
  }

  #acknowledge (): void {
    const last = place(this.log.last)
    this.#acknowledged = last.idx
    this.world.send(this.#master!, { type: 'took', sid: this.sid, last })
  }

  readonly #append = (entry: Entry): boolean => {
    if (!this.log.append(entry)) return false
    this.#outbox.settle(entry.id)
    const sent = this.#sent
    if (sent?.ids.delete(entry.id) === true && sent.ids.size === 0) this.#sent = null
    return true
  }

  #askUnlessAsked (): void {
    if (this.#fetching !== null) return
    // A question keeps its number when it is repeated, so that a late answer to the first one still counts.
    if (this.#asked === null || this.now - this.#asked.at >= RESEND_MS) this.#ask(this.#asked?.n)
  }

  #ask (n?: number): void {
    const master = this.#reachableMaster
    if (master !== null) this.#asked = { n: this.#want(master, false, n), at: this.now }
  }

  #onPage (from: string, page: Of<'page'>, isOfMaster: boolean): void {
    if (this.#learning !== null && page.sid === this.sid) {
      const again = this.#learning.page(from, page, this.#append, this.now)
      this.#learn(again ? [from] : [])
    } else if (this.#fetching?.page(from, page, this.#append) === true) {
      this.#fetch()
    } else if (isOfMaster && page.n === this.#asked?.n) {
      this.#asked = null
      if (!this.#gaveUp && this.log.last.idx < page.base.idx) this.#startFetching(page.base)
      else this.#follow(page)
      this.#forward()
    }
  }

  /** This log ends before the master's begins: other peers may have what is between. */
  #startFetching (target: Position): void {
    const others = [...this.peers].filter((peer) => peer !== this.#master)
    this.#fetching = new Fetching(this.log, target, others)
    this.#fetch()
  }

  #fetch (): void {
    const fetching = this.#fetching!
    const peer = fetching.next(this.now)
    if (peer === 'waiting') return
    if (peer !== null) {
      fetching.asked(peer, this.#want(peer, true), this.now)
      return
    }
    this.#gaveUp = !fetching.whole
    this.#fetching = null
    this.#ask()
  }

  /** Makes this log equal to the master's as far as the page goes; other events go back to the outbox. */
  #follow (page: Of<'page'>): void {
    const { last } = this.log
    const { state, removed } = adopt(this.log, page, this.#append)
    this.#ledNowhere = state === 'more' && samePosition(last, this.log.last)
    // Some of them are in the new tail as well.
    const missing = removed.filter((entry) => !this.log.has(entry.id))
    this.#outbox.takeBack(missing.map(submissionOf), this.log.last.idx)
    // The acknowledgement: the master sends what comes next without being asked.
    if (state !== 'broken') this.#acknowledge()
    if (state === 'whole') {
      this.#met = true
      this.#gaveUp = false
    }
  }
}
