import { SvcError } from '../../kernel/index.js'
import { checkFits } from './check.js'
import type { Planning } from './planning.js'
import { refuse } from './refusals.js'
import { bodyOf } from '../runners/service.js'
import type { Entering, Instance } from '../runners/service.js'
import type { KnownState } from './state-view.js'
import { cardOf, ranksOf } from './view.js'

/**
 * The master's own look at what is to be placed: two nodes may have planned for the same memory at once. It
 * refuses by what it knows; what it has not been told yet, the node that planned had.
 */
export class Admission {
  readonly #planning: Pick<Planning, 'known' | 'view'>
  readonly #waits: (id: string) => boolean
  readonly #known: KnownState

  /** `waits` says whether something waits under that id. */
  constructor (
    planning: Pick<Planning, 'known' | 'view'>, waits: (id: string) => boolean, known: KnownState
  ) {
    this.#planning = planning
    this.#waits = waits
    this.#known = known
  }

  /** Throws why the instance cannot be placed beside those that there are. */
  check ({ instance, instances }: Entering): void {
    this.#checkReplaced(instance, instances)
    const known = this.#known()
    if (known === undefined) return
    const all = instances.map((one) => [bodyOf(one).instanceId, one] as const)
    const state = { ...known, instances: Object.fromEntries(all) }
    const { modelId } = bodyOf(instance).shardAssignments
    const card = this.#planning.known(modelId) ?? cardOf(ranksOf(instance)[0]!.shard)
    try {
      checkFits({ instance, card, view: this.#planning.view(state, modelId) })
    } catch (error) {
      if (!(error instanceof SvcError && error.reason === 'info_pending')) throw error
    }
  }

  /** What a master decided may arrive when another one has seen to it already. */
  #checkReplaced (instance: Instance, instances: readonly Instance[]): void {
    const { placement } = bodyOf(instance)
    const id = placement?.replaces ?? null
    if (id === null) return
    const done = instances.some((one) => bodyOf(one).placement?.replaces === id)
    if (done || !this.#waits(id)) throw refuse('not_waiting', `Nothing waits for a place under ${id}.`)
  }
}
