import { isVerbError, type ClusterState } from '../../../kernel/cli/index.js'
import { answerOf, leadOf, moreOf, type Found } from './answer.js'
import { planOf } from './plan.js'
import { restWords } from './say.js'
import { understand } from './understand.js'
import type { TurnTools } from '../toolbox.js'
import type { Answer, Question, ToolCall, TurnEvent } from '../types.js'
import type { Understood } from './thread.js'
import type { World } from './entities.js'

/**
 * Answers without a language model: understands the question, calls the relevant tools and words their facts.
 * Yields the first sentence early if no other fact can change it.
 */
export async function * read (tools: TurnTools, question: Question): AsyncGenerator<TurnEvent> {
  const { asked, world } = await understood(tools, question)
  const calls = planOf(asked, world)
  for (const { tool, args } of calls) yield { type: 'call', tool, args }
  const finding = async (call: ToolCall): Promise<Found> => ({ call, finding: await tools.run(call) })
  const running = calls.map(finding)
  const all = Promise.all(running)
  all.catch(() => {})
  const lead = running[0] === undefined ? null : leadOf(asked, await running[0])
  if (lead !== null) yield { type: 'text', text: `${lead}\n` }
  const found = await all
  const more = moreOf(asked, found, (tool) => tools.has(tool))
  if (more !== null) {
    yield { type: 'call', tool: more.tool, args: more.args }
    found.unshift(await finding(more))
  }
  const worded = answerOf(asked, found, world)
  const first = lead === null ? `${worded.diagnosis}\n` : ''
  yield { type: 'text', text: first + restWords(asked, worded, world.zoneMin) }
  const answer: Answer = { ...worded, voice: 'reader', calls: tools.made }
  yield { type: 'answer', answer }
}

/** Understands a question with the names of placed models or, if necessary, of the whole catalogue. */
async function understood ({ context, plugins }: TurnTools, { text, thread }: Question): Promise<{
  asked: Understood, world: World
}> {
  const placed = await worldOf(context.look, context.nowMs, plugins)
  const asked = understand(text, thread, placed)
  const known = asked.model !== null && placed.models.includes(asked.model) && asked.sure
  if (known || !/model|fit|slow|logs|other|health|help/.test(asked.intent)) return { asked, world: placed }
  const world = await withCatalogue(placed, context.look)
  return { asked: understand(text, thread, world), world }
}

type Look = TurnTools['context']['look']

/** An instance as in /state: an object whose only key is the kind of the instance. */
type SeenInstance = Record<string, { shardAssignments?: { modelId?: unknown } } | undefined>

interface SeenState extends ClusterState { instances?: Record<string, SeenInstance> }

/** The names that a question may contain: nodes, instances and placed models. */
async function worldOf (look: Look, nowMs: number, plugins: readonly string[]): Promise<World> {
  const state = await look<SeenState>('/state')
  const zoneMin = -new Date(nowMs).getTimezoneOffset()
  const empty = { models: [], nodes: [], instances: {}, master: null, local: null, nowMs, zoneMin, plugins }
  if (isVerbError(state)) return empty
  const instances = Object.fromEntries(Object.entries(state.instances ?? {}).flatMap(([id, instance]) => {
    const modelId = Object.values(instance)[0]?.shardAssignments?.modelId
    return typeof modelId === 'string' ? [[id, modelId]] : []
  }))
  return {
    ...empty, instances, models: [...new Set(Object.values(instances))], master: state.masterNodeId,
    local: state.localNodeId,
    nodes: Object.entries(state.nodeIdentities)
      .map(([nodeId, { friendlyName }]) => ({ nodeId, name: friendlyName ?? nodeId }))
  }
}

/** Adds the names of all models in the catalogue. */
async function withCatalogue (world: World, look: Look): Promise<World> {
  const list = await look<{ data: { id: string }[] }>('/v1/models')
  if (isVerbError(list)) return world
  return { ...world, models: [...new Set([...world.models, ...list.data.map(({ id }) => id)])] }
}
