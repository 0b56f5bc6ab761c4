/** The public surface for plugins; nothing else of the kernel may be imported by them. */
export { cardSchema } from './card-schema.js'
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
export type { ErrorBody } from './http/error-body.js'
export { Admission } from './capabilities/admission.js'
export type { Release } from './capabilities/admission.js'
export {
  BundleService, ClusterService, CommandService, EventTapService, FreeMemoryService, InspectionService,
  InvocationService, LogRingService, SessionService, StateHistoryService, StateService, TelemetryService,
  TokenService
} from './services.js'
export type {
  Bundle, Channel, Cluster, Command, Commands, DialReport, EventTap, FreeMemory, Inspection, Invocations,
  LinkReport, MemberRequest, MemberResponse, NodeView, PluginReport, RegisteredEngine, ServedFrame,
  ServeOptions, Session, StateHistory, StateReader, StateThen, TokenRecord, Tokens
} from './services.js'
export { logLevels } from './log-ring.js'
export type { LogLevel, LogLine, LogRing, LogWant, RunnerRef } from './log-ring.js'
export type { Shipping } from './log-ship.js'
export type { TelemetryCounters } from './cluster/telemetry/index.js'
export { readPart } from './span-check.js'
export { packPart, PART_SPANS_MAX, partOf, SpanRecorder, unpackSpans } from './spans.js'
export type {
  ClockNote, PlacedSpan, RecordedSpan, SpanAttrs, SpanPart, SpanPlace, SpanSeries, SpanSink, TaskAbout
} from './spans.js'
export { timed, TRACE_HEADER, traceHeaders, TracerService } from './tracer.js'
export type { Hop, HopTarget, Trace, TraceEnd, Tracer, Tracers, TraceStart } from './tracer.js'
export { TrafficService } from './traffic.js'
export type { CallQueue, Traffic } from './traffic.js'
export type { CallOutcome } from './capabilities/calls.js'
export { askMember, MemberFault, openMember } from './ask-member.js'
export type { AskMemberParts, MemberQuestion } from './ask-member.js'
export { delay, systemClock, untilCalled } from './clock.js'
export { serverEvents } from './server-events.js'
export type { ServerEvent } from './server-events.js'
export type { Clock } from './clock.js'
export { createLearning, SESSION_GRACE_MS } from './learning.js'
export { monitorLoop } from './loop-delay.js'
export type { LoopDelay, LoopMonitor } from './loop-delay.js'
export type { FromSchema, JsonSchema } from './schema.js'
export type { Declared } from './cli/declared.js'
export type { Verb, VerbContext, VerbError } from './cli/verb.js'
export { isVerbError } from './cli/verb.js'
export { isModelId, modelInPath, readModelId } from './cli/model-ids.js'
export { patiently } from './cli/patience.js'
export { canAsk, confirm } from './cli/confirm.js'
export { followEvents } from './cli/follow-events.js'
export { MOMENTS, readMoment } from './cli/moments.js'
export { plain } from './cli/output.js'
export { realPace } from './cli/pace.js'
export type { Pace } from './cli/pace.js'
export { showBytes, showSpan } from './cli/units.js'
