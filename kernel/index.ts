/** The public surface for plugins; nothing else of the kernel may be imported by them. */
export { defineService, definePlugin, durableEvent, Reply } from './define.js'
export type {
  BundledModel, BundledModelDecl, Caller, CapabilityCall, CapabilityChunk, CapabilityDecl, ChunkMedia,
  CommandDecl, ConflictDecl, Context, EngineDecl, ErrorDecl, EventDecl, IoMode, Logger, Manifest, NodeInfo,
  Plugin,
  ReadyCheck, RouteDecl, RouteRequest, Section, SectionDecl, ServiceRef, Started, StreamHead,
  StreamWriter, VerbDecl
} from './define.js'
export { EngineError } from './engine.js'
export type {
  CardFile, CardVoice, EngineChunk, EngineEnv, EngineModule, EngineSession, EngineTask, ModelCard, ModelSpec
} from './engine.js'
export { kernelError, SvcError } from './errors.js'
export { Admission } from './capabilities/admission.js'
export type { Release } from './capabilities/admission.js'
export {
  BundleService, ClusterService, CommandService, EventTapService, FreeMemoryService, InspectionService,
  InvocationService, SessionService, StateService, TelemetryService, TokenService
} from './services.js'
export type {
  Bundle, Channel, Cluster, Command, Commands, DialReport, EventTap, FreeMemory, Inspection, Invocations,
  MemberRequest, MemberResponse, NodeView, PluginReport, RegisteredEngine, ServedFrame, ServeOptions,
  Session, StateReader, TokenRecord, Tokens
} from './services.js'
export type { TelemetryCounters } from './cluster/telemetry/index.js'
export { delay, systemClock } from './clock.js'
export type { Clock } from './clock.js'
export { monitorLoop } from './loop-delay.js'
export type { LoopDelay, LoopMonitor } from './loop-delay.js'
export type { FromSchema, JsonSchema } from './schema.js'
export type { Verb, VerbContext, VerbError } from './cli/verb.js'
export { isVerbError } from './cli/verb.js'
export { isModelId, modelInPath, readModelId } from './cli/model-ids.js'
export { patiently } from './cli/patience.js'
export { canAsk, confirm } from './cli/confirm.js'
export { plain } from './cli/output.js'
export { realPace } from './cli/pace.js'
export type { Pace } from './cli/pace.js'
export { showBytes, showSpan } from './cli/units.js'
