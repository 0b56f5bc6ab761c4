/** Formats of tool calls. */
import type { Input, Reading } from '../parse/input.js'

/** Takes what a reader finds. */
export interface CallSink {
  call (name: string): void
  /** More of the JSON text of its arguments. */
  args (json: string): void
  /** Text that is no call. */
  content (text: string): void
  /** The JSON Schema of a function's parameters; undefined if it is unknown. */
  parameters (name: string): unknown
}

/** Takes what a reader finds in an output. */
export interface OutputSink extends CallSink {
  reasoning (text: string): void
  /** A marker was passed: white space next to it is dropped. */
  turn (): void
}

export interface ToolFormat {
  /** Texts that a call in this format has, by which it is recognised in a rendered conversation. */
  shows: readonly string[]
  /** Texts of a template that shows no calls but implies this format; default: `opens`. */
  hints?: readonly string[]
  /** Markers that begin calls in an output. */
  opens: readonly string[]
  /** Further special tokens between and after calls. */
  inner?: readonly string[]
  /** The character that may begin calls at the start of an output, without a marker. */
  bare?: '{'
  /** Reads calls behind one of `opens`, which is '' for calls without a marker. */
  read (input: Input, out: CallSink, opened: string): Reading<void>
}

export const NAME = /[\w.-]/
export const NAME_ONLY = /^[\w.-]+$/
