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
  /** True while this node's log has all that its master's has. */
  readonly inStep: () => boolean
  readonly clock: Clock
  readonly logger: Logger
}

/** Records what the cluster looks like from now on, and answers what it looked like. */
export function startHistory (options: HistoryOptions): { history: StateHistory, stop: () => void } {
  const { log, store, clock } = options
  const snapshots = new Snapshots(store)
  const stop = startRecorder({ ...options, snapshots })
  return { history: { at: async (moment) => await stateAt({ log, store, snapshots, clock }, moment) }, stop }
}
