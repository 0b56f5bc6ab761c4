/** Grammars for the JSON that a request demands, shared by the embedded engine and llama-server's driver. */
import { fieldsOf, isObject, type Fields } from '../runners/language/json.js'
import type { ToolCallFormat } from './embedded/formats.js'
import { compileSchema, compileTools, type Compiled } from './grammar/json-schema-to-grammar.js'

const MOST_NAMED = 8
const MOST_CHARS = 200

export interface NamedSchema { path: string, schema: unknown, strict: boolean }

/** The JSON Schema that the answer must match; null for free text. */
export function answerSchema ({ response_format: format, json_schema: alone }: Fields): NamedSchema | null {
  const { type, json_schema: described } = fieldsOf(format)
  if (type === 'json_object') return { path: 'response_format', schema: { type: 'object' }, strict: false }
  if (type === 'json_schema') {
    const { schema = {}, strict } = fieldsOf(described)
    return { path: 'response_format.json_schema.schema', schema, strict: strict === true }
  }
  return alone == null ? null : { path: 'json_schema', schema: alone, strict: false }
}

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

export const requiresCall = ({ tools, tool_choice: choice }: Fields): boolean =>
  Array.isArray(tools) && tools.length > 0 && (choice === 'required' || isObject(choice))

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
