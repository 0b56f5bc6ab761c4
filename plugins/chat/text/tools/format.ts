/** What a format of tool calls is: one file of this folder each, and a row of index.ts. */
import { Choice, Sequence } from '../grammar/rules.js'
import type { Builder } from '../grammar/builder.js'
import type { Rule } from '../grammar/machine.js'
import type { Writing } from '../grammar/fields.js'
import type { Input, Reading } from '../parse/input.js'

/** Takes what a reader finds. */
export interface CallSink {
  /** A call begins. */
  call (name: string): void
  /** More of the JSON text of its arguments. */
  args (json: string): void
  /** Text that is no call. */
  content (text: string): void
  /** The JSON Schema of a function's parameters; undefined where nothing is known. */
  parameters (name: string): unknown
}

/** One function that a grammar allows to be called. */
export interface CallableTool {
  name: string
  /** Its arguments as one JSON object. */
  json: () => Rule
  /** Its arguments one by one, in a writing of the format's own. */
  fields: (writing: Writing) => Rule
}

/** What a format makes the rule of its calls of. */
export interface CallGrammar {
  make: Builder
  tools: readonly CallableTool[]
  /** Most calls of one answer. */
  most: number
}

/** A format of tool calls. */
export interface ToolFormat {
  /** Texts that a call in this format has, by which it is told in a rendered conversation. */
  shows: readonly string[]
  /** Texts of a template that shows no calls but lets this format be expected; default: `opens`. */
  hints?: readonly string[]
  /** Markers that begin calls in an output; a grammar has the model write the first one. */
  opens: readonly string[]
  /** Further special tokens between and after calls. */
  inner?: readonly string[]
  /** The character that may begin calls without a marker, where an output begins with it. */
  bare?: '{' | '['
  /** Reads calls behind one of `opens`; behind nothing ('') where they begin without a marker. */
  read (input: Input, out: CallSink, opened: string): Reading<void>
  /** The rule of what follows the first marker, or of the calls where they need none. */
  calls (grammar: CallGrammar): Rule
}

/** What a function's name is made of. */
export const NAME = /[\w.-]/
/** A function's name and nothing else. */
export const NAME_ONLY = /^[\w.-]+$/

/** The rule of one call after the other: `one`, then `again` up to the most that are taken. */
export function repeated ({ make, most }: CallGrammar, one: Rule, again: Rule): Rule {
  return new Sequence(make, [one, ...Array.from({ length: most - 1 }, () => again)], 1)
}

/** The rule of one call of one of the tools, made of the parts that `write` gives. */
export const eachTool = ({ make, tools }: CallGrammar, write: (tool: CallableTool) => Rule[]): Rule =>
  new Choice(make, tools.map((tool) => new Sequence(make, write(tool))))
