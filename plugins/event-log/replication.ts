import { place, samePosition, submissionOf } from './entries.js'
import { Feeding, headOf } from './feeding.js'
import { HEAD_MS, LEARN_MS, RESEND_MS, TOOK_IDX } from './limits.js'
import { readMessage } from './messages.js'
import { createOutbox, Dropped } from './outbox.js'
import { adopt, createFetching, createLearning } from './pages.js'
import type { Entry, Position, Submission } from './entries.js'
import type { Host } from './feeding.js'
import type { EventLog } from './log.js'
import type { Message, Outgoing } from './messages.js'
import type { Fetching, Learning } from './pages.js'
import type { Input, Output, Replication } from './steps.js'

type Of<T extends Message['type']> = Extract<Message, { type: T }>

/**
 * Keeps the logs of all nodes equal. The master gives the indices; followers submit their events to it,
 * append what it sends and ask for what they miss. Deterministic: no clock, no sockets, no random numbers.
 *
 * Two logs that share a position (index and digest) are equal up to it. So a follower sends some of its
 * positions, and the master answers with the entries that follow the newest one it knows. Other entries that
 * the follower has after it are removed and submitted again.
 *
 * `reserved`: new indices are above this one, since those up to it may have been given before a crash.
 */
export function createReplication (log: EventLog, reserved = 0): Replication {
  return new Machine(log, reserved)
}

class Machine implements Replication {
  garbled = 0
  readonly #log: EventLog
  readonly #outbox = createOutbox()
  readonly #peers = new Set<string>()
  #sid = ''
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
  /** The events of the open `submit` that are not in the log yet, and when it was sent. */
  #sent: { ids: Set<string>, at: number } | null = null
  #headAt = 0
  readonly #host: Host
  readonly #feeding: Feeding
  /** As a follower: newest index that was acknowledged to the master. */
  #acknowledged = 0
  /** As a follower: this log was equal to the master's once since they met. */
  #met = false
  readonly #dropped = new Dropped()
  #now = 0
  #out: Output[] = []

  constructor (log: EventLog, reserved: number) {
    this.#log = log
    this.#host = {
      log, sid: () => this.#sid, settled: () => this.#settled, highest: () => this.highest,
      now: () => this.#now, out: (output) => { this.#out.push(output) }
    }
    this.#feeding = new Feeding(this.#host)
    this.#highestHeard = reserved
  }

  get waiting (): number { return this.#outbox.size }

  get highest (): number { return Math.max(this.#log.last.idx, this.#highestHeard) }

  get inStep (): boolean { return this.#settled || (this.#reachableMaster() !== null && this.#met) }

  step (input: Input, now: number): Output[] {
    this.#now = now
    this.#out = []
    switch (input.type) {
      case 'local': this.#local(input.submission); break
      case 'message': this.#receive(input.from, input.message); break
      case 'peerUp': this.#peerUp(input.peer); break
      case 'peerDown': this.#peerDown(input.peer); break
      case 'session': this.#session(input); break
      case 'found': this.#feeding.found(input); break
      case 'fed': this.#feeding.fed(input); break
      case 'tick': this.#tick()
    }
    if (this.#outbox.size === 0) this.#out.push(...this.#dropped.take(this.#log.last.idx))
    return this.#out
  }

  get #settled (): boolean { return this.#isMaster && this.#learning === null }

  #send (to: string, message: Outgoing): void { this.#out.push({ type: 'send', to, message }) }

  #local (submission: Submission): void {
    if (!this.#outbox.add(submission)) this.#dropped.add(1, this.#log.last.idx)
    this.#forward()
  }

  /** Moves waiting events on: into the log on a master, else to the master. */
  #forward (): void {
    if (this.#settled) {
      this.#assignAll()
      return
    }
    const master = this.#reachableMaster()
    if (master === null || this.#sent !== null) return
    const events = this.#outbox.page()
    if (events.length === 0) return
    this.#sent = { ids: new Set(events.map((e) => e.id)), at: this.#now }
    this.#send(master, { type: 'submit', sid: this.#sid, events })
  }

  #reachableMaster (): string | null {
    const master = this.#master
    return !this.#isMaster && master !== null && this.#peers.has(master) ? master : null
  }

  #assignAll (): void {
    for (let page = this.#outbox.page(); page.length > 0; page = this.#outbox.page()) {
      this.#assign(page)
      for (const { id } of page) this.#outbox.settle(id)
    }
  }

  /** Gives an index to each event that is not in the log, and has the new entries sent. */
  #assign (submissions: readonly Submission[]): void {
    let added = 0
    for (const submission of submissions) {
      if (this.#log.has(submission.id)) continue
      this.#log.extend(this.highest + 1, this.#sid, submission)
      added++
    }
    this.#feeding.added(added)
  }

  #peerUp (peer: string): void {
    this.#peers.add(peer)
    if (this.#learning !== null) this.#learn(this.#learning.add(peer))
    else if (this.#isMaster) {
      this.#feeding.begin(peer)
      this.#send(peer, headOf(this.#host))
    } else if (peer === this.#master) this.#meetMaster()
  }

  #peerDown (peer: string): void {
    this.#peers.delete(peer)
    this.#feeding.end(peer)
    this.#fetching?.remove(peer)
    if (this.#learning !== null) this.#learn(this.#learning.remove(peer))
    if (peer === this.#master) {
      this.#asked = null
      this.#sent = null
    }
  }

  #session ({ sid, isMaster, master }: Extract<Input, { type: 'session' }>): void {
    if (sid === this.#sid && isMaster === this.#isMaster && master === this.#master) return
    this.#sid = sid
    this.#isMaster = isMaster
    this.#master = master
    this.#learning = null
    // Peers ask for what they were not sent.
    this.#feeding.clear()
    if (isMaster) this.#startLearning()
    else this.#meetMaster()
  }

  #meetMaster (): void {
    this.#met = false
    this.#fetching = null
    this.#gaveUp = false
    this.#asked = null
    this.#sent = null
    this.#ask()
    this.#forward()
  }

  #startLearning (): void {
    this.#fetching = null
    this.#asked = null
    this.#sent = null
    this.#learning = createLearning({ log: this.#log, peers: this.#peers, now: this.#now })
    this.#out.push({ type: 'wake', ms: LEARN_MS })
    this.#learn([...this.#peers])
  }

  /** Asks these peers for what they have; settles when there is nobody left to wait for. */
  #learn (peers: readonly string[]): void {
    const have = this.#log.locator()
    for (const peer of peers) {
      const n = ++this.#questions
      this.#learning!.asked(peer, n, have[0]!)
      this.#send(peer, { type: 'want', sid: this.#sid, n, learn: true, have, above: this.highest })
    }
    if (this.#learning!.done(this.#now)) this.#settle()
  }

  /** The new master has what it could get: from here on it gives indices. */
  #settle (): void {
    this.#learning = null
    for (const peer of this.#peers) this.#feeding.begin(peer)
    this.#announce()
    this.#assignAll()
  }

  #announce (): void {
    this.#headAt = this.#now
    for (const peer of this.#peers) if (this.#feeding.ends(peer)) this.#send(peer, headOf(this.#host))
  }

  #tick (): void {
    if (this.#learning !== null) {
      if (this.#learning.done(this.#now)) this.#settle()
      else this.#out.push({ type: 'wake', ms: LEARN_MS })
      return
    }
    if (this.#isMaster) {
      this.#feeding.flush()
      if (this.#now - this.#headAt >= HEAD_MS) this.#announce()
      for (const peer of this.#feeding.giveUpStalled()) this.#send(peer, headOf(this.#host))
      return
    }
    if (this.#fetching !== null) this.#fetch()
    if (this.#asked !== null) this.#askUnlessAsked()
    if (this.#sent !== null && this.#now - this.#sent.at >= RESEND_MS) this.#sent = null
    this.#forward()
  }

  #receive (from: string, raw: unknown): void {
    const message = readMessage(raw)
    if (message === null) {
      this.garbled++
      return
    }
    switch (message.type) {
      case 'want': this.#onWant(from, message); break
      case 'submit': this.#onSubmit(from, message); break
      case 'page': this.#onPage(from, message); break
      case 'head': this.#onHead(from, message); break
      case 'append': this.#onAppend(from, message); break
      case 'took': this.#onTook(from, message)
    }
  }

  #hearOf (idx: number): void { this.#highestHeard = Math.max(this.#highestHeard, idx) }

  /** True for a message of the master that this node follows, in its session. */
  #isFromMaster (from: string, sid: string): boolean {
    return !this.#isMaster && from === this.#master && sid === this.#sid
  }

  #onWant (from: string, want: Of<'want'>): void {
    const { have, above = 0 } = want
    this.#hearOf(Math.max(have[0]?.idx ?? 0, above))
    this.#feeding.asked(from, want)
  }

  #onTook (from: string, { sid, last }: Of<'took'>): void {
    if (this.#settled && sid === this.#sid) this.#feeding.took(from, last.idx)
  }

  #onSubmit (from: string, { sid, events }: Of<'submit'>): void {
    if (!this.#settled || sid !== this.#sid) return
    const known = events.some((e) => this.#log.has(e.id))
    this.#assign(events)
    // The follower has not seen entries that are in the log: the head shows it that it is behind.
    if (known) this.#send(from, headOf(this.#host))
  }

  #onHead (from: string, { sid, last }: Of<'head'>): void {
    this.#hearOf(last.idx)
    if (!this.#isFromMaster(from, sid)) return
    // The logs are equal, so a submission that is still open was lost, or came before the master was ready.
    if (samePosition(last, this.#log.last)) {
      this.#met = true
      this.#asked = null
      this.#sent = null
    } else {
      this.#askUnlessAsked()
    }
    this.#forward()
  }

  #onAppend (from: string, { sid, entries, last }: Of<'append'>): void {
    this.#hearOf((last ?? entries.at(-1))?.idx ?? 0)
    if (!this.#isFromMaster(from, sid)) return
    const fits = entries.every((entry) => this.#log.holds(entry) || this.#append(entry))
    if (!fits) this.#askUnlessAsked()
    if (last !== undefined && samePosition(this.#log.last, last)) this.#met = true
    if (fits && this.#log.last.idx - this.#acknowledged >= TOOK_IDX) this.#acknowledge(from)
    this.#forward()
  }

  #acknowledge (master: string): void {
    const last = place(this.#log.last)
    this.#acknowledged = last.idx
    this.#send(master, { type: 'took', sid: this.#sid, last })
  }

  #append (entry: Entry): boolean {
    if (!this.#log.append(entry)) return false
    this.#outbox.settle(entry.id)
    const sent = this.#sent
    if (sent?.ids.delete(entry.id) === true && sent.ids.size === 0) this.#sent = null
    return true
  }

  #askUnlessAsked (): void {
    if (this.#fetching !== null) return
    if (this.#asked === null || this.#now - this.#asked.at >= RESEND_MS) this.#ask(this.#asked?.n)
  }

  /** `n`: of the question that is repeated, so that a late answer to the first one still counts. */
  #ask (n = ++this.#questions): void {
    const master = this.#reachableMaster()
    if (master === null) return
    this.#asked = { n, at: this.#now }
    const have = this.#log.locator()
    this.#send(master, { type: 'want', sid: this.#sid, n, learn: false, have, above: this.highest })
  }

  #onPage (from: string, page: Of<'page'>): void {
    this.#hearOf(Math.max(page.last.idx, page.above ?? 0))
    if (this.#learning !== null && page.sid === this.#sid) {
      this.#learn(this.#learning.page(from, page, (entry) => this.#append(entry), this.#now))
    } else if (this.#fetching?.page(from, page, (entry) => this.#append(entry)) === true) {
      this.#fetch()
    } else if (this.#isFromMaster(from, page.sid) && page.n === this.#asked?.n) {
      this.#asked = null
      if (!this.#gaveUp && this.#log.last.idx < page.base.idx) this.#startFetching(page.base)
      else this.#follow(page)
      this.#forward()
    }
  }

  /** This log ends before the master's begins: other peers may have what is between. */
  #startFetching (target: Position): void {
    const others = [...this.#peers].filter((peer) => peer !== this.#master)
    this.#fetching = createFetching(this.#log, target, others)
    this.#fetch()
  }

  #fetch (): void {
    const fetching = this.#fetching!
    const peer = fetching.next(this.#now)
    if (peer === 'waiting') return
    if (peer === null) {
      this.#gaveUp = !fetching.whole
      this.#fetching = null
      this.#ask()
      return
    }
    fetching.asked(peer, ++this.#questions, this.#now)
    const have = this.#log.locator()
    this.#send(peer, { type: 'want', sid: this.#sid, n: this.#questions, learn: true, have })
  }

  /** Makes this log equal to the master's as far as the page goes; other events go back to the outbox. */
  #follow (page: Of<'page'>): void {
    const { state, removed } = adopt(this.#log, page, (entry) => this.#append(entry))
    this.#takeBack(removed)
    // The acknowledgement: the master sends what comes next without being asked.
    if (state !== 'broken') this.#acknowledge(this.#master!)
    if (state === 'whole') {
      this.#met = true
      this.#gaveUp = false
    }
  }

  #takeBack (entries: readonly Entry[]): void {
    // Some of them are in the new tail as well.
    const missing = entries.filter((entry) => !this.#log.has(entry.id))
    const lost = this.#outbox.takeBack(missing.map(submissionOf))
    this.#dropped.add(lost, this.#log.last.idx)
  }
}
