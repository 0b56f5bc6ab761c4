export { Election } from './core.js'
export { Fence } from './fence.js'
export { Liveness } from './liveness.js'
export { readQuorum } from './quorum.js'
export { RULES } from './rules.js'
export { DEFAULT_ELECTION_TIMEOUT, DEFAULT_TIMING, TICK, timingWith } from './timing.js'
export type { ElectionOptions } from './core.js'
export type { Admission } from './fence.js'
export type { Message, MessageKind } from './messages.js'
export type { Adoption, Io, Ledger } from './ports.js'
export type { QuorumSetting } from './quorum.js'
export type { Rules } from './rules.js'
export type { Status } from './status.js'
export type { Timing } from './timing.js'
export type {
  Change, CommandId, Entry, Freshness, Leader, Mode, NodeId, Outcome, PromiseRecord, Receipt, Refusal, Role,
  SessionId, StreamEnd, StreamId, Token
} from './types.js'
