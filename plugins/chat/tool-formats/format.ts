/** How a model writes tool calls: what its output is read by, and kept to. */
import type { Rule } from '../text/grammar/machine.js'

/** What a format builds its grammar of. */
export interface CallRules {
  /** One call, as a JSON object. */
  readonly call: Rule
  literal (text: string): Rule
  /** The rule after white space. */
  spaced (rule: Rule): Rule
  /** The rules after each other. */
  sequence (parts: Rule[]): Rule
  /** `again` up to `most` - 1 times, then `last`. */
  repeat (last: Rule, again: Rule, most: number): Rule
  /** A JSON list of one to `most` of the rule. */
  list (of: Rule, most: number): Rule
}

/** A format. Calls are JSON objects with a name and arguments. */
export interface ToolFormat {
  /** Text in a chat template that tells this format; '' is in every template. */
  template: string
  /** Begins the calls in an output. */
  marker: string
  /** Ends each call; what stands before it is passed over. Absent: a call ends with its JSON object. */
  end?: string
  /** Calls stand in a JSON list. */
  list?: true
  /** Calls may also begin an output without the marker, and do so where a call is enforced. */
  bare?: true
  /** Characters that may stand between two calls of one marker. */
  between: string
  /** The key of the arguments. */
  argumentsKey: 'arguments' | 'parameters'
  /** The grammar behind the marker, for at most so many calls. A bare format has one call, without it. */
  behindMarker (rules: CallRules, most: number): Rule[]
}
