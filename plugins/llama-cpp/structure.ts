/** Grammars for the JSON that a request demands, shared by the embedded engine and llama-server's driver. */
import type { Fields } from '../runners/language/json.js'
import { answerSchema } from '../runners/language/structure.js'
import type { ToolCallFormat } from './embedded/formats.js'
import { compileSchema, compileTools, type Compiled } from './grammar/json-schema-to-grammar.js'

const MOST_NAMED = 8
const MOST_CHARS = 200

/** The grammar for the answer; null for free text. @throws EngineError invalid_request */
export function answerGrammar (payload: Fields): Compiled | null {
  const named = answerSchema(payload)
  return named === null ? null : compileSchema(named.schema, named)
}

/** The grammar for one tool call, or several if the client allows. @throws EngineError invalid_request */
export function callGrammar (payload: Fields, format: ToolCallFormat): Compiled {
  const { tools, tool_choice: choice, parallel_tool_calls: parallel } = payload
  return compileTools(tools as unknown[], choice, format, parallel === true)
}

/** Compiles JSON Schema's meta-schema in advance, which takes about 70 ms. */
export const warmCompiler = (): void => { compileSchema({}, { strict: true }) }

/** The warning that offered tools were left out, because their descriptions exceed the model's context. */
export const TOOLS_LEFT_OUT = 'tools: not offered to the model, whose context is too small for them'

export const withoutTools = ({ tools: _, tool_choice: __, ...rest }: Fields): Fields => rest

export function notEnforced (compiled: readonly Compiled[]): string[] {
  const unenforced = compiled.flatMap((each) => each.unenforced)
  if (unenforced.length === 0) return []
  const more = unenforced.length > MOST_NAMED ? [`and ${unenforced.length - MOST_NAMED} more`] : []
  const named = unenforced.slice(0, MOST_NAMED).map((place) => place.slice(0, MOST_CHARS))
  return [`not enforced: ${[...named, ...more].join(', ')}`]
}
