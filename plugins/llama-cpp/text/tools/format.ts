import type { Input, Reading } from '../parse/input.js'

/** Receives the parsed calls. */
export interface CallSink {
  call (name: string): void
  /** Appends to the JSON text of the call's arguments. */
  args (json: string): void
  /** Text outside calls. */
  content (text: string): void
  /** The JSON Schema of a function's parameters; undefined if unknown. */
  parameters (name: string): unknown
}

/** Receives the parsed output. */
export interface OutputSink extends CallSink {
  reasoning (text: string): void
  /** A marker was consumed: drop white space next to it. */
  turn (): void
}

export interface ToolFormat {
  /** A rendered conversation with all of these texts may have this format. */
  shows: readonly string[]
  /** Any of these texts in a template that renders no calls implies the format; default: `opens`. */
  hints?: readonly string[]
  /** Markers that begin calls. */
  opens: readonly string[]
  /** Other special tokens in and after calls. */
  inner?: readonly string[]
  /** A call at the start of the output may begin with this character instead of a marker. */
  bare?: '{'
  /** Reads calls after the marker `opened`, which is '' for calls without one. */
  read (input: Input, out: CallSink, opened: string): Reading<void>
}

export const NAME = /[\w.-]/
export const NAME_ONLY = /^[\w.-]+$/
