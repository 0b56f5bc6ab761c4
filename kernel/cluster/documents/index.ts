export { createControl } from './control.js'
export { createReplicas } from './replicas.js'
export { KvDoc } from './kv-doc.js'
export { checkUpdate } from './guard.js'
export { checkKey, checkValue } from './values.js'
export { hashOf } from './canonical.js'
export type {
  Announce, Ask, Control, ControlOptions, ControlStats, DocMessage, Executed, ObservedEntry, Position,
  Replicas, ReplicasOptions, ReplicasStats, SnapshotStore, State, Update, Write
} from './types.js'
