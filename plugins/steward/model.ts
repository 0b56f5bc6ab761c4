/** The virtual model `svc/steward`: chat requests as questions, and answers in the messages of engines. */
import { kernelError } from '../../kernel/index.js'
import type { EngineChunk, EngineTask, ModelCard, SvcError } from '../../kernel/index.js'
import type { RouteQuery, VirtualModel } from '../runners/service.js'
import type { Desk } from './ask.js'
import { QUESTION_MAX, THREAD_MAX, TURN_MAX } from './routes.js'
import type { StatusBody } from './status.js'
import type { Question, Turn } from './types.js'

/** Its name on every chat API. */
export const STEWARD = 'svc/steward'

const card: ModelCard = {
  modelId: STEWARD, revision: '1', title: 'Steward',
  description: 'Answers questions about this cluster from what its nodes know, with the evidence.',
  tasks: ['chat'], family: 'steward', engine: 'steward', backends: [], files: [], totalBytes: 0, nLayers: 0,
  hiddenSize: 0, heads: 0, kvHeads: 0, headSize: 0, contextLength: 8192, supportsTensor: false,
  companions: [], licence: 'MIT', languages: ['en'], quantization: null, voices: [], defaults: {},
  support: { tools: 'no effect: it has its own' }
}

/** The model by which chat clients ask the steward: while it is on, and ready with the model that is set. */
export function stewardModel (desk: Desk, status: () => StatusBody): VirtualModel {
  return {
    card: () => desk.refusal() === null ? card : undefined,
    refusal: () => desk.refusal() ?? notReady(status()),
    open: (task, query, signal) => answer(desk, questionOf(task), query, signal)
  }
}

function notReady ({ ready, state, steward_model: model }: StatusBody): SvcError | null {
  if (ready) return null
  return kernelError('not_ready', `The steward waits for its model ${model ?? ''}: ${state}.`,
    { remedy: 'Try again shortly. `svc ask` answers meanwhile, without the model.' })
}

async function * answer (
  desk: Desk, question: Question, { caller }: RouteQuery, signal: AbortSignal
): AsyncGenerator<EngineChunk> {
  let admitted = false
  for await (const event of desk.turn(question, { caller, signal })) {
    if (!admitted) yield { payload: { kind: 'admitted', prompt_tokens: 0, plain: true } }
    admitted = true
    if (event.type === 'text') yield { payload: { kind: 'delta', index: 0, text: event.text } }
  }
  // No tokens are counted where no language model answers.
  yield {
    payload: {
      kind: 'done', index: 0, finish_reason: 'stop', stop_text: null,
      usage: { prompt_tokens: 0, completion_tokens: 0, cached_tokens: 0 },
      stats: { prompt_tps: null, generation_tps: null, peak_memory_bytes: 0 }
    }
  }
}

/** What the chat routes make of a request, as far as it is read here. */
interface ChatPayload {
  messages?: readonly { role: string, content: string | null }[]
  tools?: readonly unknown[]
  n?: number
  params?: { grammar?: { kind: string } }
}

/**
 * The last text of the user as a question, and what was said before it. Instructions (system messages) and
 * results of tools are left out. Throws `invalid_request` for what would be ignored otherwise.
 */
export function questionOf ({ kind, payload }: EngineTask): Question {
  const { messages = [], tools = [], n = 1, params = {} } = payload as ChatPayload
  if (kind !== 'chat') throw refused('model', `${STEWARD} has no tokens; it answers questions only`)
  if (tools.length > 0) throw refused('tools', `are not called by ${STEWARD}: it has its own; leave them out`)
  if (n > 1) throw refused('n', `is ${n}; ${STEWARD} gives one answer`)
  if (params.grammar !== undefined) {
    throw refused('response_format', `is not kept to by ${STEWARD}; leave it out`)
  }
  const said = messages.flatMap(({ role, content }): Turn[] =>
    (role === 'user' || role === 'assistant') && content !== null && content.trim() !== ''
      ? [{ role, text: content.slice(0, TURN_MAX) }] : [])
  const last = said.findLastIndex(({ role }) => role === 'user')
  if (last < 0) throw refused('messages', 'have no text of the user')
  const { text } = said[last]!
  if (text.length > QUESTION_MAX) {
    throw refused('messages', `end with a question of over ${QUESTION_MAX} characters; ask a shorter one`)
  }
  return { text, thread: said.slice(Math.max(0, last - THREAD_MAX), last) }
}

function refused (path: string, message: string): SvcError {
  return kernelError('invalid_request', `${path} ${message}`, { param: path, issues: [{ path, message }] })
}
