/** What the text side of a language model offers to the engine: tokens, templates, sampling, streams. */

export type { Thoughts } from './reasoning.js'
import type { SamplingNumbers } from '../sampling.js'
import type { ReasoningName, Thoughts } from './reasoning.js'
import type { ToolFormatName } from './tools/index.js'

/** Chooses the next token of one sequence from its logits. Stateful: one per sequence. */
export interface TokenChooser {
  /**
   * `logits`: one row, vocabulary long, float32; may be written to. Returns the token and, when asked for,
   * log probabilities. Throws EngineError `provider_error` when no token has a finite logit.
   */
  choose (logits: Float32Array): ChosenToken
  /** Tokens of the prompt, for penalties. Called once before the first choose. */
  prompt (ids: readonly number[]): void
}

/** `logprob` is a natural logarithm, never below -9999; null unless asked for. */
export interface ChosenToken { id: number, logprob: number | null, top: { id: number, logprob: number }[] }

/**
 * Turns ids into text as they come: holds back what may still change (UTF-8 across tokens) and what may
 * begin a stop string. After `stopped` every further push gives nothing.
 */
export interface TextStream {
  push (id: number): { text: string, stopped: boolean }
  end (): { text: string }
  /** The stop string that was found; null while none was. */
  readonly stop: string | null
}

/** Details of a text stream. */
export interface StreamOptions {
  /** Text completion: the leading space that some decoders drop is kept. Default false. */
  continues?: boolean
  /** Special tokens that are passed on as text (markers of tool calls and reasoning). Default: none. */
  markers?: readonly string[]
}

/** The text side of one loaded model. */
export interface LoadedText {
  encode (text: string, addSpecial?: boolean): number[]
  decode (ids: readonly number[], skipSpecial?: boolean): string
  /** The bytes that a token stands for within a text, which may be a part of a character. */
  bytes (id: number): Uint8Array
  vocabularySize: number
  eosIds: ReadonlySet<number>
  /** How this model writes tool calls, as its template shows it; null where it reads no tools. */
  readonly toolFormat: ToolFormatName | null
  /** How it writes its reasoning; null where its template speaks of none. */
  readonly reasoning: ReasoningName | null
  /** Where an answer to this prompt begins. */
  thoughts (prompt: readonly number[]): Thoughts
  /** The result is for `encode(text, false)`, which encodes special tokens of the messages as plain text. */
  render (messages: readonly ChatMessage[], options: RenderOptions): string
  /** Builds what all grammars share, some tenths of a second for a large vocabulary. */
  warm (): void
  /** Throws EngineError `invalid_request` for a grammar that cannot be enforced. */
  chooser (params: SamplingParams): TokenChooser
  stream (stop: readonly string[], options?: StreamOptions): TextStream
}

/** `extra` reaches the template as variables, e.g. `enable_thinking`. */
export interface RenderOptions {
  tools?: unknown[], addGenerationPrompt: boolean, extra?: Record<string, unknown>
}

/** One message of a conversation, in the shape of the OpenAI API. Some templates show earlier reasoning. */
export interface ChatMessage {
  role: string
  /** Parts where there are images among them, which only some engines read. */
  content: string | readonly object[] | null
  name?: string, reasoning_content?: string, tool_calls?: unknown[]
  tool_call_id?: string
}

/**
 * The enforced shape of an answer. A schema that is not `strict` is enforced as far as it can be: keywords
 * that cannot are left out.
 */
export type AnswerShape = { kind: 'json' } | { kind: 'schema', schema: unknown, strict?: boolean }

/** The enforced shape of an output; beside calls an answer may have one. */
export type GrammarRequest =
  { kind: 'none' } | AnswerShape | { kind: 'tools', tools: unknown[], choice: unknown, answer?: AnswerShape }

/** How the tokens of one sequence are chosen. `topK` 0, `topP` 1 and `minP` 0 are off. */
export interface SamplingParams extends SamplingNumbers {
  logitBias: Readonly<Record<number, number>>
  topLogprobs: number
  logprobs: boolean
  /** Enforced shape of the output. */
  grammar: GrammarRequest
  /**
   * Most tokens this sequence may produce, the end token included. With a grammar the output is then steered
   * to be complete within it. Absent: unlimited.
   */
  maxTokens?: number
  /** The grammar holds only after this text; what comes before is free. */
  grammarAfter?: string
  /** Where the output begins: a grammar holds behind the reasoning only. Absent: there is none. */
  thoughts?: Thoughts
}

/** What a model's text side is loaded with. */
export interface TextOptions {
  /** Rows of the model's output layer; ids beyond the tokenizer's are never chosen. */
  vocabularySize?: number
}
