import { SvcError } from '../../../kernel/index.js'
import type { Clock, Cluster, Logger, Section, Session } from '../../../kernel/index.js'
import { bodyOf } from '../../runners/service.js'
import type { Instances } from '../../runners/service.js'
import { MESSAGE_CHARS_MAX } from '../sections.js'
import type { StoppedEntry, WaitingEntry } from '../sections.js'
import type { ReadState, StateView } from '../state-view.js'
import { decide } from './decide.js'
import type { Step } from './decide.js'
import { LostNodes } from './lost-nodes.js'
import type { Losses } from './lost-nodes.js'
import { isLater, Placing } from './placing.js'
import type { PlacingParts } from './placing.js'
import { Stalls } from './stalls.js'

/** How often it is looked without a sign, ms. */
export const LOOK_EVERY_MS = 1000
/** Signs that come within this time are one, ms. */
export const GATHER_MS = 50
/** Error code of an instance that stands still. */
const NO_PROGRESS = 'no_progress'

export interface KeeperParts extends PlacingParts {
  clock: Clock
  log: Logger
  session: Session
  cluster: Pick<Cluster, 'nodes'>
  readState: ReadState
  instances: Pick<Instances, 'place' | 'remove' | 'recordFailure'>
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

  constructor (parts: KeeperParts) {
    this.#parts = parts
    this.#placing = new Placing(parts)
    this.#sessionSince = parts.clock.mono()
  }

  /** Something changed: looks soon, after a pause at once. */
  poke (): void { this.#lookIn(this.#lookedAt + GATHER_MS - this.#parts.clock.mono()) }

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
    const { session, readState } = this.#parts
    if (!session.isMaster) {
      this.#losses([])
      return
    }
    const sessionId = session.sessionId
    const still = (): boolean => session.isMaster && session.sessionId === sessionId && !this.#closed
    let state = await readState()
    if (!still()) return
    const losses = this.#losses(Object.values(state.instances))
    state = this.#recordStalls(state, losses)
    for (const step of this.#decide(state, losses)) {
      if (!still()) return
      try {
        state = await this.#do(step, state, still)
      } catch (error) {
        // What cannot be done for one instance does not keep the others from their places.
        if (isLater(error)) throw error
        this.#failed(error)
      }
    }
    this.#wake(losses)
  }

  #losses (instances: StateView['instances'][string][]): Losses {
    const { clock, cluster } = this.#parts
    const now = clock.mono()
    return this.#lost.look(instances, cluster.nodes(), now, now - this.#sessionSince)
  }

  #decide (state: StateView, { gone }: Losses): Step[] {
    const { clock, cluster, waiting, stopped, newId } = this.#parts
    const nodes = cluster.nodes()
    const entries = new Map([...waiting.entries()].map(({ key, value }) => [key, value]))
    const live = nodes.filter((node) => node.live).map(({ nodeId }) => nodeId)
    this.#placing.notice(state, live, new Set(entries.keys()))
    return decide({
      now: clock.now(),
      instances: Object.values(state.instances),
      runners: state.runners as Record<string, Record<string, unknown>>,
      failures: state.instanceFailures,
      nodes, gone, autoplace: this.#autoplace(),
      waiting: entries,
      stopped: new Set([...stopped.entries()].map(({ key }) => key))
    }, { newId, fits: (modelId, intent) => this.#placing.fits(modelId, intent, state) })
  }

  /** None while a card among them cannot be read: what is placed is kept all the same. */
  #autoplace (): readonly string[] {
    try {
      return this.#parts.autoplace()
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
      case 'remove':
        await this.#remove(step.id)
        return without(state, step.id)
      case 'place':
        return await this.#place(step.id, step.entry, state)
    }
  }

  /** False when it was gone. */
  async #remove (id: string): Promise<boolean> {
    try {
      // A runner here that is slow to end keeps nobody else waiting for a place.
      await this.#parts.instances.remove(id, { ended: false })
      return true
    } catch (error) {
      if (error instanceof SvcError && error.reason === 'instance_not_found') return false
      throw error
    }
  }

  async #place (id: string, entry: WaitingEntry, state: StateView): Promise<StateView> {
    const { clock, log, waiting, note, unwait } = this.#parts
    // First what it is to take the place of must be gone.
    if (Object.hasOwn(state.instances, id) || waiting.get(id) === undefined) return state
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

function without (state: StateView, id: string): StateView {
  const instances = Object.entries(state.instances).filter(([key]) => key !== id)
  return { ...state, instances: Object.fromEntries(instances) }
}
