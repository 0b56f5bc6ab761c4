import { plain, withoutFullStop } from '../../../kernel/cli/index.js'
import type { Fact } from '../../../kernel/cli/index.js'
import { partsOf } from './request-facts.js'
import type { ShownSpan } from '../../tracing/service.js'
import type { RequestSummary, SeenEvent } from './request-facts.js'

/** Text of others as the end of a sentence. */
export const sentenceEnd = (text: string): string => withoutFullStop(text, 500)

const LEVELS = ['fail', 'warn', 'info', 'ok']
export const worstFirst = (facts: readonly Fact[]): Fact[] =>
  facts.toSorted((a, b) => LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level))

/** Steps of a trace in plain words, by the first word or words of their name. */
const PARTS: readonly (readonly [name: RegExp, words: string])[] = [
  [/^parse/, 'read the request'],
  [/^admission/, 'waited to be let in'],
  [/^route/, 'chose a runner'],
  [/^runner queue/, 'waited for a place at the runner'],
  [/^network/, 'went to the other node and back, with all that was done there'],
  [/^wait/, 'waited for its turn in the model'],
  [/^prompt/, 'prepared the prompt'],
  [/^prefill/, 'read the prompt'],
  [/^(generate|decode)/, 'wrote the answer'],
  [/^prepare/, 'prepared the text'],
  [/^synthesise/, 'made the sound'],
  [/^encode/, 'encoded the sound'],
  [/^first bytes/, 'sent the first bytes to the client'],
  [/^(write|client)/, 'waited for the client to read']
]

/** What a step is about; its name where nobody has words for it. */
export function partWords ({ name }: Pick<ShownSpan, 'name'>): string {
  return PARTS.find(([pattern]) => pattern.test(name))?.[1] ?? plain(name)
}

export interface RequestScope extends Pick<RequestSummary,
'taskId' | 'commandId' | 'modelId' | 'instanceId'> {
  /** Ids of the nodes where it ran; empty when nobody knows. */
  readonly nodes: ReadonlySet<string>
  readonly name: (nodeId: string) => string
}

type Payload = Readonly<Record<string, unknown>>

/** Whether an event has to do with the request, by what the event is about. */
const CONCERNS: Readonly<Record<'cluster' | 'node' | 'instance' | 'request',
  (payload: Payload, concern: RequestScope) => boolean>> = {
  cluster: () => true,
  // A node matters where the request ran there, or where nobody knows.
  node: ({ nodeId }, { nodes }) => nodes.size === 0 || nodes.has(nodeId as string),
  // Of the instance where it is known, else of the model.
  instance: ({ instanceId, modelId }, concern) =>
    concern.instanceId !== null && typeof instanceId === 'string'
      ? concern.instanceId === instanceId
      : concern.modelId !== null && modelId === concern.modelId,
  request: ({ taskId, commandId }, concern) => taskId === concern.taskId || commandId === concern.commandId
}

/** Events by their name: what they are about, and words with the fields that fill them in. */
const EVENTS: Readonly<Record<string, readonly [about: keyof typeof CONCERNS, words: string]>> = {
  ProtocolViolation: ['node', '{nodeId} broke the protocol: {reason}'],
  NodeTimedOut: ['node', '{nodeId} was lost: {evidence}'],
  NodeRestarted: ['node', '{nodeId} was told to restart'],
  NodeRemoved: ['node', '{name} was removed from the cluster'],
  SessionChanged: ['cluster',
    'the cluster began another session (term {term}, master {masterNodeId}); what was open then ended'],
  RunnerFailed: ['instance', 'its runner was given up after {attempts} attempts: {errorMessage}'],
  RunnerStatusUpdated: ['instance', '{status}'],
  InstanceCreated: ['instance', 'the model was placed on {nodeIds}'],
  InstanceDeleted: ['instance', 'its instance was removed'],
  InstanceUnloaded: ['instance', 'its instance was unloaded: unused for {idleSeconds} s'],
  InstanceFailureRecorded: ['instance', 'its instance cannot serve ({errorCode}): {errorMessage}'],
  DownloadFailed: ['instance', 'its files could not be brought: {errorMessage}'],
  TaskFailed: ['request', 'it failed with {errorType}: {errorMessage}']
}

const MOVES: Readonly<Record<string, string>> = {
  RunnerIdle: 'its runner is started again',
  RunnerFailed: 'its runner failed',
  RunnerShuttingDown: 'its runner was told to stop',
  RunnerShutdown: 'its runner stopped',
  RunnerReady: 'its runner became ready'
}

/** An event in plain words, where it may have to do with the request; else null. */
export function eventText (event: SeenEvent, concern: RequestScope): string | null {
  const [kind, payload] = partsOf(event)
  const [about, words] = EVENTS[kind] ?? ['cluster', '']
  if (!CONCERNS[about](payload, concern)) return null
  const text = words.replace(/\{(\w+)\}/g, (_, field: string) => fieldText(field, payload[field], concern))
  return text === '' ? null : plain(text)
}

/** A field of an event in words; of a status that says nothing it is none. */
function fieldText (field: string, value: unknown, { name }: RequestScope): string {
  if (field === 'status') return MOVES[Object.keys(value as object)[0] ?? ''] ?? ''
  if (/nodeIds?$/i.test(field)) return [value].flat().map((id) => name(String(id))).join(', ')
  return typeof value === 'string' ? value : JSON.stringify(value) ?? ''
}
