export { plan, previews } from './plan.js'
export { withChange } from './suggest.js'
export { CACHE_TOKENS, FIXED_BYTES } from './memory.js'
export { REFUSALS } from './types.js'
export type { Preview, PreviewScope } from './plan.js'
export type {
  Change, ClusterView, EngineTraits, InstanceMemory, InstanceMeta, MemoryClaim, Meter, NodeFacts, Plan,
  PlanRank, PlanRequest, PlanResult, Planned, Refusal, RefusalReason, Sharding, Suggestion
} from './types.js'
