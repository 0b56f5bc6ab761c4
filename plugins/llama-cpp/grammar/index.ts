/** JSON Schema (2020-12) to GBNF, the grammars of llama.cpp, for both drivers. Runs in the runner process. */
import { Budget, invalid, isObject, NotExpressible } from './errors.js'
import { Grammar, type Item, literal, ref, type Rule } from './gbnf.js'
import { SchemaDocument } from './schema.js'
import { space, Values } from './values.js'

export interface Compiled {
  /** GBNF; its start is `root`. */
  grammar: string
  /** JSON pointers of the keywords that the grammar does not enforce. */
  unenforced: string[]
}

/** How `strict` a schema is taken; `path` is where it stands in the request, for messages. */
export interface SchemaOptions { strict: boolean, path?: string }

/**
 * The grammar of the JSON texts that a schema allows. If nothing is unenforced, all that it admits is valid.
 * Throws `invalid_request` for a schema that is wrong, too large or allows no value, and, if `strict`, for a
 * keyword that cannot be expressed.
 */
export function compileSchema (schema: unknown, { strict, path = '' }: SchemaOptions): Compiled {
  return refusing(path, () => {
    const grammar = new Grammar()
    const document = new SchemaDocument(schema, path, new Budget())
    const values = new Values(grammar, document, strict)
    const text = grammar.toText(grammar.add([[ref(values.rule([document.root]))]]))
    if (text === undefined) throw invalid(path, 'allows no value')
    return { grammar: text, unenforced: [...values.unenforced] }
  })
}

/** Refuses patterns that turn out to be too complex where no keyword can be left out. */
function refusing<T> (path: string, compile: () => T): T {
  try {
    return compile()
  } catch (error) {
    throw error instanceof NotExpressible ? invalid(path, `contains a pattern that ${error.message}`) : error
  }
}

/**
 * How a model writes calls. `call` has `{{name}}` and `{{arguments}}`; `begin` and `end` stand around all
 * calls, `separator` between them. White space in these texts is optional, and any other may stand there.
 */
export interface ToolCallFormat { call: string, begin?: string, separator?: string, end?: string }

/** Hermes, Qwen 2.5 and 3, Granite 4, SmolLM3. */
export const HERMES: ToolCallFormat = {
  call: '<tool_call>\n{"name": "{{name}}", "arguments": {{arguments}}}\n</tool_call>', separator: '\n'
}

export interface ToolOptions {
  /** Whether one answer may hold several calls. */
  parallel?: boolean
}

const MAX_CALLS = 16

/**
 * The grammar of an answer that calls tools of a chat request. `choice` is its `tool_choice`: one that names a
 * function, or any other for a call of any of them. Parameters of a function with `strict: true` must be expressible.
 */
export function compileTools (
  tools: readonly unknown[], choice: unknown, format: ToolCallFormat, { parallel = true }: ToolOptions = {}
): Compiled {
  const [grammar, budget] = [new Grammar(), new Budget()]
  const wanted = isObject(choice) && isObject(choice['function']) ? choice['function']['name'] : undefined
  const all: Values[] = []
  const calls = tools.flatMap((tool, i) => {
    const { name, parameters = {}, strict } = isObject(tool) && isObject(tool['function']) ? tool['function'] : {}
    if (typeof name !== 'string' || name === '') throw invalid(`tools/${i}/function/name`, 'is not a text')
    if (wanted !== undefined && wanted !== name) return []
    const document = new SchemaDocument(parameters, `tools/${i}/function/parameters`, budget)
    const values = new Values(grammar, document, strict === true)
    all.push(values)
    const object = values.rule([document.root, { schema: { type: 'object' }, at: document.root.at }])
    return [filled(grammar, format.call, name, object)]
  })
  if (calls.length === 0) throw invalid('tool_choice', 'names a function that is not among the tools')
  const call = grammar.add(calls)
  const next = grammar.add([[...marks(grammar, format.separator ?? ''), ref(call)]])
  const most = parallel && wanted === undefined ? MAX_CALLS - 1 : 0
  const answer: Item[] = [...marks(grammar, format.begin ?? ''), ref(call), ...grammar.repeat(next, 0, most),
    ...marks(grammar, format.end ?? '')]
  const text = grammar.toText(grammar.add([answer]))
  if (text === undefined) throw invalid('tools', 'allow no call')
  return { grammar: text, unenforced: all.flatMap((values) => [...values.unenforced]) }
}

/** A text of a format, with optional white space. */
const marks = (grammar: Grammar, text: string): Item[] =>
  text.split(/(\s+)/).filter((part) => part !== '').map((part) => part.trim() === '' ? space(grammar) : literal(part))

function filled (grammar: Grammar, call: string, name: string, object: Rule): Item[] {
  return call.split(/(\{\{name\}\}|\{\{arguments\}\})/).flatMap((part) => {
    if (part === '{{name}}') return [literal(JSON.stringify(name).slice(1, -1))]
    return part === '{{arguments}}' ? [ref(object)] : marks(grammar, part)
  })
}
