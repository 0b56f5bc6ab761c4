import type { NodeReport } from '../../kernel/index.js'
import type { PlacementContext } from './manifest.js'
import type { InstanceStates } from './progress/progress.js'
import { waitingView, type WaitingInstance } from './waitlist.js'

export interface Facts extends InstanceStates {
  /** All nodes, including those that are not live; this node comes first. */
  nodes: readonly NodeReport[]
  waitingInstances: Readonly<Record<string, WaitingInstance>>
}

/** Milliseconds for which `recent` returns the same facts. Memory readings change without an event. */
const RECENT_MS = 2000

export class FactsReader {
  readonly #ctx: PlacementContext
  #last: Facts | null = null
  #at = -Infinity

  constructor (ctx: PlacementContext) {
    this.#ctx = ctx
    ctx.effect('state changes', ctx.deps.state.onChange(() => { this.#last = null }))
  }

  now (): Facts {
    const { deps: { state, instances, models }, sections } = this.#ctx
    const { failures, ...placed } = instances.placed()
    return {
      ...placed, instanceFailures: failures, nodes: state.nodes(), downloads: models?.transfers() ?? {},
      waitingInstances: waitingView(sections.waiting)
    }
  }

  /** The facts, rebuilt only after a state change or after RECENT_MS, so that polling is cheap. */
  recent (): Facts {
    const now = this.#ctx.clock.mono()
    if (this.#last === null || now - this.#at >= RECENT_MS) {
      this.#at = now
      this.#last = this.now()
    }
    return this.#last
  }
}
