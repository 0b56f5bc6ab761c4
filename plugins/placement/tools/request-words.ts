import { plain, withoutFullStop, type Fact } from '../../../kernel/cli/index.js'
import { partsOf, type RequestSummary, type SeenEvent } from './request-facts.js'
import type { ShownSpan } from '../../tracing/service.js'

/** Shortens another component's message so that it can end a sentence. */
export const sentenceEnd = (text: string): string => withoutFullStop(text, 500)

const LEVELS = ['fail', 'warn', 'info', 'ok']
export const worstFirst = (facts: readonly Fact[]): Fact[] =>
  facts.toSorted((a, b) => LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level))

/** Readable names for the steps in a trace, by the beginning of the span name. */
const PARTS: readonly (readonly [name: RegExp, words: string])[] = [
  [/^parse/, 'read the request'],
  [/^admission/, 'waited for admission'],
  [/^route/, 'chose a runner'],
  [/^runner queue/, 'waited for a slot at the runner'],
  [/^network/, 'was sent to the other node, processed there and returned'],
  [/^wait/, 'waited in the queue of the model'],
  [/^prompt/, 'prepared the prompt'],
  [/^prefill/, 'read the prompt'],
  [/^(generate|decode)/, 'wrote the answer'],
  [/^prepare/, 'prepared the text'],
  [/^synthesise/, 'synthesized the audio'],
  [/^encode/, 'encoded the audio'],
  [/^first bytes/, 'sent the first bytes to the client'],
  [/^(write|client)/, 'waited for the client to read']
]

/** The readable name of a step, or the name of its span if it has none. */
export function partWords ({ name }: Pick<ShownSpan, 'name'>): string {
  return PARTS.find(([pattern]) => pattern.test(name))?.[1] ?? plain(name)
}

export interface RequestScope extends Pick<RequestSummary,
'taskId' | 'commandId' | 'modelId' | 'instanceId'> {
  /** Ids of the nodes on which the request ran; empty if unknown. */
  readonly nodes: ReadonlySet<string>
  readonly name: (nodeId: string) => string
}

type Payload = Readonly<Record<string, unknown>>

const CONCERNS: Readonly<Record<'cluster' | 'node' | 'instance' | 'request',
  (payload: Payload, concern: RequestScope) => boolean>> = {
  cluster: () => true,
  // If the request's nodes are unknown, events from any node may concern it.
  node: ({ nodeId }, { nodes }) => nodes.size === 0 || nodes.has(nodeId as string),
  // Compare instance ids if both are known, otherwise model ids.
  instance: ({ instanceId, modelId }, concern) =>
    concern.instanceId !== null && typeof instanceId === 'string'
      ? concern.instanceId === instanceId
      : concern.modelId !== null && modelId === concern.modelId,
  request: ({ taskId, commandId }, concern) => taskId === concern.taskId || commandId === concern.commandId
}

/** What each event is about, and its text with placeholders for payload fields, by event name. */
const EVENTS: Readonly<Record<string, readonly [about: keyof typeof CONCERNS, words: string]>> = {
  ProtocolViolation: ['node', '{nodeId} broke the protocol: {reason}'],
  NodeTimedOut: ['node', '{nodeId} was lost: {evidence}'],
  NodeRestarted: ['node', '{nodeId} was requested to restart'],
  NodeRemoved: ['node', '{name} was removed from the cluster'],
  SessionChanged: ['cluster',
    'the cluster began a new session (term {term}, master {masterNodeId}); open requests ended'],
  RunnerFailed: ['instance', 'its runner was given up after {attempts} attempts: {errorMessage}'],
  RunnerStatusUpdated: ['instance', '{status}'],
  InstanceCreated: ['instance', 'the model was placed on {nodeIds}'],
  InstanceDeleted: ['instance', 'its instance was removed'],
  InstanceUnloaded: ['instance', 'its instance was unloaded: unused for {idleSeconds} s'],
  InstanceFailureRecorded: ['instance', 'its instance cannot serve ({errorCode}): {errorMessage}'],
  DownloadFailed: ['instance', 'its files could not be downloaded: {errorMessage}'],
  TaskFailed: ['request', 'it failed with {errorType}: {errorMessage}']
}

const MOVES: Readonly<Record<string, string>> = {
  RunnerIdle: 'its runner is restarting',
  RunnerFailed: 'its runner failed',
  RunnerShuttingDown: 'its runner is stopping',
  RunnerShutdown: 'its runner stopped',
  RunnerReady: 'its runner became ready'
}

/** Describes an event; null if the event does not concern the request. */
export function eventText (event: SeenEvent, concern: RequestScope): string | null {
  const [kind, payload] = partsOf(event)
  const [about, words] = EVENTS[kind] ?? ['cluster', '']
  if (!CONCERNS[about](payload, concern)) return null
  const text = words.replace(/\{(\w+)\}/g, (_, field: string) => fieldText(field, payload[field], concern))
  return text === '' ? null : plain(text)
}

/** A payload field as text; empty for a runner status that has no text. */
function fieldText (field: string, value: unknown, { name }: RequestScope): string {
  if (field === 'status') return MOVES[Object.keys(value as object)[0] ?? ''] ?? ''
  if (/nodeIds?$/i.test(field)) return [value].flat().map((id) => name(String(id))).join(', ')
  return typeof value === 'string' ? value : JSON.stringify(value) ?? ''
}
