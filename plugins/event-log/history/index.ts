import { stateAt } from './lookup.js'
import { Snapshots } from './recent.js'
import { startRecorder } from './recorder.js'
import type { Clock, Logger, Session, StateHistory, StateReader } from '../../../kernel/index.js'
import type { EventLog } from '../log.js'
import type { EventStore } from '../store/types.js'

export interface HistoryOptions {
  readonly log: EventLog
  readonly store: EventStore
  readonly state: Pick<StateReader, 'read'>
  readonly session: Pick<Session, 'isMaster' | 'masterNodeId' | 'onChange'>
  /** True while this node's log is complete, as far as is known. */
  readonly inStep: () => boolean
  readonly clock: Clock
  readonly logger: Logger
}

/** Records snapshots of the cluster's state from now on, and answers what it was at a moment. */
export function startHistory (options: HistoryOptions): { history: StateHistory, stop: () => void } {
  const { log, store, clock } = options
  const snapshots = new Snapshots(store)
  const stop = startRecorder({ ...options, snapshots })
  return { history: { at: async (moment) => await stateAt({ log, store, snapshots, clock }, moment) }, stop }
}
