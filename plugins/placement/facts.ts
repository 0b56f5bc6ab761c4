import type { Clock, NodeReport, StateReader } from '../../kernel/index.js'
import type { Instance, Instances } from '../runners/service.js'
import type { Models } from '../staging/service.js'
import type { WaitingInstance } from './waitlist.js'

/** A transfer of a model to a node: a one-key object such as `DownloadFailed`. */
export type Download = Readonly<Record<string, Transfer>>
interface Transfer { modelId?: string, attemptId?: string, errorMessage?: string }

/** Why an instance cannot serve. */
export interface InstanceFailure {
  instanceId: string
  errorCode: string
  errorMessage: string
  affectedNodeIds: readonly string[]
}

/** How instances stand: what a node knows itself, and under the same keys what GET /state tells. */
export interface InstanceStates {
  instances: Readonly<Record<string, Instance>>
  /** Runner id to its status, a one-key object. */
  runners: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  downloads: Readonly<Record<string, readonly Download[]>>
  instanceFailures: readonly InstanceFailure[]
  /** What is to be placed as soon as that is possible; absent in the state of an older node. */
  waitingInstances?: Readonly<Record<string, WaitingInstance>>
}

/** All that placing goes by. */
export interface Facts extends InstanceStates {
  /** This node first; those that are not live too. */
  nodes: readonly NodeReport[]
  waitingInstances: Readonly<Record<string, WaitingInstance>>
}

export interface FactsParts {
  clock: Pick<Clock, 'mono'>
  state: Pick<StateReader, 'nodes'>
  instances: Pick<Instances, 'placed'>
  /** Absent where the plugin `staging` is off. */
  models: Pick<Models, 'transfers'> | undefined
  waiting (): Record<string, WaitingInstance>
}

/** Readings of nodes change without a sign: `recent` gives them again for so long at most, ms. */
export const RECENT_MS = 2000

/** Gathers what this node knows; nothing is waited for. */
export class FactsReader {
  readonly #parts: FactsParts
  #last: Facts | null = null
  #at = -Infinity

  constructor (parts: FactsParts) { this.#parts = parts }

  now (): Facts {
    const { state, instances, models, waiting } = this.#parts
    const { failures, ...placed } = instances.placed()
    return {
      ...placed, instanceFailures: failures, nodes: state.nodes(), downloads: models?.transfers() ?? {},
      waitingInstances: waiting()
    }
  }

  /** The same for all that look again and again: read anew only after a change, and for the readings. */
  recent (): Facts {
    const now = this.#parts.clock.mono()
    if (this.#last === null || now - this.#at >= RECENT_MS) {
      this.#at = now
      this.#last = this.now()
    }
    return this.#last
  }

  /** Something changed: whoever asks next gets what is there then. */
  changed (): void { this.#last = null }
}
