import { quoted, showBytes } from '../../../kernel/cli/index.js'

/** Ids of nodes inside other text. */
const NODE_ID = /\b[a-z2-7]{26}\b/g

export type Payload = Readonly<Record<string, unknown>>
/** The name of a node for people. */
export type NameOf = (nodeId: string) => string

/** Importance of an event: lower is more. */
const [LOST, DECIDED, CAME, PLACED, KEPT, STEP] = [0, 1, 2, 3, 4, 5]

/** Events in plain words, with the fields that fill them in. */
const EVENTS: Readonly<Record<string, readonly [rank: number, words: string]>> = {
  NodeTimedOut: [LOST, '{nodeId} was lost ({evidence})'],
  RunnerFailed: [LOST,
    'the runner of {modelId} was given up after {attempts} attempts ({errorCode}): {errorMessage}'],
  InstanceFailureRecorded: [LOST, 'an instance of {modelId} cannot serve ({errorCode}): {errorMessage}'],
  InstanceWaiting: [DECIDED, '{modelId} had no place and waited for one ({reason}): {message}'],
  DownloadFailed: [LOST, 'the files of {modelId} did not get to {nodeId} ({reason}): {errorMessage}'],
  TaskFailed: [LOST, 'the request {taskId} failed with {errorType}: {errorMessage}'],
  ProtocolViolation: [LOST, '{nodeId} broke the protocol ({reason})'],
  StateDiverged: [LOST, '{nodeId} held other data than the master and loaded it anew ({document})'],
  LogCorrupt: [LOST, 'a damaged file of the event log of {nodeId} was set aside: {errorMessage}'],
  LogGap: [LOST, '{count} events, {from} to {to}, were not kept'],
  StaleDirectiveRefused: [DECIDED, '{nodeId} refused what {masterNodeId} said as the master of term {term}'],
  SessionChanged: [DECIDED, '{masterNodeId} became master in a new session (term {term})'],
  MasterElected: [DECIDED, '{masterNodeId} became master (term {term})'],
  NodeRemoved: [DECIDED, '{name} was removed from the cluster'],
  NodeDrained: [DECIDED, '{name} was drained by {by}: it was to run no models'],
  NodeUndrained: [DECIDED, '{name} was let run models again by {by}'],
  NodeRestarted: [CAME, '{nodeId} was told to restart'],
  NodeJoined: [CAME, '{nodeId} joined'],
  PlacementForced: [PLACED, '{modelId} was placed on {nodeIds} without the check of memory, by {by}'],
  InstanceCreated: [PLACED, '{modelId} was placed on {nodeIds}'],
  InstanceDeleted: [PLACED, 'an instance of {modelId} was removed'],
  InstanceUnloaded: [PLACED, 'an instance of {modelId} was unloaded, unused for {idleSeconds} s'],
  PluginEnabled: [KEPT, 'the plugin {plugin} was switched on at {nodeId}'],
  PluginDisabled: [KEPT, 'the plugin {plugin} was switched off at {nodeId}'],
  PluginChanged: [LOST, 'the plugin {plugin} was not loaded at {nodeId}: {file} is not as it was accepted'],
  DevicePairingOpened: [KEPT, 'one device could be paired until {ends}, by {by}'],
  DevicePaired: [KEPT, 'the device {name} was paired by {by}'],
  DeviceRefused: [KEPT, 'the device {name} was refused by {by}'],
  DeviceRevoked: [KEPT, 'the device {name} was revoked by {by}'],
  ApprovalAsked: [STEP, 'a call of {by} waited for an approval'],
  ApprovalDecided: [KEPT, 'what a call costs was decided on by {by}'],
  ApprovalExpired: [KEPT, 'nobody approved in time what the call {id} costs'],
  RelayConnected: [CAME, 'a node came to its relay {url}'],
  RelayLost: [LOST, 'a node was cut off from its relay {url} ({reason})'],
  AuditRecorded: [STEP, '{who} asked for {what}'],
  ModelStored: [KEPT, 'the store on {nodeId} got {modelId} ({totalBytes})'],
  ModelDeleted: [KEPT, '{modelId} was deleted from the store on {nodeId}'],
  StagedModelEvicted: [KEPT,
    'the copy of {modelId} on {nodeId} was removed to make room ({freedBytes}, {trigger})'],
  StagingPurged: [KEPT, 'the staged copies on {nodeId} were purged ({freedBytes})'],
  TokenCreated: [KEPT, 'the token {id} ({label}) was made by {by}'],
  TokenRevoked: [KEPT, 'the token {id} was revoked by {by}'],
  TracingStateChanged: [KEPT, 'tracing was switched {enabled}'],
  NodeDownloadProgress: [STEP, 'the transfer of {modelId} to {nodeId} is {status}'],
  RunnerStatusUpdated: [STEP, 'the runner of {modelId} {status}']
}

const STATUSES: Readonly<Record<string, string>> = {
  RunnerFailed: 'failed', RunnerReady: 'became ready', RunnerShutdown: 'stopped',
  RunnerShuttingDown: 'was told to stop'
}

/** True where there are words for events of this kind. */
export const hasDescription = (kind: string): boolean => Object.hasOwn(EVENTS, kind)

/** The ids of nodes that an event names, also in what it says. */
export function nodesIn (payload: Payload): string[] {
  return Object.entries(payload).flatMap(([key, value]) => {
    if (/nodeIds?$/i.test(key)) return [value].flat().filter((id) => typeof id === 'string')
    return typeof value === 'string' ? value.match(NODE_ID) ?? [] : []
  })
}

/** Importance of an event, lower is more; a failed runner matters more than a state change. */
export function rankOf (kind: string, { status, reason }: Payload): number {
  if (kind === 'RunnerStatusUpdated' && statusOf(status) === 'RunnerFailed') return LOST
  // An instance of the first placement has lost no place.
  if (kind === 'InstanceWaiting' && reason === 'autoplace') return PLACED
  return EVENTS[kind]?.[0] ?? KEPT
}

/** An event in plain words, without its time and a full stop. Those of an unknown plugin have only a name. */
export function describeEvent (kind: string, payload: Payload, nameOf: NameOf): string {
  const [, words = `${quoted(kind, 80)} was recorded`] = EVENTS[kind] ?? []
  return words.replace(/\{(\w+)\}/g, (_, field: string) => fieldText(field, payload[field], nameOf))
    .replace(/[.:]\s*$/, '')
}

const statusOf = (status: unknown): string => Object.keys((status ?? {}) as object)[0] ?? ''

function fieldText (field: string, value: unknown, nameOf: NameOf): string {
  if (field === 'status' && typeof value === 'object') {
    const kind = statusOf(value)
    const { errorMessage } = ((value as Record<string, unknown> | null)?.[kind] ?? {}) as Payload
    const why = typeof errorMessage === 'string' ? `: ${quoted(errorMessage)}` : ''
    return `${STATUSES[kind] ?? `moved on (${quoted(kind, 40)})`}${why}`
  }
  if (field === 'enabled') return value === true ? 'on' : 'off'
  if (field === 'evidence' && value === 'lost') return 'its link broke'
  if (/nodeIds?$/i.test(field)) return [value].flat().map((id) => nameOf(String(id))).join(', ')
  if (/Bytes$/.test(field) && typeof value === 'number') return showBytes(value)
  const said = typeof value === 'string' ? value : JSON.stringify(value) ?? 'unknown'
  return quoted(said.replace(NODE_ID, nameOf))
}
