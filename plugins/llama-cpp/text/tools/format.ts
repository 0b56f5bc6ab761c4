import type { Input, Reading } from '../parse/input.js'

/** Receives the parsed calls. */
export interface CallSink {
  call (name: string): void
  /** Appends to the JSON text of the call's arguments. */
  args (json: string): void
  /** Receives text outside calls. */
  content (text: string): void
  /** The JSON Schema of a function's parameters; undefined if unknown. */
  parameters (name: string): unknown
}

/** Receives the parsed output. */
export interface OutputSink extends CallSink {
  reasoning (text: string): void
  /** Called after each marker, so that white space next to the marker is dropped. */
  turn (): void
}

export interface ToolFormat {
  /** Texts that must all occur in a rendered conversation for this format to be detected. */
  shows: readonly string[]
  /** Texts that each indicate this format if the template renders no calls. Default: `opens`. */
  hints?: readonly string[]
  /** Markers that begin calls. */
  opens: readonly string[]
  /** Other special tokens that the format uses in and after calls. */
  inner?: readonly string[]
  /** A call at the start of the output may begin with this character instead of a marker. */
  bare?: '{'
  /** Reads calls after the marker `opened`, which is '' for calls without one. */
  read (input: Input, out: CallSink, opened: string): Reading<void>
}

export const NAME = /[\w.-]/
export const NAME_ONLY = /^[\w.-]+$/
