import type { Evidence, Fact } from '../../kernel/cli/index.js'

/** An earlier message of the conversation. */
export interface Turn { readonly role: 'user' | 'assistant', readonly text: string }

/** A question with the earlier conversation, oldest first. */
export interface Question { readonly text: string, readonly thread: readonly Turn[] }

export interface ToolCall { readonly tool: string, readonly args: Readonly<Record<string, unknown>> }

export interface MadeCall extends ToolCall { readonly tookMs: number }

/** An answer with the facts that support it. */
export interface Answer {
  /** One sentence: the problem, or the requested fact. */
  readonly diagnosis: string
  /** False if the question or the cause is a guess. */
  readonly sure: boolean
  /** The facts behind the sentence, most important first. */
  readonly facts: readonly Fact[]
  /** The evidence of the facts, without duplicates. */
  readonly evidence: readonly Evidence[]
  /** Sentences with remedies, best first. */
  readonly remedies: readonly string[]
  /** Failed reads with their reasons. */
  readonly unknown: readonly string[]
  /** Author of the wording: `reader`, or the id of the model. */
  readonly voice: string
  readonly calls: readonly MadeCall[]
}

/** Progress of a turn. The `text` events together are the whole answer as a user sees it. */
export type TurnEvent =
  | { readonly type: 'call', readonly tool: string, readonly args: Readonly<Record<string, unknown>> }
  | { readonly type: 'text', readonly text: string }
  | { readonly type: 'answer', readonly answer: Answer }
