/** The virtual model `svc/steward`: takes chat requests as questions and answers with EngineChunks. */
import { badField, kernelError } from '../../kernel/index.js'
import type { EngineChunk, EngineTask, ModelCard, SvcError } from '../../kernel/index.js'
import type { RouteQuery, VirtualModel } from '../runners/service.js'
import type { Desk } from './ask.js'
import { QUESTION_MAX, THREAD_MAX, TURN_MAX } from './routes.js'
import type { StatusBody } from './status.js'
import type { Question, Turn } from './types.js'

/** The steward's model name in every chat API. */
export const STEWARD = 'svc/steward'

const card: ModelCard = {
  modelId: STEWARD, revision: '1', title: 'Steward',
  description: 'Answers questions about this cluster from what its nodes know, with the evidence.',
  tasks: ['chat'], family: 'steward', engine: 'steward', backends: [], files: [], totalBytes: 0, nLayers: 0,
  hiddenSize: 0, heads: 0, kvHeads: 0, headSize: 0, contextLength: 8192, supportsTensor: false,
  companions: [], licence: 'MIT', languages: ['en'], quantization: null, voices: [], defaults: {},
  support: { tools: 'no effect: it has its own' }
}

/**
 * The model through which chat clients ask the steward; exists while the plugin is enabled, and is ready
 * when its configured model is.
 */
export function stewardModel (desk: Desk, status: () => StatusBody): VirtualModel {
  return {
    card: () => desk.refusal() === null ? card : undefined,
    refusal: () => desk.refusal() ?? notReady(status()),
    open: (task, query, signal) => answer(desk, task, query, signal)
  }
}

function notReady ({ ready, state, steward_model: model }: StatusBody): SvcError | null {
  if (ready) return null
  return kernelError('not_ready', `The steward waits for its model ${model ?? ''}: ${state}.`,
    { remedy: 'Try again shortly. `svc ask` answers meanwhile, without the model.' })
}

/** Open WebUI puts documents, and what to do with them, before a question. */
const DOCUMENTS = /^### Task:[^]*<\/context>\s*/
/** Open WebUI's prompts for titles, tags and the like have these parts in this order; a question does not. */
const JSON_PROMPT = [/^### Task:\n/, /\n### (?:Guidelines|Output):/, /\bJSON\b/, /<chat_history>/]
/** For clients, an answer without any of the fields that they read. */
const NO_FIELDS = [{ type: 'text', text: '{}' }] as const

async function * answer (
  desk: Desk, task: EngineTask, { caller }: RouteQuery, signal: AbortSignal
): AsyncGenerator<EngineChunk> {
  const question = questionOf(task)
  const warnings = offersTools(task) ? [`tools: ${STEWARD} has its own`] : []
  if (question === null) warnings.push(`messages: ${STEWARD} answers questions about the cluster only`)
  if (warnings.length > 0) yield { payload: { choices: [], warnings } }
  // Report zero tokens, because the answer may not come from a language model.
  const usage = { prompt_tokens: 0, completion_tokens: 0, prompt_tokens_details: { cached_tokens: 0 } }
  let admitted = false
  for await (const event of question === null ? NO_FIELDS : desk.turn(question, { caller, signal })) {
    if (!admitted) yield { payload: { choices: [], usage } }
    admitted = true
    if (event.type === 'text') yield { payload: { choices: [{ index: 0, delta: { content: event.text } }] } }
  }
  yield { payload: { choices: [{ index: 0, delta: {}, finish_reason: 'stop', stop_text: null }], usage } }
}

interface ChatPayload {
  messages?: readonly { role: string, content: string | null }[]
  tools?: readonly unknown[]
  tool_choice?: unknown
  n?: number
  response_format?: object
}

const offersTools = ({ payload }: EngineTask): boolean => ((payload as ChatPayload).tools ?? []).length > 0

/**
 * The user's last message as a question, with the earlier conversation, but without system messages and tool
 * results; null for a client's request for JSON about the chat. Throws `invalid_request` for fields that the
 * steward could only ignore.
 */
export function questionOf ({ kind, payload }: EngineTask): Question | null {
  const { messages = [], tool_choice: choice, n = 1, response_format: format } = payload as ChatPayload
  if (kind !== 'chat') throw badField('model', `${STEWARD} has no tokens; it answers questions only`)
  if (choice !== undefined && choice !== 'auto') {
    throw badField('tool_choice', `requires a call, and ${STEWARD} calls its own tools only; leave it out`)
  }
  if (n > 1) throw badField('n', `is ${n}; ${STEWARD} gives one answer`)
  if (format !== undefined) {
    throw badField('response_format', `is not kept to by ${STEWARD}; leave it out`)
  }
  const said = messages.flatMap(({ role, content }): Turn[] => {
    const text = content?.replace(DOCUMENTS, '') ?? ''
    return (role === 'user' || role === 'assistant') && text.trim() !== ''
      ? [{ role, text: text.slice(0, TURN_MAX) }] : []
  })
  const last = said.findLastIndex(({ role }) => role === 'user')
  if (last < 0) throw badField('messages', 'have no text of the user')
  const { text } = said[last]!
  if (isJsonPrompt(text)) return null
  if (text.length > QUESTION_MAX) {
    throw badField('messages', `end with a question of over ${QUESTION_MAX} characters; ask a shorter one`)
  }
  return { text, thread: said.slice(Math.max(0, last - THREAD_MAX), last) }
}

function isJsonPrompt (text: string): boolean {
  let rest = text
  return JSON_PROMPT.every((part) => {
    const at = rest.search(part)
    rest = rest.slice(at)
    return at >= 0
  })
}
