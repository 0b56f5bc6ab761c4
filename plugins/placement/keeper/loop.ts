import { SvcError } from '../../../kernel/index.js'
import type { Clock, Cluster, Logger, Section, Session } from '../../../kernel/index.js'
import { bodyOf, changed } from '../../runners/service.js'
import type { Instances } from '../../runners/service.js'
import { MESSAGE_CHARS_MAX } from '../sections.js'
import type { StoppedEntry, WaitingEntry } from '../sections.js'
import type { ReadState, StateView } from '../state-view.js'
import { decide, serves } from './decide.js'
import type { Step } from './decide.js'
import { LostNodes } from './lost-nodes.js'
import type { Losses } from './lost-nodes.js'
import { isLater, Placing } from './placing.js'
import type { PlacingParts } from './placing.js'
import { Stalls } from './stalls.js'

/** How often it is looked where something goes on or has changed without a sign of its own, ms. */
export const LOOK_EVERY_MS = 1000
/** Signs that come within this time are one, ms. */
export const GATHER_MS = 50
/** So long an instance may go on with what it has while its node stops, which ends it before, seconds. */
const LEAVE_SECONDS = 30
/** Error code of an instance that stands still. */
const NO_PROGRESS = 'no_progress'

export interface KeeperParts extends PlacingParts {
  clock: Clock
  log: Logger
  session: Session
  cluster: Pick<Cluster, 'nodes' | 'self'>
  readState: ReadState
  instances: Pick<Instances, 'place' | 'remove' | 'drain' | 'recordFailure'>
  waiting: Pick<Section<WaitingEntry>, 'entries' | 'get'>
  stopped: Pick<Section<StoppedEntry>, 'entries'>
  /** Models the cluster places by itself. Throws when a card cannot be read. */
  autoplace (): readonly string[]
  wait (id: string, entry: WaitingEntry): Promise<unknown>
  note (id: string, reason: string, message: string): Promise<unknown>
  unwait (id: string): Promise<unknown>
}

/**
 * Keeps what was placed in place: on the master it looks at what is there, decides, and does it. One look at
 * a time. On other nodes it only notes who is missing.
 */
export class Keeper {
  readonly #parts: KeeperParts
  readonly #placing: Placing
  readonly #lost = new LostNodes()
  readonly #stalls = new Stalls()
  #session = ''
  #sessionSince: number
  #lookedAt = -Infinity
  #busy: Promise<void> | null = null
  #again = false
  #cancel: (() => void) | null = null
  #closed = false
  #unread = false
  /** Something of the state changed since it was read. */
  #changed = true
  /** Something is not as it is to be, so that time alone may bring something to do. */
  #unsettled = true
  /** The nodes as they were when the state was read. */
  #nodesSeen = ''

  constructor (parts: KeeperParts) {
    this.#parts = parts
    this.#placing = new Placing(parts)
    this.#sessionSince = parts.clock.mono()
  }

  /** Something changed: looks soon, after a pause at once. */
  poke (): void { this.#lookIn(this.#lookedAt + GATHER_MS - this.#parts.clock.mono()) }

  /** Something of the state changed: the next tick looks. */
  stateChanged (): void { this.#changed = true }

  /**
   * Looks unless all is as it was and as it is to be: then the state, which is large, is not even read. What
   * a node that is not the master notes costs nothing.
   */
  tick (): void {
    const { session } = this.#parts
    const quiet = session.isMaster && !this.#changed && !this.#unsettled && this.#nodesSeen === this.#nodes()
    if (!quiet) this.poke()
  }

  /** The session changed, or its master is lost. */
  sessionChanged (): void {
    const { session, clock } = this.#parts
    if (session.sessionId !== this.#session) this.#sessionSince = clock.mono()
    this.#session = session.sessionId
    this.poke()
  }

  /** Nothing is looked at any more. A command under way, which may wait for a master, is left alone. */
  close (): void {
    this.#closed = true
    this.#cancel?.()
    this.#cancelWake()
  }

  #lookIn (ms: number): void {
    if (this.#busy !== null) {
      this.#again = true
      return
    }
    if (this.#cancel !== null || this.#closed) return
    this.#cancel = this.#parts.clock.after(Math.max(0, ms), () => {
      this.#cancel = null
      this.#lookedAt = this.#parts.clock.mono()
      this.#busy = this.#look().catch((error: unknown) => { this.#failed(error) })
        .finally(() => {
          this.#busy = null
          const again = this.#again
          this.#again = false
          if (again) this.poke()
        })
    })
  }

  #failed (error: unknown): void {
    const { log } = this.#parts
    if (isLater(error)) log.debug({ err: error }, 'the placements are looked at again')
    else log.warn({ err: error }, 'the placements could not be brought in line')
  }

  async #look (): Promise<void> {
    const { session, readState, cluster } = this.#parts
    if (!session.isMaster) {
      this.#losses([])
      return
    }
    const sessionId = session.sessionId
    const still = (): boolean => session.isMaster && session.sessionId === sessionId && !this.#closed
    this.#changed = false
    this.#unsettled = true
    this.#nodesSeen = this.#nodes()
    let state = await readState()
    if (!still()) return
    const losses = this.#losses(Object.values(state.instances), reachedByOthers(state, cluster.self.nodeId))
    state = this.#recordStalls(state, losses)
    let failed = false
    for (const step of this.#decide(state, losses)) {
      if (!still()) return
      try {
        state = await this.#do(step, state, still)
      } catch (error) {
        // What cannot be done for one instance does not keep the others from their places.
        if (isLater(error)) throw error
        this.#failed(error)
        failed = true
      }
    }
    this.#unsettled = failed || this.#goesOn(state, losses)
    this.#wake(losses)
  }

  /** Whether anything is under way: it waits, starts, has failed or may be lost. */
  #goesOn ({ instances, runners }: StateView, { nextMs }: Losses): boolean {
    const { cluster, waiting } = this.#parts
    return nextMs !== null || this.#unread || [...waiting.entries()].length > 0 ||
      cluster.nodes().some(({ live, leaving }) => live && leaving === true) ||
      Object.values(instances).some((one) => !serves({ runners }, one))
  }

  #nodes (): string {
    return this.#parts.cluster.nodes().map(({ nodeId, live, leaving }) =>
      `${nodeId} ${live} ${leaving === true}`).join()
  }

  #losses (instances: StateView['instances'][string][], reached?: ReadonlySet<string>): Losses {
    const { clock, cluster } = this.#parts
    const now = clock.mono()
    return this.#lost.look(instances, cluster.nodes(), now, now - this.#sessionSince, reached)
  }

  #decide (state: StateView, { gone }: Losses): Step[] {
    const { clock, cluster, waiting, stopped, newId } = this.#parts
    const nodes = cluster.nodes()
    const entries = new Map([...waiting.entries()].map(({ key, value }) => [key, value]))
    const live = nodes.filter((node) => node.live).map(({ nodeId }) => nodeId)
    const leaving = nodes.filter((node) => node.leaving === true).map(({ nodeId }) => nodeId)
    this.#placing.notice(state, live, new Set(entries.keys()))
    return decide({
      now: clock.now(),
      instances: Object.values(state.instances),
      runners: state.runners as Record<string, Record<string, unknown>>,
      failures: state.instanceFailures,
      nodes, gone, leaving: new Set(leaving), autoplace: this.#autoplace(),
      waiting: entries,
      stopped: new Set([...stopped.entries()].map(({ key }) => key))
    }, { newId, fits: (modelId, intent) => this.#placing.fits(modelId, intent, state) })
  }

  /** None while a card among them cannot be read: what is placed is kept all the same. */
  #autoplace (): readonly string[] {
    try {
      const models = this.#parts.autoplace()
      this.#unread = false
      return models
    } catch (error) {
      if (!this.#unread) this.#parts.log.error({ err: error }, 'nothing is placed by itself')
      this.#unread = true
      return []
    }
  }

  /** Carries out a step; the state after it. `still` says whether the session goes on. */
  async #do (step: Step, state: StateView, still: () => boolean): Promise<StateView> {
    const { log, wait, unwait } = this.#parts
    switch (step.do) {
      case 'forget':
        log.info({ instanceId: step.id, why: step.why }, 'an instance waits no more')
        await unwait(step.id)
        return state
      case 'wait':
        await wait(step.id, step.entry)
        return state
      case 'lose': {
        const { modelId, reason, message } = step.entry
        log.warn({ instanceId: step.id, modelId, reason, message }, 'an instance is to be placed anew')
        await wait(step.id, step.entry)
        // Somebody removed it at the same moment: then it is not wanted any more. In a new session that was
        // its master, which goes by the entry.
        if (!await this.#remove(step.id) && still()) await unwait(step.id)
        return without(state, step.id)
      }
      case 'move':
        log.info({ instanceId: step.id }, 'an instance is placed elsewhere: its node stops')
        await wait(step.id, step.entry)
        if (!await this.#drain(step.id) && still()) await unwait(step.id)
        return ending(state, step.id)
      case 'remove':
        await this.#remove(step.id)
        return without(state, step.id)
      case 'place':
        return await this.#place(step.id, step.entry, state)
    }
  }

  /** False when it was gone. */
  async #remove (id: string): Promise<boolean> {
    // A runner here that is slow to end keeps nobody else waiting for a place.
    return await wasThere(this.#parts.instances.remove(id, { ended: false }))
  }

  /** False when it was gone. */
  async #drain (id: string): Promise<boolean> {
    return await wasThere(this.#parts.instances.drain(id, { seconds: LEAVE_SECONDS }))
  }

  async #place (id: string, entry: WaitingEntry, state: StateView): Promise<StateView> {
    const { clock, log, waiting, note, unwait } = this.#parts
    // First what it is to take the place of must be gone, or take no new requests.
    const before = state.instances[id]
    if (waiting.get(id) === undefined) return state
    if (before !== undefined && bodyOf(before).drainUntil === undefined) return state
    if (this.#placing.pause(id, clock.mono()) > 0) return state
    const tried = await this.#placing.place(id, entry, state, clock.mono())
    if (tried.ok) {
      const { instanceId } = bodyOf(tried.instance)
      log.info({ instanceId, modelId: entry.modelId, replaces: id }, 'an instance was placed')
      await unwait(id)
      return { ...state, instances: { ...state.instances, [instanceId]: tried.instance } }
    }
    const { reason, message } = tried
    // Numbers in a message change all the time, and each change would grow the document.
    if (reason !== entry.reason) await note(id, reason, message.slice(0, MESSAGE_CHARS_MAX))
    return state
  }

  /** Instances of which nothing moves have failed. */
  #recordStalls (state: StateView, { gone }: Losses): StateView {
    const { instances, clock } = this.#parts
    const stalls = this.#stalls.look(state, clock.mono())
    const stalled = new Set(stalls.map(({ instanceId }) => instanceId))
    const known = new Set(state.instanceFailures.map(({ instanceId }) => instanceId))
    const failures = stalls
      .filter(({ instanceId, nodeIds }) => !known.has(instanceId) && !nodeIds.some((id) => gone.has(id)))
      .map(({ instanceId, modelId, nodeIds, seconds }) => ({
        instanceId, modelId, errorCode: NO_PROGRESS, affectedNodeIds: nodeIds,
        errorMessage: `Nothing has moved for ${Math.round(seconds)} s.`
      }))
    for (const failure of failures) instances.recordFailure(failure)
    // The record of one that got on after all says nothing of a runner that starts again later.
    const told = state.instanceFailures.filter(({ instanceId, errorCode }) =>
      errorCode !== NO_PROGRESS || stalled.has(instanceId))
    return { ...state, instanceFailures: [...failures, ...told] }
  }

  /** Looks again when a node may be gone, or a place is to be looked for again. */
  #wake ({ nextMs }: Losses): void {
    const { clock, waiting } = this.#parts
    const now = clock.mono()
    const pauses = [...waiting.entries()].map(({ key }) => this.#placing.pause(key, now))
    const next = Math.min(...pauses.filter((ms) => ms > 0), nextMs ?? Infinity)
    if (next >= LOOK_EVERY_MS || this.#closed) return
    this.#cancelWake()
    this.#cancelWake = clock.after(Math.max(next, GATHER_MS), () => { this.poke() })
  }

  #cancelWake: () => void = () => {}
}

/** Ids of the nodes that another live node says it is linked with. */
function reachedByOthers ({ topology }: StateView, self: string): Set<string> {
  return new Set(Object.entries(topology.connections)
    .flatMap(([from, sinks]) => from === self ? [] : Object.keys(sinks)))
}

async function wasThere (work: Promise<void>): Promise<boolean> {
  try {
    await work
    return true
  } catch (error) {
    if (error instanceof SvcError && error.reason === 'instance_not_found') return false
    throw error
  }
}

/** The state once the instance takes no new requests. */
function ending (state: StateView, id: string): StateView {
  const drained = changed(state.instances[id]!, { drainUntil: new Date(0).toISOString() })
  return { ...state, instances: { ...state.instances, [id]: drained } }
}

function without (state: StateView, id: string): StateView {
  const instances = Object.entries(state.instances).filter(([key]) => key !== id)
  return { ...state, instances: Object.fromEntries(instances) }
}
