import type { NodeReport } from '../../kernel/index.js'
import type { PlacementContext } from './manifest.js'
import type { InstanceStates } from './progress/progress.js'
import { waitingView } from './waitlist.js'
import type { WaitingInstance } from './waitlist.js'

export interface Facts extends InstanceStates {
  /** This node first; also those that are not live. */
  nodes: readonly NodeReport[]
  waitingInstances: Readonly<Record<string, WaitingInstance>>
}

/** Longest age of what `recent` gives, ms: the readings of nodes change without an event. */
const RECENT_MS = 2000

/** Gathers what this node knows, without waiting for anything. */
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

  /** For polling: read again only after a change, or when the last facts are too old. */
  recent (): Facts {
    const now = this.#ctx.clock.mono()
    if (this.#last === null || now - this.#at >= RECENT_MS) {
      this.#at = now
      this.#last = this.now()
    }
    return this.#last
  }
}
