import type { Caller, Clock, Cluster } from '../../kernel/index.js'
import type { Planning } from './planning.js'
import type { Instances } from '../runners/service.js'
import type { ReadState } from './state-view.js'

/** What the handlers of the routes work with. */
export interface Desk {
  clock: Clock
  cluster: Cluster
  planning: Planning
  instances: Instances
  readState: ReadState
  newId (): string
  /** Tells the event log that memory was not checked. */
  forced (instanceId: string, modelId: string, nodeIds: string[], caller: Caller): void
}
