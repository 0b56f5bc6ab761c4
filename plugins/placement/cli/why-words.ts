import { plain } from '../../../kernel/cli/index.js'
import { partsOf } from './why-facts.js'
import type { SeenEvent, SeenSpan } from './why-facts.js'

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
export function partWords ({ name }: Pick<SeenSpan, 'name'>): string {
  return PARTS.find(([pattern]) => pattern.test(name))?.[1] ?? plain(name)
}

/** What a request has to do with. */
export interface Concern {
  readonly taskId: string | null
  readonly commandId: string | null
  readonly modelId: string | null
  readonly instanceId: string | null
  /** Ids of the nodes where it ran; empty when nobody knows. */
  readonly nodes: ReadonlySet<string>
  readonly name: (nodeId: string) => string
}

type Payload = Record<string, unknown>
type Tell = (payload: Payload, concern: Concern) => string | null

const text = (value: unknown): string => typeof value === 'string' ? value : JSON.stringify(value) ?? ''
const list = (value: unknown): string[] => Array.isArray(value) ? value.map(text) : []

/** Of the instance where it is known, else of the model. */
function concerns ({ instanceId, modelId }: Payload, concern: Concern): boolean {
  if (concern.instanceId !== null && typeof instanceId === 'string') return concern.instanceId === instanceId
  return concern.modelId !== null && modelId === concern.modelId
}

const own = (tell: (payload: Payload, concern: Concern) => string): Tell => (payload, concern) =>
  concerns(payload, concern) ? tell(payload, concern) : null

/** A node matters where the request ran there, or where nobody knows. */
const there = (tell: (payload: Payload, name: string) => string): Tell => (payload, { nodes, name }) => {
  const nodeId = text(payload['nodeId'])
  return nodes.size === 0 || nodes.has(nodeId) ? tell(payload, name(nodeId)) : null
}

const MOVES: Readonly<Record<string, string>> = {
  RunnerIdle: 'its runner is started again',
  RunnerFailed: 'its runner failed',
  RunnerShuttingDown: 'its runner was told to stop',
  RunnerShutdown: 'its runner stopped',
  RunnerReady: 'its runner became ready'
}

const TELLS: Readonly<Record<string, Tell>> = {
  ProtocolViolation: there(({ reason }, node) => `${node} broke the protocol: ${text(reason)}`),
  NodeTimedOut: there(({ evidence }, node) => `${node} was lost: ${text(evidence)}`),
  NodeRestarted: there((_, node) => `${node} was told to restart`),
  NodeRemoved: there((_, node) => `${node} was removed from the cluster`),
  SessionChanged: ({ term, masterNodeId }, { name }) =>
    `the cluster began another session (term ${text(term)}, master ${name(text(masterNodeId))}); ` +
    'what was open then ended',
  RunnerFailed: own(({ errorMessage, attempts }) =>
    `its runner was given up after ${text(attempts)} attempts: ${text(errorMessage)}`),
  RunnerStatusUpdated: own(({ status }) => MOVES[Object.keys(status as object)[0] ?? ''] ?? ''),
  InstanceCreated: own(({ nodeIds }, { name }) =>
    `the model was placed on ${list(nodeIds).map(name).join(', ')}`),
  InstanceDeleted: own(() => 'its instance was removed'),
  InstanceUnloaded: own(({ idleSeconds }) => `its instance was unloaded: unused for ${text(idleSeconds)} s`),
  InstanceFailureRecorded: own(({ errorCode, errorMessage }) =>
    `its instance cannot serve (${text(errorCode)}): ${text(errorMessage)}`),
  DownloadFailed: own(({ errorMessage }) => `its files could not be brought: ${text(errorMessage)}`),
  TaskFailed: ({ taskId, commandId, errorType, errorMessage }, concern) =>
    taskId === concern.taskId || commandId === concern.commandId
      ? `it failed with ${text(errorType)}: ${text(errorMessage)}`
      : null
}

/** An event in plain words, where it may have to do with the request; else null. */
export function eventText (event: SeenEvent, concern: Concern): string | null {
  const [kind, payload] = partsOf(event)
  const words = TELLS[kind]?.(payload, concern) ?? ''
  return words === '' ? null : plain(words)
}
