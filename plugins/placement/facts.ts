import type { NodeReport } from '../../kernel/index.js'
import type { PlacementContext } from './manifest.js'
import type { InstanceStates } from './progress/progress.js'
import { waitingView } from './waitlist.js'
import type { WaitingInstance } from './waitlist.js'

/** All that placing goes by. */
export interface Facts extends InstanceStates {
  /** This node first; those that are not live too. */
  nodes: readonly NodeReport[]
  waitingInstances: Readonly<Record<string, WaitingInstance>>
}

/** Readings of nodes change without a sign: `recent` gives them again for so long at most, ms. */
const RECENT_MS = 2000

/** Gathers what this node knows; nothing is waited for. */
export class FactsReader {
  readonly #ctx: PlacementContext
  #last: Facts | null = null
  #at = -Infinity

  constructor (ctx: PlacementContext) {
    this.#ctx = ctx
    ctx.effect('changes of the state', ctx.deps.state.onChange(() => { this.#last = null }))
  }

  now (): Facts {
    const { deps: { state, instances, models }, sections } = this.#ctx
    const { failures, ...placed } = instances.placed()
    return {
      ...placed, instanceFailures: failures, nodes: state.nodes(), downloads: models?.transfers() ?? {},
      waitingInstances: waitingView(sections.waiting)
    }
  }

  /** The same for all that look again and again: read anew only after a change, and for the readings. */
  recent (): Facts {
    const now = this.#ctx.clock.mono()
    if (this.#last === null || now - this.#at >= RECENT_MS) {
      this.#at = now
      this.#last = this.now()
    }
    return this.#last
  }
}
