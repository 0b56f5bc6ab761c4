/**
 * What engines for language models are asked, and what they answer: OpenAI's messages, and its chunks without
 * the fields that are the same in all of them (id, object, created, model). Types only.
 */

/** One message of a conversation, in the shape of the OpenAI API. Some templates show earlier reasoning. */
export interface ChatMessage {
  role: string
  /** Parts where there are images among them, which only some engines read. */
  content: string | readonly object[] | null
  name?: string, reasoning_content?: string, tool_calls?: unknown[]
  tool_call_id?: string
}

/** Why a choice ended, under OpenAI's names. */
export type Finish = 'stop' | 'length' | 'tool_calls'

/** A token; `bytes` are null if the engine does not know them: `token` has U+FFFD for part of a character. */
export interface NamedToken { token: string, logprob: number | null, bytes: number[] | null }
/** A token with its log probability, and the likeliest ones in its place. */
export interface TokenReport extends NamedToken { top_logprobs: NamedToken[] }

/** A piece of a tool call; the first one of a call has its name. */
export interface CallDelta {
  index: number, id?: string, type?: 'function', function: { name?: string, arguments?: string }
}

/** New output of one answer: `delta` of a chat, `text` of a completion. */
export interface Choice {
  index: number
  delta?: { content?: string, reasoning_content?: string, tool_calls?: CallDelta[] }
  text?: string
  logprobs?: { content: TokenReport[] } | null
  /** Present in the last chunk of the answer. */
  finish_reason?: Finish | null
  /** The stop text that ended it; null for none, or if the engine does not know. */
  stop_text?: string | null
}

/** Tokens of an answer; the first chunk has those of the prompt only. */
export interface Usage {
  prompt_tokens: number, completion_tokens?: number, prompt_tokens_details?: { cached_tokens: number }
}

/** Tokens per second, and bytes; absent or null if not measured. */
export interface Timings {
  prompt_per_second?: number | null, predicted_per_second?: number | null, peak_memory_bytes?: number
}

/**
 * One chunk. The first one that has usage, and no choices, says that the prompt is admitted; the last one of
 * each choice has its usage and timings. `warnings` come before: what the engine leaves out of the request.
 */
export interface AnswerChunk {
  choices: Choice[], usage?: Usage, timings?: Timings, warnings?: string[]
  /** From the runner, before all others: the place, from 1, among those that wait for a slot. */
  queue?: { place: number, slots: number }
}
