import { HomeError, isHardState, readVersioned, writeVersioned, type Clock } from '../../kernel/cluster.js'
import { Election, type ElectionOptions, type Status } from './election/core.js'
import { DEFAULT_TIMING, TICK, type Timing } from './election/timing.js'
import type { HardStateRecord, Io, Leader, Log, Message, Outcome } from './election/protocol.js'

/** Events of the election, each emitted after the step that caused it. */
export type ElectionEvents = Pick<Io, 'sessionChanged' | 'becameMaster' | 'storageChanged' | 'staleRefused'>

export interface DriverOptions extends ElectionOptions, Pick<Io, 'persist' | 'random'> {
  /** A `lazy` message may be delayed briefly, so that it shares a write with other frames. */
  send (to: string, message: Message, lazy: boolean): void
  log: Log, clock: Clock, timing: Timing, events: ElectionEvents
}

/** Maximum election steps that a lone node runs at startup; it needs fewer to become master. */
const STEPS_TO_MASTER = 8

/** Runs the election core in real time; sends messages and reports events after each step. */
export class ElectionDriver {
  readonly #core: Election
  readonly #clock: Clock
  readonly #options: DriverOptions
  readonly #tickMs: number
  readonly #open = new Map<string, ((outcome: Outcome) => void)[]>()
  /** For each open stream, the callback to run when the session ends. */
  readonly #ends = new Map<string, () => void>()
  readonly #unbound = new Set<string>()
  #outbox: { to: string, message: Message }[] = []
  #effects: (() => void)[] = []
  #stepping = false
  #stop: (() => void) | undefined

  /** Throws RangeError for a quorum that both halves of a split cluster could reach. */
  constructor (options: DriverOptions) {
    this.#options = options
    this.#clock = options.clock
    this.#tickMs = Math.max(10, TICK * options.timing.heartbeat / DEFAULT_TIMING.heartbeat)
    this.#core = new Election(options, this.#io(), options.log)
  }

  start (alone: boolean): void {
    this.#stop = this.#clock.every(this.#tickMs, () => { this.tick() })
    this.#step((core, now) => { core.start(now) })
    if (!alone) return
    const { grace } = this.#options.timing
    for (let i = 0; i < STEPS_TO_MASTER && this.#core.role !== 'master'; i++) {
      this.#step((core, now) => { core.tick(now + grace * 2) })
    }
  }

  stop (): void { this.#stop?.() }

  tick (): void { this.#step((core, now) => { core.tick(now) }, true) }
  beat (): void { this.#step((core, now) => { core.beat(now) }, true) }

  /** Returns false if the core ignored the message. */
  receive (from: string, value: unknown): boolean {
    let taken = false
    this.#step((core, now) => { taken = core.receive(from, value, now) })
    return taken
  }

  up (peer: string): void { this.#step((core, now) => { core.up(peer, now) }) }
  down (peer: string): void { this.#step((core, now) => { core.down(peer, now) }) }
  /** Records that a frame of another kind arrived, which shows that the peer is alive. */
  recordContact (peer: string): void { this.#core.recordContact(peer, this.#clock.mono()) }
  forget (peer: string): void { this.#core.forget(peer) }
  storageFailed (): void { this.#step((core, now) => { core.storageFailed(now) }) }
  resign (): void { this.#step((core, now) => { core.resign(now) }) }

  /** Submits a command and resolves with its outcome. Concurrent calls with the same id share one outcome. */
  async command (id: string, payload: unknown): Promise<Outcome> {
    return await this.#submit(id, (core, now) => { core.command(id, payload, now) })
  }

  async changeVoters (id: string, voters: readonly string[]): Promise<Outcome> {
    return await this.#submit(id, (core, now) => { core.changeVoters(id, voters, now) })
  }

  /**
   * Binds a stream to this session, or to the next one if there is no master. `end` runs once if that session
   * ends first. Returns the function to call when the stream ends.
   */
  openStream (id: string, end: () => void): () => void {
    this.#ends.set(id, end)
    if (this.leader === null) this.#unbound.add(id)
    else this.#step((core) => { core.openStream(id) })
    return () => {
      this.#ends.delete(id)
      if (!this.#unbound.delete(id)) this.#core.closeStream(id)
    }
  }

  status (): Status {
    // During a step (an effect may call this), the core's time is already up to date.
    if (!this.#stepping) this.#step((core, now) => { core.wake(now) })
    return this.#core.status(this.#clock.mono())
  }

  get wokeAt (): number { return this.#core.wokeAt }
  get isWaking (): boolean { return this.#core.isWaking(this.#clock.mono()) }
  get leader (): Leader | null { return this.#core.leader }
  get isMaster (): boolean { return this.#core.role === 'master' }

  async #submit (id: string, act: (core: Election, now: number) => void): Promise<Outcome> {
    return await new Promise((resolve) => {
      const waiting = this.#open.get(id)
      if (waiting === undefined) this.#open.set(id, [resolve])
      else waiting.push(resolve)
      this.#step(act)
    })
  }

  #bind (): void {
    const waiting = [...this.#unbound]
    this.#unbound.clear()
    for (const id of waiting) this.#step((core) => { core.openStream(id) })
  }

  #ended (stream: string): void {
    const end = this.#ends.get(stream)
    this.#ends.delete(stream)
    end?.()
  }

  #step (act: (core: Election, now: number) => void, tick = false): void {
    // A step that is requested during another one runs after it.
    if (this.#stepping) {
      this.#effects.push(() => { this.#step(act, tick) })
      return
    }
    this.#stepping = true
    try { act(this.#core, this.#clock.mono()) } finally { this.#stepping = false }
    const outbox = this.#outbox
    this.#outbox = []
    for (const { to, message } of outbox) {
      this.#options.send(to, message, tick && message.kind === 'heartbeat')
    }
    for (let effect = this.#effects.shift(); effect !== undefined; effect = this.#effects.shift()) effect()
  }

  #io (): Io {
    const { events, persist, random } = this.#options
    const later = <A extends unknown[]>(act: (...args: A) => void) => (...args: A): void => {
      this.#effects.push(() => { act(...args) })
    }
    return {
      send: (to, message) => { this.#outbox.push({ to, message }) },
      persist,
      random,
      terminal: later((stream) => { this.#ended(stream) }),
      commandResult: later((id, outcome) => {
        const waiting = this.#open.get(id) ?? []
        this.#open.delete(id)
        for (const resolve of waiting) resolve(outcome)
      }),
      becameMaster: later((leader) => { events.becameMaster(leader) }),
      sessionChanged: later((next, previous) => {
        if (next !== null) this.#bind()
        events.sessionChanged(next, previous)
      }),
      storageChanged: later((storing) => { events.storageChanged(storing) }),
      staleRefused: later((stale, voted) => { events.staleRefused(stale, voted) })
    }
  }
}

/** Reads the hard state of a home; null on the first start. Throws HomeError for a broken file. */
export function readHardState (path: string | null): HardStateRecord | null {
  const stored = path === null ? undefined : readVersioned<HardStateRecord>(path, 1)
  if (stored === undefined) return null
  if (!isHardState(stored)) throw new HomeError(`${path} does not contain a valid vote record; move it away`)
  const { term, votedFor, boot } = stored
  return { term, votedFor, boot }
}

/** Writes atomically and durably; false if the disk refused. */
export function writeHardState (path: string | null, record: HardStateRecord): boolean {
  if (path === null) return true
  try {
    writeVersioned(path, 1, record)
    return true
  } catch { return false }
}
