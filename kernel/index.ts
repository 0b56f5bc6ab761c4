/** The public surface for plugins; nothing else of the kernel may be imported by them. */
export { cardSchema } from './cards/schema.js'
export { defineService, definePlugin, durableEvent, Reply } from './api/plugin.js'
export type {
  Caller, CapabilityCall, CapabilityChunk, CapabilityDecl, ChunkMedia,
  CheckDecl, CommandDecl, ConflictDecl, Context, ErrorDecl, EventDecl, IoMode, Logger, Manifest,
  NodeInfo, Plugin, ReadyCheck, RouteDecl, RouteRequest, Section, SectionDecl, ServiceRef, Started,
  StreamHead, StreamWriter, VerbDecl
} from './api/plugin.js'
export { EngineError } from './api/engine.js'
export type {
  BundledModel, BundledModelDecl, CardFile, CardVoice, EngineChunk, EngineDecl, EngineEnv, EngineModule,
  EngineSession, EngineTask, ModelCard, ModelSpec, SpanAttrs
} from './api/engine.js'
export { kernelError, SvcError } from './api/errors.js'
export type { ErrorBody } from './http/error-body.js'
export { Admission } from './calls/admission.js'
export type { Release } from './calls/admission.js'
export {
  BundleService, ClusterService, CommandService, EventTapService, InspectionService, InvocationService,
  LogRingService, MachineService, SessionService, StateHistoryService, StateService, GossipService,
  TokenService
} from './api/services.js'
export type {
  Bundle, Channel, Cluster, Command, Commands, DialReport, EventTap, Inspection, Invocations, LinkReport,
  Machine, MemberRequest, MemberResponse, NodeReport, NodeView, PluginReport, RegisteredEngine,
  ServedFrame, ServeOptions, Session, StateHistory, StateReader, StateThen, TokenRecord, Tokens
} from './api/services.js'
export { logLevels } from './observe/log-ring.js'
export type { LogLevel, LogLine, LogRing, LogWant, RunnerRef } from './observe/log-ring.js'
export type { GossipCounters } from './cluster/gossip.js'
export { timed, TRACE_HEADER, traceHeaders, TracerService } from './observe/tracer.js'
export type {
  Hop, HopTarget, TaskAbout, Trace, TraceEnd, Tracer, Tracers, TraceStart
} from './observe/tracer.js'
export { TrafficService } from './calls/traffic.js'
export type { CallQueue, Traffic } from './calls/traffic.js'
export type { CallOutcome } from './calls/calls.js'
export { askMember, askMembers, MemberFault, openMember, readRefusal } from './cluster/links/ask-member.js'
export type {
  AskMemberParts, MemberAnswer, MemberQuestion, MembersQuestion
} from './cluster/links/ask-member.js'
export { boundsOf, clockOffset, PeerClocks } from './cluster/links/clocks.js'
export type { Bounds, ClockOffset } from './cluster/links/clocks.js'
export { backoffMs } from './api/backoff.js'
export { delay, systemClock, untilCalled } from './api/clock.js'
export { serverEvents } from './http/server-events.js'
export type { ServerEvent } from './http/server-events.js'
export type { Clock } from './api/clock.js'
export { createLearning, SESSION_GRACE_MS } from './state/learning.js'
export type { Gpu } from './machine/gpu.js'
export { monitorLoop } from './machine/loop-delay.js'
export type { LoopDelay, LoopMonitor } from './machine/loop-delay.js'
export type { FromSchema, JsonSchema } from './api/schema.js'
