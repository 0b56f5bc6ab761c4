import { backoffMs, SvcError } from '../../../kernel/index.js'
import { bodyOf } from '../../runners/service.js'
import type { Instance, Instances, PlacementIntent } from '../../runners/service.js'
import type { Facts } from '../facts.js'
import { instanceOf, modelOf, nodesOf } from '../place/instance.js'
import type { Ask, Outcome, Planning } from '../place/planning.js'
import type { WaitingEntry } from '../waitlist.js'

/** First and longest pause before a place is looked for again, ms. */
const PAUSE = { minMs: 250, maxMs: 5000 }

/** The master cannot act now; what is to be done stays to be done. */
export const LATER: ReadonlySet<string> =
  new Set(['no_quorum', 'no_master', 'not_master', 'session_changed', 'shutting_down'])

/** Whether an error only says that the master cannot act now. */
export const isLater = (error: unknown): boolean => error instanceof SvcError && LATER.has(error.reason)

export interface PlacingParts {
  planning: Planning
  instances: Pick<Instances, 'place'>
  newId (): string
}

/** What came of one try: the instance, or why there is none. */
export type Tried =
  | { ok: true, instance: Instance }
  | { ok: false, reason: string, message: string }

/** Finds places for what waits, and remembers for how long not to look again. */
export class Placing {
  readonly #parts: PlacingParts
  readonly #pauses = new Map<string, { until: number, tries: number }>()
  #seen = ''

  constructor (parts: PlacingParts) { this.#parts = parts }

  /** Takes in what is there now: where that changed, what was refused is looked at again at once. */
  notice (facts: Facts, waiting: ReadonlySet<string>): void {
    const seen = signature(facts)
    if (seen !== this.#seen) this.#pauses.clear()
    this.#seen = seen
    for (const id of this.#pauses.keys()) if (!waiting.has(id)) this.#pauses.delete(id)
  }

  /** Ms until the entry is looked at again; 0 for now. */
  pause (id: string, now: number): number { return Math.max(0, (this.#pauses.get(id)?.until ?? 0) - now) }

  /** Whether there is a place for it by these facts. */
  fits (modelId: string, intent: PlacementIntent, facts: Facts): boolean {
    try {
      this.#parts.planning.look(askOf(modelId, intent, taken(facts, modelId)), facts)
      return true
    } catch (error) {
      if (error instanceof SvcError) return false
      throw error
    }
  }

  /**
   * Plans a place for an entry and has the master enter it. Throws what `isLater` knows when the master
   * cannot act now.
   */
  async place (id: string, entry: WaitingEntry, facts: Facts, now: number): Promise<Tried> {
    const tried = await this.#tryTo(id, entry, facts)
    if (tried.ok) this.#pauses.delete(id)
    else {
      const tries = (this.#pauses.get(id)?.tries ?? 0) + 1
      this.#pauses.set(id, { until: now + backoffMs(tries, PAUSE, 1), tries })
    }
    return tried
  }

  async #tryTo (id: string, { modelId, intent }: WaitingEntry, facts: Facts): Promise<Tried> {
    const { planning, instances, newId } = this.#parts
    try {
      if (planning.known(modelId) === undefined) await planning.card(modelId)
      const found = this.#plan(modelId, intent, facts)
      const placement = { ...intent, instanceMeta: found.instanceMeta, replaces: id }
      const instance = instanceOf(found.plan, found.card, facts, newId, placement)
      const entered = await instances.place(instance)
      return entered === bodyOf(instance).instanceId
        ? { ok: true, instance }
        : alreadyThere(modelId)
    } catch (error) {
      if (!(error instanceof SvcError) || isLater(error)) throw error
      if (this.#onlyThere(modelId, intent, facts)) return alreadyThere(modelId)
      return { ok: false, reason: error.reason, message: error.message }
    }
  }

  /** Whether only the nodes that run the model already have a place for it. */
  #onlyThere (modelId: string, intent: PlacementIntent, facts: Facts): boolean {
    if (taken(facts, modelId).length === 0) return false
    try {
      this.#parts.planning.look(askOf(modelId, { ...intent, failedOn: [] }, []), facts)
      return true
    } catch { return false }
  }

  /**
   * Away from the nodes on which it failed, if that can be: where only those are left, one of them is better
   * than none. Never where the model runs already: that would be no other instance.
   */
  #plan (modelId: string, intent: PlacementIntent, facts: Facts): Outcome {
    const { planning } = this.#parts
    const there = taken(facts, modelId)
    const anywhere = { ...intent, failedOn: [] }
    const look = (what: PlacementIntent, nodes: readonly string[]): Outcome =>
      planning.look(askOf(modelId, what, nodes), facts)
    try {
      return look(intent, there)
    } catch (error) {
      if (intent.failedOn.length === 0 || !(error instanceof SvcError)) throw error
      return look(anywhere, there)
    }
  }
}

const alreadyThere = (modelId: string): Tried => ({
  ok: false, reason: 'placed_already', message: `The nodes with a place for ${modelId} run it already.`
})

/** The nodes that run the model. */
const taken = ({ instances }: Facts, modelId: string): string[] =>
  Object.values(instances).filter((one) => modelOf(one) === modelId).flatMap(nodesOf)

function askOf (
  modelId: string, { origin, sharding, instanceMeta, minNodes, excluded, failedOn }: PlacementIntent,
  there: readonly string[]
): Ask {
  return {
    // Nobody chose the way of a model that is placed by itself: its engine's counts.
    instanceMeta: origin === 'autoplace' ? undefined : instanceMeta,
    modelId, sharding, minNodes, force: false, excluded: [...excluded, ...failedOn, ...there]
  }
}

/** Free memory is looked at in steps of this, bytes: it changes a little all the time. */
const STEP_BYTES = 256 * 1024 * 1024

/** What a plan depends on, roughly. */
function signature ({ nodes, instances }: Facts): string {
  return JSON.stringify([
    nodes.filter(({ view }) => view.live).map(({ view: { nodeId }, memory, resources, links }) => [
      nodeId, Math.floor((memory?.ramAvailable.inBytes ?? -1) / STEP_BYTES), resources !== null, links.length
    ]),
    Object.keys(instances)
  ])
}
