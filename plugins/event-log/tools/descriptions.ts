import { quoted, showBytes } from '../../../kernel/cli/index.js'

/** Matches node ids in a string. */
const NODE_ID = /\b[a-z2-7]{26}\b/g

export type Payload = Readonly<Record<string, unknown>>
export type NameOf = (nodeId: string) => string

/** Ranks of event importance; a lower rank is more important. */
const [LOST, CAME, PLACED, KEPT, STEP] = [0, 2, 3, 4, 5]
export const DECIDED = 1

/** Descriptions of events, with placeholders for their fields. */
export const EVENTS: Readonly<Record<string, readonly [rank: number, words: string]>> = {
  NodeTimedOut: [LOST, '{nodeId} was lost ({evidence})'],
  RunnerFailed: [LOST,
    'the runner of {modelId} failed after {attempts} attempts ({errorCode}): {errorMessage}'],
  InstanceFailureRecorded: [LOST, 'an instance of {modelId} cannot serve ({errorCode}): {errorMessage}'],
  InstanceWaiting: [DECIDED, '{modelId} could not be placed and waited ({reason}): {message}'],
  DownloadFailed: [LOST, 'the transfer of {modelId} to {nodeId} failed ({reason}): {errorMessage}'],
  TaskFailed: [LOST, 'the request {taskId} failed with {errorType}: {errorMessage}'],
  ProtocolViolation: [LOST, '{nodeId} broke the protocol ({reason})'],
  StateDiverged: [LOST, '{nodeId} had different data than the master and reloaded it ({document})'],
  LogCorrupt: [LOST, 'a damaged file of the event log of {nodeId} was set aside: {errorMessage}'],
  LogGap: [LOST, '{count} events, {from} to {to}, were not stored'],
  StaleDirectiveRefused: [DECIDED, '{nodeId} refused {masterNodeId} as master of the outdated term {term}'],
  SessionChanged: [DECIDED, '{masterNodeId} became master in a new session (term {term})'],
  MasterElected: [DECIDED, '{masterNodeId} became master (term {term})'],
  NodeRemoved: [DECIDED, '{name} was removed from the cluster'],
  NodeDrained: [DECIDED, '{name} was drained by {by}'],
  NodeUndrained: [DECIDED, '{name} was undrained by {by}'],
  NodeRestarted: [CAME, 'a restart of {nodeId} was requested'],
  NodeJoined: [CAME, '{nodeId} joined'],
  PlacementForced: [PLACED, '{modelId} was placed on {nodeIds} without the memory check, by {by}'],
  InstanceCreated: [PLACED, '{modelId} was placed on {nodeIds}'],
  ReplicaAdded: [PLACED, 'another instance of {modelId} was placed for {open} open requests'],
  ReplicaRemoved: [PLACED, 'an instance of {modelId} was removed, as {open} requests were open'],
  InstanceDeleted: [PLACED, 'an instance of {modelId} was removed'],
  InstanceUnloaded: [PLACED, 'an instance of {modelId} was unloaded, unused for {idleSeconds} s'],
  PluginEnabled: [KEPT, 'the plugin {plugin} was enabled on {nodeId}'],
  PluginDisabled: [KEPT, 'the plugin {plugin} was disabled on {nodeId}'],
  PluginChanged: [LOST,
    'the plugin {plugin} was not loaded on {nodeId}: {file} has changed since it was accepted'],
  DevicePairingOpened: [KEPT, '{by} opened the pairing of one device until {ends}'],
  DevicePaired: [KEPT, 'the device {name} was paired by {by}'],
  DeviceRefused: [KEPT, 'the device {name} was refused by {by}'],
  DeviceRevoked: [KEPT, 'the device {name} was revoked by {by}'],
  ApprovalAsked: [STEP, 'a call of {by} waited for approval'],
  ApprovalDecided: [KEPT, '{by} decided on the cost of a call'],
  ApprovalExpired: [KEPT, 'the cost of the call {id} was not approved in time'],
  RelayConnected: [CAME, 'a node connected to its relay {url}'],
  RelayLost: [LOST, 'a node lost the connection to its relay {url} ({reason})'],
  AuditRecorded: [STEP, '{who} requested {what}'],
  ModelStored: [KEPT, '{modelId} was stored on {nodeId} ({totalBytes})'],
  ModelDeleted: [KEPT, '{modelId} was deleted from the store on {nodeId}'],
  StagedModelEvicted: [KEPT,
    'the copy of {modelId} on {nodeId} was removed to free disk space ({freedBytes}, {trigger})'],
  StagingPurged: [KEPT, 'the staged copies on {nodeId} were purged ({freedBytes})'],
  TokenCreated: [KEPT, 'the token {id} ({label}) was created by {by}'],
  TokenRevoked: [KEPT, 'the token {id} was revoked by {by}'],
  TokenRotated: [KEPT, 'the token {replaces} was replaced by {id} and ends {ends}'],
  TracingStateChanged: [KEPT, 'tracing was switched {enabled}'],
  NodeDownloadProgress: [STEP, 'the transfer of {modelId} to {nodeId} is {status}'],
  RunnerStatusUpdated: [STEP, 'the runner of {modelId} {status}']
}

/** Events for the list of findings; the tool of failed requests reports those. */
export const NOTABLE = Object.entries(EVENTS).filter(([kind, [rank]]) =>
  rank <= DECIDED && kind !== 'TaskFailed' && kind !== 'MasterElected').map(([kind]) => kind)

const STATUSES: Readonly<Record<string, string>> = {
  RunnerFailed: 'failed', RunnerReady: 'became ready', RunnerShutdown: 'stopped',
  RunnerShuttingDown: 'was asked to stop'
}

/** The node ids in the fields of an event, including those in its text fields. */
export function nodesIn (payload: Payload): string[] {
  return Object.entries(payload).flatMap(([key, value]) => {
    if (/nodeIds?$/i.test(key)) return [value].flat().filter((id) => typeof id === 'string')
    return typeof value === 'string' ? value.match(NODE_ID) ?? [] : []
  })
}

/** Importance of an event; a failed runner matters more than a state change. */
export function rankOf (kind: string, { status, reason, term }: Payload): number {
  // The first session of a cluster replaces none.
  if (kind === 'SessionChanged' && term === 1) return CAME
  if (kind === 'RunnerStatusUpdated' && statusOf(status) === 'RunnerFailed') return LOST
  // With the reason `autoplace`, an instance waits for its first placement, so it has not lost a node.
  if (kind === 'InstanceWaiting' && reason === 'autoplace') return PLACED
  return EVENTS[kind]?.[0] ?? KEPT
}

/** Describes an event, with no time or full stop; gives only the name if the event's plugin is unknown. */
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
    return `${STATUSES[kind] ?? `changed to ${quoted(kind, 40)}`}${why}`
  }
  if (field === 'enabled') return value === true ? 'on' : 'off'
  if (field === 'evidence' && value === 'lost') return 'its link broke'
  if (/nodeIds?$/i.test(field)) return [value].flat().map((id) => nameOf(String(id))).join(', ')
  if (/Bytes$/.test(field) && typeof value === 'number') return showBytes(value)
  const said = typeof value === 'string' ? value : JSON.stringify(value) ?? 'unknown'
  return quoted(said.replace(NODE_ID, nameOf))
}
