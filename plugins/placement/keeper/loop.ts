import { SvcError } from '../../../kernel/index.js'
import type { Clock, Cluster, Logger, NodeView, Section, Session } from '../../../kernel/index.js'
import { bodyOf } from '../../runners/service.js'
import type { Instance, Instances } from '../../runners/service.js'
import type { Facts, FactsReader, InstanceFailure } from '../facts.js'
import { MESSAGE_CHARS_MAX } from '../waitlist.js'
import type { StoppedEntry, WaitingEntry } from '../waitlist.js'
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
  facts: Pick<FactsReader, 'now'>
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
  /** When the next look begins, monotonic ms, and what calls it off. */
  #dueAt = Infinity
  #cancel: () => void = () => {}
  #looking = false
  #closed = false
  /** The list of models that are placed by themselves could not be read. */
  #unread = false
  /** Something changed since the last look. */
  #changed = true
  /** Something is not as it is to be, so that time alone may bring something to do. */
  #unsettled = true
  /** The nodes as they were at the last look. */
  #nodesSeen = ''

  constructor (parts: KeeperParts) {
    this.#parts = parts
    this.#placing = new Placing(parts)
    this.#sessionSince = parts.clock.mono()
  }

  /** Something changed: looks soon, after a pause at once. */
  poke (): void { this.#lookBy(this.#lookedAt + GATHER_MS) }

  /** Something changed that need not be seen at once: the next tick looks. */
  stateChanged (): void { this.#changed = true }

  /**
   * Looks unless all is as it was and as it is to be. What a node that is not the master notes costs nothing.
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
    this.#cancel()
  }

  /** Looks at that time, unless it looks earlier anyway. */
  #lookBy (at: number): void {
    if (this.#closed || at >= this.#dueAt) return
    const { clock } = this.#parts
    this.#cancel()
    this.#dueAt = at
    if (this.#looking) return
    this.#cancel = clock.after(Math.max(0, at - clock.mono()), () => { void this.#lookNow() })
  }

  async #lookNow (): Promise<void> {
    this.#dueAt = Infinity
    this.#looking = true
    this.#lookedAt = this.#parts.clock.mono()
    await this.#look().catch((error: unknown) => { this.#failed(error) })
    this.#looking = false
    // What was asked for meanwhile.
    const next = this.#dueAt
    this.#dueAt = Infinity
    this.#lookBy(next)
  }

  #failed (error: unknown): void {
    const { log } = this.#parts
    if (isLater(error)) log.debug({ err: error }, 'the placements are looked at again')
    else log.warn({ err: error }, 'the placements could not be brought in line')
  }

  async #look (): Promise<void> {
    const { session, facts: reader, cluster } = this.#parts
    if (!session.isMaster) {
      this.#losses([], cluster.nodes(), new Set())
      return
    }
    const sessionId = session.sessionId
    const still = (): boolean => session.isMaster && session.sessionId === sessionId && !this.#closed
    this.#changed = false
    this.#unsettled = true
    this.#nodesSeen = this.#nodes()
    const facts = reader.now()
    const losses = this.#losses(Object.values(facts.instances), facts.nodes.map(({ view }) => view),
      reachedByOthers(facts, cluster.self.nodeId))
    const steps = this.#decide(facts, losses)
    for (const step of steps) {
      if (!still()) return
      try {
        await this.#do(step, still)
      } catch (error) {
        // What cannot be done for one instance does not keep the others from their places.
        if (isLater(error)) throw error
        this.#failed(error)
      }
    }
    this.#unsettled = steps.length > 0 || this.#goesOn(facts, losses)
    this.#wake(losses)
  }

  /** Whether anything is under way: it starts, has failed or may be lost. */
  #goesOn ({ instances, nodes, runners }: Facts, { nextMs }: Losses): boolean {
    return nextMs !== null || this.#unread ||
      nodes.some(({ view: { live, leaving } }) => live && leaving === true) ||
      Object.values(instances).some((one) => !serves({ runners }, one))
  }

  #nodes (): string {
    return this.#parts.cluster.nodes().map(({ nodeId, live, leaving }) =>
      `${nodeId} ${live} ${leaving === true}`).join()
  }

  #losses (
    instances: readonly Instance[], nodes: readonly NodeView[], reached: ReadonlySet<string>
  ): Losses {
    const now = this.#parts.clock.mono()
    return this.#lost.look(instances, nodes, now, now - this.#sessionSince, reached)
  }

  #decide (facts: Facts, losses: Losses): Step[] {
    const { clock, waiting, stopped, newId } = this.#parts
    const nodes = facts.nodes.map(({ view }) => view)
    const entries = new Map([...waiting.entries()].map(({ key, value }) => [key, value]))
    this.#placing.notice(facts, new Set(entries.keys()))
    return decide({
      now: clock.now(),
      instances: Object.values(facts.instances),
      runners: facts.runners,
      failures: this.#failures(facts, losses),
      nodes,
      gone: losses.gone,
      leaving: new Set(nodes.filter((node) => node.leaving === true).map(({ nodeId }) => nodeId)),
      autoplace: this.#autoplace(),
      waiting: entries,
      stopped: new Set([...stopped.entries()].map(({ key }) => key))
    }, { newId, fits: (modelId, intent) => this.#placing.fits(modelId, intent, facts) })
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

  /** Carries out a step. `still` says whether the session goes on. */
  async #do (step: Step, still: () => boolean): Promise<void> {
    const { log, instances, wait, unwait } = this.#parts
    switch (step.do) {
      case 'forget':
        log.info({ instanceId: step.id, why: step.why }, 'an instance waits no more')
        await unwait(step.id)
        return
      case 'wait':
        await wait(step.id, step.entry)
        return
      case 'lose': {
        const { modelId, reason, message } = step.entry
        log.warn({ instanceId: step.id, modelId, reason, message }, 'an instance is to be placed anew')
        await wait(step.id, step.entry)
        // Somebody removed it at the same moment: then it is not wanted any more. Where the session has
        // ended, it was the next master, which goes by the entry.
        if (!await this.#remove(step.id) && still()) await unwait(step.id)
        return
      }
      case 'move':
        log.info({ instanceId: step.id }, 'an instance is placed elsewhere: its node stops')
        await wait(step.id, step.entry)
        if (!await wasThere(instances.drain(step.id, { seconds: LEAVE_SECONDS })) && still()) {
          await unwait(step.id)
        }
        return
      case 'remove':
        await this.#remove(step.id)
        return
      case 'place':
        await this.#place(step.id, step.entry)
    }
  }

  /** False when it was gone. A runner here that is slow to end keeps nobody else waiting for a place. */
  async #remove (id: string): Promise<boolean> {
    return await wasThere(this.#parts.instances.remove(id, { ended: false }))
  }

  async #place (id: string, entry: WaitingEntry): Promise<void> {
    const { clock, log, waiting, facts: reader, note, unwait } = this.#parts
    const facts = reader.now()
    // First what it is to take the place of must be gone, or take no new requests.
    const before = facts.instances[id]
    if (waiting.get(id) === undefined || this.#placing.pause(id, clock.mono()) > 0) return
    if (before !== undefined && bodyOf(before).drainUntil === undefined) return
    const tried = await this.#placing.place(id, entry, facts, clock.mono())
    if (tried.ok) {
      const { instanceId } = bodyOf(tried.instance)
      log.info({ instanceId, modelId: entry.modelId, replaces: id }, 'an instance was placed')
      await unwait(id)
      return
    }
    const { reason, message } = tried
    // Numbers in a message change all the time, and each change would grow the document.
    if (reason !== entry.reason) await note(id, reason, message.slice(0, MESSAGE_CHARS_MAX))
  }

  /** Why instances have failed; those of which nothing moves count as failed, and are recorded. */
  #failures (facts: Facts, { gone }: Losses): readonly InstanceFailure[] {
    const { instances, clock } = this.#parts
    const stalls = this.#stalls.look(facts, clock.mono())
    const stalled = new Set(stalls.map(({ instanceId }) => instanceId))
    const known = new Set(facts.instanceFailures.map(({ instanceId }) => instanceId))
    const failures = stalls
      .filter(({ instanceId, nodeIds }) => !known.has(instanceId) && !nodeIds.some((id) => gone.has(id)))
      .map(({ instanceId, modelId, nodeIds, seconds }) => ({
        instanceId, modelId, errorCode: NO_PROGRESS, affectedNodeIds: nodeIds,
        errorMessage: `Nothing has moved for ${Math.round(seconds)} s.`
      }))
    for (const failure of failures) instances.recordFailure(failure)
    // The record of one that got on after all says nothing of a runner that starts again later.
    const told = facts.instanceFailures.filter(({ instanceId, errorCode }) =>
      errorCode !== NO_PROGRESS || stalled.has(instanceId))
    return [...failures, ...told]
  }

  /** Looks again when a node may be gone, or a place is to be looked for again. */
  #wake ({ nextMs }: Losses): void {
    const { clock, waiting } = this.#parts
    const now = clock.mono()
    const pauses = [...waiting.entries()].map(({ key }) => this.#placing.pause(key, now))
    const next = Math.min(...pauses.filter((ms) => ms > 0), nextMs ?? Infinity)
    if (next < LOOK_EVERY_MS) this.#lookBy(now + Math.max(next, GATHER_MS))
  }
}

/** Ids of the nodes that another live node says it is linked with. */
function reachedByOthers ({ nodes }: Facts, self: string): Set<string> {
  const others = nodes.filter(({ view }) => view.live && view.nodeId !== self)
  return new Set(others.flatMap(({ links }) => links.map(({ nodeId }) => nodeId)))
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
