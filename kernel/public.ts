/** The kernel's exports in `svc/plugin`, for plugins outside this repository. */
export { definePlugin, defineService, durableEvent, Reply } from './api/plugin.js'
export type {
  Caller, CapabilityCall, CapabilityChunk, Context, Logger, Manifest, NodeInfo, Plugin, RouteRequest, Section,
  ServiceRef, StreamWriter
} from './api/plugin.js'
export { bounded } from './api/bounds.js'
export { EngineError } from './api/engine.js'
export type {
  EngineChunk, EngineEnv, EngineModule, EngineSession, EngineTask, ModelCard, ModelSpec
} from './api/engine.js'
export { kernelError, SvcError } from './api/errors.js'
export { ClusterService, EventTapService, SessionService, StateService } from './api/services.js'
export type { Channel, Cluster, EventTap, NodeView, Session, StateReader } from './api/services.js'
export type { Clock } from './api/clock.js'
export type { FromSchema, JsonSchema } from './api/schema.js'
