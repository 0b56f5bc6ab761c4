import type { Caller, Clock, Cluster } from '../../kernel/index.js'
import type { Planning } from './planning.js'
import type { Instances } from '../runners/service.js'
import type { WaitingEntry } from './sections.js'
import type { ReadState } from './state-view.js'

/** What is to be placed by itself, and what is not. */
export interface Standing {
  /** The entry of an instance that waits for a place. */
  waits (instanceId: string): WaitingEntry | undefined
  /** True for a model that an operator stopped. */
  isStopped (modelId: string): boolean
  /** Has an instance wait no more. */
  unwait (instanceId: string, commandId?: string): Promise<void>
  /** Keeps a model from being placed by itself. */
  stop (modelId: string): Promise<void>
  /** Lets a model be placed by itself again. */
  unstop (modelId: string): Promise<void>
}

/** What the handlers of the routes work with. */
export interface Desk {
  clock: Clock
  cluster: Cluster
  planning: Planning
  instances: Pick<Instances, 'place' | 'remove' | 'drain'>
  standing: Standing
  /** True for a model that is placed without anybody asking for it: by itself, or by the next request. */
  returns (modelId: string): boolean
  readState: ReadState
  /** The same for those that look again and again. */
  recentState: ReadState
  /** How long a stopped instance may go on with the requests it has, where nobody says it, seconds. */
  drainSeconds: number
  newId (): string
  /** Tells the event log that memory was not checked. */
  forced (instanceId: string, modelId: string, nodeIds: string[], caller: Caller): void
}
