/** Library for plugin verbs, published as `svc/cli`. */
export type { DeclarationSet } from '../api/plugin.js'
export { isVerbError } from './verb.js'
export type { CredentialHelper, Verb, VerbContext, VerbError } from './verb.js'
export type { AdmittedMember } from './output.js'
export { canAsk, confirm, offerRemoval, plain, readLine, readPipe, visible } from './output.js'
export { apiFailure, asApiError, CliError, exitCodes, failureWithin, interrupted } from './errors.js'
export { createClient, isLoopbackUrl, ownFingerprint, ownHome, ownToken } from './client.js'
export {
  count, expiryOf, isModelId, modelInPath, MOMENTS, readModelId, readModelName, readNumber, parseTimeOrIndex,
  readSpan, showBytes, formatDuration, showMs, showTime
} from './text.js'
export { homeOption, programIn, shellWord } from './shell.js'
export { nearest } from '../config/nearest.js'
export { followEvents, realPace, retryUntil, stallDetector } from './waiting.js'
export type { WaitClock } from './waiting.js'
export { fail, factOf, judgeDisk, ok, warn } from './check.js'
export type { Check, CheckContext, Checker, StatusLines, StatusPart, CheckData } from './check.js'
export { homeManifests, createGet, verbModule } from './contributed.js'
export { engineHelp } from './engine-help.js'
export type { EngineHelp } from './engine-help.js'
export { fieldsOf, parseFields } from './fields.js'
export { describe } from '../config/values.js'
export type { ClientResponse, ClientRequest, Client } from './client.js'
export type { Out } from './output.js'
export type { Sink } from './sink.js'
export { readSetting } from './setting.js'
export {
  causeAmong, fact, isSymptom, lookedAt, lookingOnce, quoted, createToolReads, unreadableSentence,
  withoutFullStop
} from './tool.js'
export type { Evidence, Fact, Finding, ToolReads, Tool, ToolContext } from './tool.js'
export { holderOf, portHolder } from './ports.js'
export { nameOf } from './cluster-state.js'
export { kindOf, kindWords, summaryOf } from './event-words.js'
export type { ClusterState, NamedNodes } from './cluster-state.js'
export { launched } from './verbs/up.js'
export { version } from '../boot/package.js'
