import { SvcError } from '../../kernel/index.js'
import { checkFits } from './check.js'
import type { Planning } from './planning.js'
import { refuse } from './refusals.js'
import { bodyOf } from '../runners/service.js'
import type { Entering, Instance } from '../runners/service.js'
import type { StateView } from './state-view.js'
import { cardOf, ranksOf } from './view.js'

/** How often the master looks at the cluster, so that it can judge at once, ms. */
export const REFRESH_MS = 1000

/**
 * The master's own look at what is to be placed: two nodes may have planned for the same memory at once. It
 * refuses by what it knows; what it has not been told yet, the node that planned had.
 */
export class Admission {
  readonly #planning: Planning
  readonly #waits: (id: string) => boolean
  readonly #failed: (error: unknown) => void
  #state: StateView | undefined

  /** `waits` says whether something waits under that id; `failed` is told when the state cannot be read. */
  constructor (planning: Planning, waits: (id: string) => boolean, failed: (error: unknown) => void) {
    this.#planning = planning
    this.#waits = waits
    this.#failed = failed
  }

  /** Looks at the cluster anew. Never rejects. */
  async refresh (): Promise<void> {
    await this.#planning.state().then((state) => { this.#state = state }, this.#failed)
  }

  /** What was seen says nothing any more. */
  forget (): void { this.#state = undefined }

  /** Throws why the instance cannot be placed beside those that there are. */
  check ({ instance, instances }: Entering): void {
    this.#checkReplaced(instance, instances)
    if (this.#state === undefined) return
    const all = instances.map((one) => [bodyOf(one).instanceId, one] as const)
    const state = { ...this.#state, instances: Object.fromEntries(all) }
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
