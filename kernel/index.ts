/** Kernel exports for the plugins in this repository; third-party plugins use `public.ts`. */
export * from './public.js'
export type {
  CapabilityDecl, ChunkMedia, ClientChunk, CommandDecl, CommandSender, ConflictDecl, ErrorDecl, EventDecl,
  IoMode, ReadyCheck, RouteDecl, RouteSocket, SectionDecl, SocketRequest, PluginParts, StreamHead, ToolDecl,
  VerbDecl
} from './api/plugin.js'
export type {
  BundledModelDecl, CardFile, CardVoice, EngineDecl, LibraryDecl, MemoryFacts, MemoryTraits, ProgramDecl,
  SpanAttrs, SpanSeries
} from './api/engine.js'
export { admittedMembers, defineCluster } from './api/cluster.js'
export { mayUse } from './api/plugin.js'
export { badField, kernelErrorDecl, noSuchNode, toSvcError, withHeaders } from './api/errors.js'
export { bounded } from './api/bounds.js'
export { closedObject, isObject, openObject, orElse, parseJson } from './api/schema.js'
export type { Check, Issue } from './api/validate.js'
export { AuditService } from './api/audit.js'
export type { Audit, Change, ChangeEnd } from './api/audit.js'
export { isAudited } from './http/audited.js'
export { routesOf, type OwnedRoute } from './plugins/registry.js'
export { errorBody } from './http/error-body.js'
export { cacheJson } from './http/json.js'
export type { ErrorBody } from './http/error-body.js'
export { IdentityService } from './api/identity.js'
export type { Identity } from './api/identity.js'
export { CallerService } from './api/callers.js'
export type { Arrival, CallerRegistry, CallerScheme, Proof } from './api/callers.js'
export {
  CapabilityHostService, CommandService, ConfigService, DeclarationService, inContact, InspectionService,
  ListenerService, LogRingService, OwnApiService, StateHistoryService, GossipService, TokenService
} from './api/services.js'
export type {
  CapabilityHandler, CapabilityServer, Commands, Declarations, DialReport, Inspection, LinkReport,
  IssuedToken, MemberRequest, MemberResponse, NodeReport, LocalApi, LocalRequest, PluginReport, PastState,
  TokenOptions, TokenRecord, Tokens
} from './api/services.js'
export type { GossipCounters } from './api/gossip.js'
export { becauseOff, offPlugin, switchOn } from './api/off-plugin.js'
export type { OffPlugin } from './api/off-plugin.js'
export { logLevels } from './observe/log-ring.js'
export type { LogLevel, LogLine, LogRing, LogFilter } from './observe/log-ring.js'
export { timed, TRACE_HEADER, traceHeaders, TracerService } from './observe/tracer.js'
export type { Hop, HopTarget, TracedTask, Trace, TraceEnd, Tracers, TraceStart } from './observe/tracer.js'
export { TrafficService } from './http/traffic.js'
export type { Traffic } from './http/traffic.js'
export {
  askMember, askMembers, errorFrom, MemberFault, openMember, readRefusal, refusalIn, textOf, whileLive
} from './net/ask-member.js'
export type { AskMemberParts, MemberAnswer, MemberParts, MemberFetch } from './net/ask-member.js'
export { multicastProblem } from './net/multicast.js'
export { openResponder } from './net/responder.js'
export { boundsOf, clockOffset } from './observe/clocks.js'
export type { Bounds, ClockOffset } from './observe/clocks.js'
export { editDistance } from './config/nearest.js'
export { JobError, UntrustedJobs } from './untrusted/jobs.js'
export { backoffMs } from './api/backoff.js'
export {
  AbortableWaits, beating, deadline, delay, raceAbort, systemClock, waitForCallback
} from './api/clock.js'
export { serverEvents } from './http/event-stream-parser.js'
export type { ServerEvent } from './http/event-stream-parser.js'
export { checkKey } from './state/documents/values.js'
export { createSettlingCheck, SESSION_GRACE_MS } from './state/settling.js'
export { VitalsService } from './api/vitals.js'
export type {
  Gpu, GpuVendor, InterfaceReading, LoadReading, Rates, MachineStats, VitalsSource
} from './api/vitals.js'
export { monitorLoop } from './observe/self-watch.js'
export type { LoopMonitor } from './observe/self-watch.js'
export { hostProblem, isLoopback, isOwnServer } from './net/addresses.js'
export type { Trust } from './net/addresses.js'
export { AddressRefused, outgoingAgent, outgoingDispatcher } from './net/outgoing.js'
export type { Lookup } from './net/outgoing.js'
export { HIDDEN, withoutUrlSecrets } from './net/urls.js'
export { identityInFiles } from './http/tls/files.js'
export { IdentityError } from './http/tls/identity.js'
export type { IdentitySource, ServerIdentity } from './http/tls/identity.js'
export { showIdentity, tlsOf } from './http/tls/port.js'
export { networkOf } from './http/connection-limiter.js'
export { foreignPage, hostAllowed } from './http/origin.js'
export { requireAuthority, requireModel } from './http/access.js'
export { newToken, wellFormed } from './http/tokens.js'
export { DiskReserve } from './boot/reserve.js'
export {
  HomeError, makeFolder, readVersioned, START_BYTES, tryWrite, writeVersioned, writeWhole
} from './boot/home.js'
export { noInspector } from './boot/inspector.js'
export { missingHomeFile } from './boot/lost-files.js'
export { nodeRange, packageRoot } from './boot/package.js'
export * from './net/encoding.js'
export * from './net/keys.js'
