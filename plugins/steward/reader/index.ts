import { isVerbError, type ClusterState, type Evidence, type Fact } from '../../../kernel/cli/index.js'
import { understand, type Asked } from './question.js'
import { answerOf, moreOf, planOf, type Found, type Worded } from './select.js'
import { clockWords } from './when.js'
import type { TurnTools } from '../toolbox.js'
import type { Answer, Question, ToolCall, TurnEvent } from '../types.js'
import type { World } from './entities.js'

/** Answers without a language model: reads the question, calls tools, and ranks their facts and findings. */
export async function * read (tools: TurnTools, question: Question): AsyncGenerator<TurnEvent> {
  const { asked, world } = await understood(tools, question)
  const calls = planOf(asked, world)
  for (const { tool, args } of calls) yield { type: 'call', tool, args }
  const finding = async (call: ToolCall): Promise<Found> => ({ call, finding: await tools.run(call) })
  const found = await Promise.all(calls.map(finding))
  const more = moreOf(asked, found, (tool) => tools.has(tool))
  if (more !== null) {
    yield { type: 'call', tool: more.tool, args: more.args }
    const { call, finding: { facts, unknown } } = await finding(more)
    // A tool is missing because its plugin is off, so that fact comes first.
    const missing = found.some(({ call: { tool } }) => !tools.has(tool))
    const level = ({ about: [name] }: Fact) => missing || name === asked.feature ? 'warn' : 'info'
    found.unshift({ call, finding: { unknown, facts: more.tool !== 'plugins' ? facts
      : facts.flatMap((one) => one.code === 'plugin_off' ? [{ ...one, level: level(one) }] : []) } })
  }
  const worded = answerOf(asked, found, world)
  yield { type: 'text', text: `${worded.diagnosis}\n${restWords(asked, worded, world.zoneMin)}` }
  const answer: Answer = { ...worded, voice: 'reader', calls: tools.made }
  yield { type: 'answer', answer }
}

/** An instance as in /state: an object whose only key is the kind of the instance. */
type SeenInstance = Record<string, { shardAssignments?: { modelId?: unknown } } | undefined>

interface SeenState extends ClusterState { instances?: Record<string, SeenInstance> }

/** Reads the question with the names of all nodes, instances and models. */
async function understood (
  { context: { look, nowMs } }: TurnTools, { text, thread }: Question
): Promise<{ asked: Asked, world: World }> {
  const [state, list] = await Promise.all([
    look<SeenState>('/state'), look<{ data: { id: string, tasks?: string[] }[] }>('/v1/models')
  ])
  const models = isVerbError(list) ? [] : list.data
  const { instances = {}, masterNodeId = null, localNodeId = null, nodeIdentities = {} } = isVerbError(state)
    ? {} : state
  const placed = Object.entries(instances).flatMap(([id, instance]): [string, string][] => {
    const modelId = Object.values(instance)[0]?.shardAssignments?.modelId
    return typeof modelId === 'string' ? [[id, modelId]] : []
  })
  const world = {
    nowMs, zoneMin: -new Date(nowMs).getTimezoneOffset(), master: masterNodeId, local: localNodeId,
    instances: Object.fromEntries(placed),
    models: [...new Set([...placed.map(([, modelId]) => modelId), ...models.map(({ id }) => id)])],
    tasks: Object.fromEntries(models.map(({ id, tasks = [] }) => [id, tasks])),
    nodes: Object.entries(nodeIdentities)
      .map(([nodeId, { friendlyName }]) => ({ nodeId, name: friendlyName ?? nodeId }))
  }
  return { asked: understand(text, thread, world), world }
}

/** Evidence as text, with the command that shows it if there is one. */
export function evidenceWords (evidence: Evidence): string {
  switch (evidence.kind) {
    case 'event': return `event ${evidence.idx} at ${evidence.at} (${evidence.name})`
    case 'trace': return `trace svc traces ${evidence.taskId}`
    case 'node': return `node ${evidence.name}`
    case 'error': return `error ${evidence.reason}`
    case 'log': return `log of ${evidence.node} at ${evidence.at}`
    case 'time': return `at ${evidence.at}`
    case 'path': return `GET ${evidence.path}`
  }
}

/** The lines that follow an answer's first sentence: facts, references, commands, and failed reads. */
export function restWords (asked: Asked, answer: Worded, zoneMin: number): string {
  const { diagnosis, facts, remedies, unknown } = answer
  const lines = facts.flatMap(({ text, evidence }) => {
    const refs = [...new Set(evidence.map(evidenceWords))].join(', ')
    // The first sentence already states this fact, so add only its evidence.
    if (diagnosis.includes(text)) return refs === '' ? [] : [`evidence: ${refs}`]
    return [`- ${text}${refs === '' ? '' : ` [${refs}]`}`]
  })
  return [
    ...timeWords(asked, zoneMin), ...lines,
    ...remedies.filter((one) => one !== diagnosis).map((text) => `next: ${text}`),
    ...unknown.map((text) => `not known: ${text}`)
  ].map((line) => `${line}\n`).join('')
}

function timeWords ({ when }: Asked, zoneMin: number): string[] {
  if (when === null) return []
  const [from, to] = [when.from, when.to].map((iso) => clockWords(iso, zoneMin))
  return [`time: ${from} to ${to}`]
}
