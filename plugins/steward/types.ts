import type { Evidence, Fact } from '../../kernel/cli/index.js'

/** An earlier message of the conversation. */
export interface Turn { readonly role: 'user' | 'assistant', readonly text: string }

/** What is asked, with what was said before it, oldest first. */
export interface Question { readonly text: string, readonly thread: readonly Turn[] }

/** A tool and its arguments. */
export interface ToolCall { readonly tool: string, readonly args: Readonly<Record<string, unknown>> }

/** A call that was made. */
export interface MadeCall extends ToolCall { readonly tookMs: number }

/** An answer with what it stands on. */
export interface Answer {
  /** One sentence: what is the matter, or what was asked for. */
  readonly diagnosis: string
  /** False where the question or the cause is a guess. */
  readonly sure: boolean
  /** The facts behind the sentence, the most telling first. */
  readonly facts: readonly Fact[]
  /** Where each of them can be looked up, each once. */
  readonly evidence: readonly Evidence[]
  /** Sentences with the commands that mend it, the best first. */
  readonly remedies: readonly string[]
  /** What could not be looked at, and why. */
  readonly unknown: readonly string[]
  /** Who worded it: `reader`, or the id of the model. */
  readonly voice: string
  readonly calls: readonly MadeCall[]
}

/** What a turn tells as it goes. The texts together are the whole answer for people. */
export type TurnEvent =
  | { readonly type: 'call', readonly tool: string, readonly args: Readonly<Record<string, unknown>> }
  | { readonly type: 'text', readonly text: string }
  | { readonly type: 'answer', readonly answer: Answer }
