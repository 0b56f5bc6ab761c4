/** JSON Schema (2020-12) to GBNF, the grammars of llama.cpp, for both drivers. Runs in the runner process. */
import { Budget, invalid, isObject } from './errors.js'
import { Grammar, type Item, literal, ref, type Rule, SPACE } from './gbnf.js'
import { SchemaDocument } from './schema.js'
import { Values } from './values.js'

export interface Compiled {
  /** GBNF; its start is `root`. */
  grammar: string
  /** JSON pointers of the keywords that the grammar does not enforce. */
  unenforced: string[]
}

/** `path`: the place of the schema in the request, for messages. */
export interface SchemaOptions { strict: boolean, path?: string }

/**
 * The grammar of the JSON texts that a schema allows. All that it admits is valid if `unenforced` is empty.
 * Throws `invalid_request` for a schema that is wrong, too large or allows no value, and, if `strict`, for a
 * keyword that cannot be expressed.
 */
export function compileSchema (schema: unknown, { strict, path = '' }: SchemaOptions): Compiled {
  const grammar = new Grammar()
  const document = new SchemaDocument(schema, path, new Budget())
  const values = new Values(grammar, document, strict)
  const text = grammar.toText(values.rule([document.root]))
  if (text === undefined) throw invalid(path, 'allows no value')
  return { grammar: text, unenforced: [...values.unenforced] }
}

/**
 * How a model writes calls. `call` has `{{name}}` and `{{arguments}}`; `begin` and `end` enclose all
 * calls, `separator` is between them. White space in these texts is optional and may be any other.
 */
export interface ToolCallFormat { call: string, begin?: string, separator?: string, end?: string }

/** Hermes, Qwen 2.5 and 3, Granite 4, SmolLM3. */
export const HERMES: ToolCallFormat = {
  call: '<tool_call>\n{"name": "{{name}}", "arguments": {{arguments}}}\n</tool_call>', separator: '\n'
}

const MAX_CALLS = 16

/**
 * The grammar of an answer that calls tools of a chat request. `choice` is its `tool_choice`: one that names
 * a function, or any other for calls of any of them, one if not `parallel`. Parameters of a function with
 * `strict: true` must be expressible.
 */
export function compileTools (
  tools: readonly unknown[], choice: unknown, format: ToolCallFormat,
  { parallel = true }: { parallel?: boolean } = {}
): Compiled {
  const [grammar, budget] = [new Grammar(), new Budget()]
  const wanted = isObject(choice) && isObject(choice['function']) ? choice['function']['name'] : undefined
  const all: Values[] = []
  const calls = tools.flatMap((tool, i) => {
    const given = isObject(tool) && isObject(tool['function']) ? tool['function'] : {}
    const { name, parameters = {}, strict } = given
    if (typeof name !== 'string' || name === '') throw invalid(`tools/${i}/function/name`, 'is not a text')
    if (wanted !== undefined && wanted !== name) return []
    const document = new SchemaDocument(parameters, `tools/${i}/function/parameters`, budget)
    const values = new Values(grammar, document, strict === true)
    all.push(values)
    const object = values.rule([document.root, { schema: { type: 'object' }, at: document.root.at }])
    return [filled(format.call, name, object)]
  })
  if (calls.length === 0) throw invalid('tool_choice', 'names a function that is not among the tools')
  const call = grammar.add(calls)
  const next = grammar.add([[...marks(format.separator ?? ''), ref(call)]])
  const most = parallel && wanted === undefined ? MAX_CALLS - 1 : 0
  const answer: Item[] = [...marks(format.begin ?? ''), ref(call), ...grammar.repeat(next, 0, most),
    ...marks(format.end ?? '')]
  const text = grammar.toText(grammar.add([answer]))
  if (text === undefined) throw invalid('tools', 'allow no call')
  return { grammar: text, unenforced: all.flatMap((values) => [...values.unenforced]) }
}

/** A text of a format, with optional white space. */
const marks = (text: string): Item[] =>
  text.split(/(\s+)/).filter((part) => part !== '')
    .map((part) => part.trim() === '' ? SPACE : literal(part))

function filled (call: string, name: string, object: Rule): Item[] {
  return call.split(/(\{\{name\}\}|\{\{arguments\}\})/).flatMap((part) => {
    if (part === '{{name}}') return [literal(JSON.stringify(name).slice(1, -1))]
    return part === '{{arguments}}' ? [ref(object)] : marks(part)
  })
}
