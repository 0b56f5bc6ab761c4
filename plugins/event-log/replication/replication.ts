import {
  positionOf, samePosition, submissionOf, type Entry, type Position, type Submission
} from '../log/entries.js'
import { applyPage, extend, FETCH_MS, LEARN_MOST_MS, PEER_WAIT_MS, LEARN_NEXT_MS } from './catching-up.js'
import { LogSender, type Host } from './sender.js'
import { Outbox } from './outbox.js'
import type { EventLog } from '../log/log.js'
import type { Input, Message, Of, ReplicationHost } from './messages.js'

/** Time in ms after which an unanswered `want` or `submit` is sent again. */
const RESEND_MS = 1_000

/** A pending `want`: its number, its time, and this log's last position at that time. */
interface Question { readonly n: number, readonly at: number, readonly last: Position }

/**
 * Keeps the logs of all nodes equal. The master assigns indices and announces where its log ends; followers
 * submit events and request missing entries. Deterministic: no clock, no sockets, no random numbers.
 * Two logs that share a position (index and digest) are equal up to it. A follower sends some positions, and
 * the master answers with the entries after the newest one that it has. The follower removes its other
 * entries after that position and submits them again.
 */
export class Replication implements Host {
  readonly log: EventLog
  readonly world: ReplicationHost
  readonly peers = new Set<string>()
  sid = ''
  now = 0
  readonly #outbox = new Outbox()
  readonly #sender = new LogSender(this)
  #isMaster = false
  #master: string | null = null
  /** The pending request to each peer. A follower has one at a time, a new master one to each peer. */
  readonly #questions = new Map<string, Question>()
  #asked = 0
  /** Set while a new master fetches entries from its peers: start, and time of the last progress. */
  #learning: { readonly began: number, progress: number, patience: number } | null = null
  /** Set while a follower fetches what its master lacks: the position to reach, and untried peers. */
  #fetching: { readonly target: Position, untried: string[] } | null = null
  /** True if no peer has the entries before the start of the master's log, so this log restarts there. */
  #gaveUp = false
  /** Highest index in any message; new indices must be above it. */
  #highestSeen: number
  /** End of the master's last page if more pages follow; null otherwise. */
  #pageEnd: Position | null = null
  /** The unanswered `submit`: its events that are not in the log yet, and the time when it was sent. */
  #sent: { ids: Set<string>, at: number } | null = null
  /** True on a follower whose log has equalled the master's since it connected to that master. */
  #synced = false

  /** New indices are above `reserved`, because those up to it may have been assigned before a crash. */
  constructor (log: EventLog, world: ReplicationHost, reserved = 0) {
    this.log = log
    this.world = world
    this.#highestSeen = reserved
  }

  /** Events of this node that are not in the log yet. */
  get waiting (): number { return this.#outbox.size }

  get highest (): number { return Math.max(this.log.last.idx, this.#highestSeen) }

  /** True on a master that assigns indices. */
  get settled (): boolean { return this.#isMaster && this.#learning === null }

  /** True if this log is complete, as far as this node knows. */
  get inStep (): boolean { return this.settled || (this.#reachableMaster !== null && this.#synced) }

  get #reachableMaster (): string | null {
    const master = this.#master
    return !this.#isMaster && master !== null && this.peers.has(master) ? master : null
  }

  /** Processes one input. `now`: monotonic ms. */
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
      case 'found': this.#sender.found(input); break
      case 'tick': this.#tick()
    }
    const dropped = this.#outbox.takeDropped()
    if (dropped !== null) this.world.dropped({ ...dropped, to: this.log.last.idx })
  }

  /** Moves queued events into the log on a master, and sends them to the master on other nodes. */
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

  /** Assigns an index to each event that is not in the log yet, and schedules an announcement. */
  #assign (submissions: readonly Submission[]): void {
    const fresh = submissions.filter(({ id }) => !this.log.has(id))
    for (const submission of fresh) this.log.extend(this.highest + 1, this.sid, submission)
    if (fresh.length > 0) this.#sender.added()
  }

  #peerUp (peer: string): void {
    this.peers.add(peer)
    if (this.#learning !== null) this.#want(peer, true)
    else if (this.#isMaster) this.#sender.announce([peer])
    else if (peer === this.#master) this.#connectToMaster()
  }

  #peerDown (peer: string): void {
    this.peers.delete(peer)
    this.#questions.delete(peer)
    if (this.#fetching !== null) {
      this.#fetching.untried = this.#fetching.untried.filter((one) => one !== peer)
    }
    if (peer === this.#master) this.#sent = null
    this.#settleWhenLearned()
  }

  #session ({ sid, isMaster, master }: Extract<Input, { type: 'session' }>): void {
    if (sid === this.sid && isMaster === this.#isMaster && master === this.#master) return
    this.sid = sid
    this.#isMaster = isMaster
    this.#master = master
    this.#learning = null
    if (!isMaster) {
      this.#connectToMaster()
      return
    }
    this.#forgetQuestions()
    this.#learning = { began: this.now, progress: this.now, patience: PEER_WAIT_MS }
    for (const peer of this.peers) this.#want(peer, true)
    this.world.wake(PEER_WAIT_MS)
    this.#settleWhenLearned()
  }

  #forgetQuestions (): void {
    this.#fetching = null
    this.#questions.clear()
    this.#sent = null
  }

  #connectToMaster (): void {
    this.#forgetQuestions()
    this.#synced = false
    this.#gaveUp = false
    this.#pageEnd = null
    this.#ask()
    this.#forward()
  }

  /** Requests entries from a peer. A repeated request keeps its number, so that a late answer counts. */
  #want (peer: string, learn: boolean): void {
    const n = this.#questions.get(peer)?.n ?? ++this.#asked
    this.#questions.set(peer, { n, at: this.now, last: this.log.last })
    const have = this.#pageEnd === null || learn ? this.log.locator() : [this.#pageEnd]
    this.world.send(peer, { type: 'want', sid: this.sid, n, learn, have, above: this.highest })
  }

  /** A new master assigns indices when all peers have answered, or after the time limit. */
  #settleWhenLearned (): void {
    const learning = this.#learning
    if (learning === null) return
    const isOver = this.now - learning.progress >= learning.patience ||
      this.now - learning.began >= LEARN_MOST_MS
    if (this.#questions.size > 0 && !isOver) return
    this.#learning = null
    this.#questions.clear()
    this.#sender.announce()
    this.#forward()
  }

  #tick (): void {
    if (this.#learning !== null) {
      this.world.wake(PEER_WAIT_MS)
      this.#settleWhenLearned()
    } else if (this.#isMaster) this.#sender.tick()
    else {
      if (this.#fetching !== null) this.#fetch()
      if (this.#master !== null && this.#questions.has(this.#master)) this.#askIfIdle()
      if (this.#sent !== null && this.now - this.#sent.at >= RESEND_MS) this.#sent = null
      this.#forward()
    }
  }

  #receive (from: string, message: Message): void {
    // True if the message is from this node's master, in that master's session.
    const isOfMaster = !this.#isMaster && from === this.#master && message.sid === this.sid
    const isForMaster = this.settled && message.sid === this.sid
    switch (message.type) {
      case 'want':
        this.#noteIndex(Math.max(message.have[0]?.idx ?? 0, message.above ?? 0))
        this.#sender.asked(from, message)
        break
      case 'submit': if (isForMaster) this.#onSubmit(from, message); break
      case 'took':
        // An older version waits for more entries after a page; the announcement makes it request them.
        if (isForMaster && message.last.idx < this.log.last.idx) this.#sender.announce([from])
        break
      case 'page':
        this.#noteIndex(Math.max(message.last.idx, message.above ?? 0))
        this.#onPage(from, message)
        break
      case 'head':
      case 'append': {
        const last = message.type === 'head' ? message.last : message.last ?? message.entries.at(-1)
        if (last === undefined) break
        this.#noteIndex(last.idx)
        if (!isOfMaster) break
        // An older version sends entries unasked; those that do not fit are requested.
        if (message.type === 'append') extend(this.log, message.entries, this.#append)
        this.#onHead(last)
      }
    }
  }

  #noteIndex (idx: number): void { this.#highestSeen = Math.max(this.#highestSeen, idx) }

  #onSubmit (from: string, { events }: Of<'submit'>): void {
    const known = events.some((e) => this.log.has(e.id))
    this.#assign(events)
    // A follower that submits events already in the log lacks entries, so send it the log's last position.
    if (known) this.#sender.announce([from])
  }

  #onHead (last: Position): void {
    // The logs are equal, so a pending submission was lost, or came before the master was ready.
    if (samePosition(last, this.log.last)) {
      this.#synced = true
      this.#questions.delete(this.#master!)
      this.#sent = null
    } else {
      this.#askIfIdle()
    }
    this.#forward()
  }

  readonly #append = (entry: Entry): boolean => {
    if (!this.log.append(entry)) return false
    this.#outbox.settle(entry.id)
    const sent = this.#sent
    if (sent?.ids.delete(entry.id) === true && sent.ids.size === 0) this.#sent = null
    return true
  }

  #askIfIdle (): void {
    const question = this.#questions.get(this.#master ?? '')
    const isOpen = question !== undefined && this.now - question.at < RESEND_MS
    if (this.#fetching === null && !isOpen) this.#ask()
  }

  #ask (): void {
    const master = this.#reachableMaster
    if (master !== null) this.#want(master, false)
  }

  /** Handles the answer to a pending request. Answers from earlier sessions are ignored. */
  #onPage (from: string, page: Of<'page'>): void {
    const question = this.#questions.get(from)
    if (question?.n !== page.n) return
    this.#questions.delete(from)
    if (this.#learning !== null) this.#learnFrom(from, page, question.last)
    else if (this.#fetching !== null) this.#fetchFrom(from, page)
    else {
      if (!this.#gaveUp && this.log.last.idx < page.base.idx) this.#startFetching(page.base)
      else this.#follow(page)
      this.#forward()
    }
  }

  /** Appends entries that continue this log. The peer will submit events from any other tail again. */
  #learnFrom (from: string, { base, entries, last }: Of<'page'>, askedAt: Position): void {
    const { log } = this
    // If this log ends before the peer's begins, restart it there.
    if (log.last.idx < base.idx) log.restart(base)
    if (extend(log, entries, this.#append)) {
      Object.assign(this.#learning!, { progress: this.now, patience: LEARN_NEXT_MS })
    }
    const hasMore = !samePosition(askedAt, log.last) && !log.holds(last)
    if (hasMore) this.#want(from, true)
    else this.#settleWhenLearned()
  }

  /** Asks other peers for the entries between the end of this log and the start of the master's. */
  #startFetching (target: Position): void {
    this.#fetching = { target, untried: [...this.peers].filter((peer) => peer !== this.#master) }
    this.#fetch()
  }

  /** Appends entries up to where the master's log begins; after that only the master's entries count. */
  #fetchFrom (from: string, { entries }: Of<'page'>): void {
    const { target, untried } = this.#fetching!
    if (extend(this.log, entries, this.#append, target)) untried.unshift(from)
    this.#fetch()
  }

  #fetch (): void {
    const { target, untried } = this.#fetching!
    const isWhole = samePosition(this.log.last, target)
    const [open] = this.#questions.values()
    if (!isWhole && open !== undefined && this.now - open.at < FETCH_MS) return
    this.#questions.clear()
    const peer = isWhole ? undefined : untried.shift()
    if (peer !== undefined) {
      this.#want(peer, true)
      return
    }
    this.#gaveUp = !isWhole
    this.#fetching = null
    this.#ask()
  }

  /** Makes this log identical to the master's up to the page's end; other events return to the outbox. */
  #follow (page: Of<'page'>): void {
    const { state, removed } = applyPage(this.log, page, this.#append)
    this.#pageEnd = state === 'more' ? positionOf(page.entries.at(-1) ?? page.base) : null
    // The new tail may contain some of the removed events.
    const missing = removed.filter((entry) => !this.log.has(entry.id))
    this.#outbox.takeBack(missing.map(submissionOf), this.log.last.idx)
    if (state === 'more' && page.entries.length > 0) this.#ask()
    if (state === 'whole') {
      this.#synced = true
      this.#gaveUp = false
    }
  }
}
