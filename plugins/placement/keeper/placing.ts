import { randomUUID } from 'node:crypto'
import { backoffMs, SvcError } from '../../../kernel/index.js'
import type { Instance, PlacementIntent } from '../../runners/service.js'
import type { Facts } from '../facts.js'
import { idOf, instanceOf, modelOf, nodesOf } from '../place/instance.js'
import { ENGINES, type Outcome, type Planning } from '../place/planning.js'
import type { WaitingEntry } from '../waitlist.js'

/** Shortest and longest pause in ms between attempts to place a waiting entry. */
const PAUSE = { minMs: 250, maxMs: 5000 }

/** Error reasons that only mean that the master cannot act now; the attempt is repeated later. */
const LATER: ReadonlySet<string> =
  new Set(['no_quorum', 'no_master', 'not_master', 'session_changed', 'shutting_down'])

export const isLater = (error: unknown): boolean => error instanceof SvcError && LATER.has(error.reason)

export type PlacementAttempt =
  | { ok: true, instance: Instance }
  | { ok: false, reason: string, message: string }

export class PlacementQueue {
  readonly #planning: Planning
  readonly #pauses = new Map<string, { until: number, tries: number }>()
  #seen = ''

  constructor (planning: Planning) { this.#planning = planning }

  /** Ends the retry pauses of all entries when the inputs of a plan have changed. */
  notice (facts: Facts, waiting: ReadonlyMap<string, unknown>): void {
    const seen = signature(facts)
    if (seen !== this.#seen) this.#pauses.clear()
    this.#seen = seen
    for (const id of this.#pauses.keys()) if (!waiting.has(id)) this.#pauses.delete(id)
  }

  /** Milliseconds until the next attempt to place the entry is allowed; 0 if it is allowed now. */
  pause (id: string, now: number): number { return Math.max(0, (this.#pauses.get(id)?.until ?? 0) - now) }

  /** True if the model fits on nodes that do not already run it. */
  fits (modelId: string, intent: PlacementIntent, facts: Facts): boolean {
    return !(this.#plan(modelId, intent, facts) instanceof SvcError)
  }

  /**
   * Plans an entry and places it through the master. Throws if the master cannot act now (see `isLater`);
   * returns refusals.
   */
  async place (id: string, entry: WaitingEntry, facts: Facts, now: number): Promise<PlacementAttempt> {
    const tried = await this.#tryTo(id, entry, facts)
    if (tried.ok) this.#pauses.delete(id)
    else {
      const tries = (this.#pauses.get(id)?.tries ?? 0) + 1
      this.#pauses.set(id, { until: now + backoffMs(tries, PAUSE, 1), tries })
    }
    return tried
  }

  async #tryTo (id: string, { modelId, intent }: WaitingEntry, facts: Facts): Promise<PlacementAttempt> {
    const planning = this.#planning
    try {
      if (planning.known(modelId) === undefined) await planning.card(modelId)
      // Prefer nodes on which the model has not failed.
      const anywhere = { ...intent, failedOn: [] }
      let found = this.#plan(modelId, intent, facts)
      if (found instanceof SvcError && intent.failedOn.length > 0) {
        found = this.#plan(modelId, anywhere, facts)
      }
      if (found instanceof SvcError) throw found
      const { instanceMeta, engine } = found
      const placement = { ...intent, instanceMeta, replaces: id, ...engine === undefined ? {} : { engine } }
      const instance = instanceOf(found.plan, found.card, facts.nodes, randomUUID, placement)
      const entered = await planning.ctx.deps.instances.place(instance)
      return entered === idOf(instance) ? { ok: true, instance } : alreadyThere(modelId)
    } catch (error) {
      if (!(error instanceof SvcError) || isLater(error)) throw error
      // If the model fits only on nodes that already run it, report that instead of the refusal.
      const there = runningOn(facts, modelId).length > 0
      const beside = there ? this.#plan(modelId, { ...intent, failedOn: [] }, facts, []) : error
      if (!(beside instanceof SvcError)) return alreadyThere(modelId)
      return { ok: false, reason: error.reason, message: error.message }
    }
  }

  /**
   * A plan that avoids the nodes in `taken`, or the error if there is none. A gang gets fewer nodes than were
   * asked for if that is all there are.
   */
  #plan (
    modelId: string, intent: PlacementIntent, facts: Facts, taken = runningOn(facts, modelId)
  ): Outcome | SvcError {
    const { origin, sharding, minNodes, excluded, failedOn, contextLength, slots, engine } = intent
    try {
      return this.#planning.look({
        modelId, sharding, minNodes, contextLength, slots, engine, force: false,
        excluded: [...excluded, ...failedOn, ...taken],
        // An automatic placement uses the topology of its engine.
        instanceMeta: origin === 'autoplace' ? undefined : intent.instanceMeta
      }, facts)
    } catch (error) {
      if (!(error instanceof SvcError)) throw error
      const { engine: runsOn } = this.#planning.known(modelId) ?? {}
      return minNodes === 1 || runsOn !== ENGINES.safetensors ? error
        : this.#plan(modelId, { ...intent, minNodes: 1 }, facts, taken)
    }
  }
}

const alreadyThere = (modelId: string): PlacementAttempt => ({
  ok: false, reason: 'placed_already', message: `All nodes with a place for ${modelId} already run it.`
})

const runningOn = ({ instances }: Facts, modelId: string): string[] =>
  Object.values(instances).filter((one) => modelOf(one) === modelId).flatMap(nodesOf)

/** Changes in free memory below this many bytes do not end the retry pauses. */
const STEP_BYTES = 256 * 1024 * 1024

/** Summarizes the inputs of a plan coarsely; if the summary changes, planning again may succeed. */
function signature ({ nodes, instances }: Facts): string {
  return JSON.stringify([
    nodes.filter(({ view }) => view.live).map(({ view: { nodeId }, memory, resources, links }) => [
      nodeId, Math.floor((memory?.ramAvailable.inBytes ?? -1) / STEP_BYTES), resources !== null, links.length
    ]),
    Object.keys(instances)
  ])
}
