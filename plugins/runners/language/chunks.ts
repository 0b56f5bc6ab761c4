/**
 * Requests to and answers from language-model engines: OpenAI messages, and OpenAI chunks without the fields
 * that never change within an answer (id, object, created, model). Types only.
 */

/** One message of a conversation in OpenAI's shape. Some chat templates include earlier reasoning. */
export interface ChatMessage {
  role: string
  /** A list of parts if the message has images, which only some engines accept. */
  content: string | readonly object[] | null
  name?: string, reasoning_content?: string, tool_calls?: unknown[]
  tool_call_id?: string
}

export type Finish = 'stop' | 'length' | 'tool_calls'

/**
 * A token; `bytes` is null if the engine does not report them, and `token` then has U+FFFD for partial
 * characters.
 */
export interface NamedToken { token: string, logprob: number | null, bytes: number[] | null }
export interface TokenReport extends NamedToken { top_logprobs: NamedToken[] }

/** A piece of a tool call; only the first piece has the name. */
export interface CallDelta {
  index: number, id?: string, type?: 'function', function: { name?: string, arguments?: string }
}

/** New output for one answer: `delta` in a chat, `text` in a completion. */
export interface Choice {
  index: number
  delta?: { content?: string, reasoning_content?: string, tool_calls?: CallDelta[] }
  text?: string
  logprobs?: { content: TokenReport[] } | null
  /** Present in the last chunk of the answer. */
  finish_reason?: Finish | null
  /** The stop sequence that ended the answer; null if there was none or the engine does not report it. */
  stop_text?: string | null
}

/** Token counts of an answer; the first chunk has only those for the prompt. */
export interface Usage {
  prompt_tokens: number, completion_tokens?: number, prompt_tokens_details?: { cached_tokens: number }
}

/** Speeds in tokens per second, and sizes in bytes; absent or null if not measured. */
export interface Timings {
  prompt_per_second?: number | null, predicted_per_second?: number | null, peak_memory_bytes?: number
}

/** A wait for a model: `percent` is null until loading begins, `expectedSeconds` while unknown. */
export interface ModelWait { percent: number | null, expectedSeconds: number | null }

/**
 * One chunk of an answer. A first chunk with usage but no choices reports that the prompt was admitted; the
 * last chunk of each choice has usage and timings. `warnings` come earlier and name the parts of the request
 * that the engine ignores.
 */
export interface AnswerChunk {
  choices: Choice[], usage?: Usage, timings?: Timings, warnings?: string[]
  /**
   * Sent before all other chunks: the position in the queue for a slot, counted from 1; while the model loads
   * for the request, `load` and the place 0.
   */
  queue?: { place: number, slots: number, load?: ModelWait }
  /** In the first chunk of a virtual model: the model that answers in its place. */
  model?: string
}
