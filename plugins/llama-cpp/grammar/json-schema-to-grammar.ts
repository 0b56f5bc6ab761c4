/** Compiles JSON Schema (2020-12) to GBNF, llama.cpp's grammar notation, in the runner process. */
import { fieldsOf } from '../../runners/language/json.js'
import type { ToolCallFormat } from '../embedded/formats.js'
import { fromDraft7 } from './draft7.js'
import { Grammar, invalid, literal, ref } from './gbnf.js'
import { Values } from './schema-rules.js'

const MAX_CALLS = 16
/** A GBNF grammar with start rule `root`, and JSON pointers to schema keywords that it does not enforce. */
export interface Compiled { grammar: string, unenforced: string[] }

/**
 * Compiles a schema; `path` is the schema's place in the request. If `unenforced` is empty, all
 * admitted texts are valid. Throws `invalid_request` for a schema that is invalid, too large or
 * unsatisfiable, and, if `strict`, for a keyword that GBNF cannot express.
 */
export function compileSchema (
  given: unknown, { strict, path = '' }: { strict: boolean, path?: string }
): Compiled {
  const grammar = new Grammar()
  const schema = fromDraft7(given)
  const values = new Values(schema, path, grammar, strict)
  const text = grammar.toText(values.rule(schema))
  if (text === undefined) throw invalid(path, 'allows no value')
  return { grammar: text, unenforced: [...values.unenforced] }
}

/**
 * Compiles a grammar for tool calls. `choice` is the request's `tool_choice`: a named function must be called
 * once; otherwise any tools may be called, several times only if `parallel`. The parameters of a function
 * with `strict: true` must be expressible.
 */
export function compileTools (
  tools: readonly unknown[], choice: unknown, format: ToolCallFormat, parallel = true
): Compiled {
  const { begin = '', call: form, separator = '', end = '' } = format
  const grammar = new Grammar()
  const wanted = fieldsOf(fieldsOf(choice)['function'])['name']
  const all: Values[] = []
  const calls = tools.flatMap((tool, i) => {
    const { name, parameters = {}, strict } = fieldsOf(fieldsOf(tool)['function'])
    if (typeof name !== 'string' || name === '') throw invalid(`tools.${i}.function.name`, 'must be a string')
    if (wanted !== undefined && wanted !== name) return []
    const schema = fromDraft7(parameters)
    const values = new Values(schema, `tools.${i}.function.parameters`, grammar, strict === true)
    all.push(values)
    const object = ref(values.rule({ allOf: [schema, { type: 'object' }] }))
    const [before = '', after = ''] = form.replace('{{name}}', () => JSON.stringify(name).slice(1, -1))
      .split('{{arguments}}')
    return [[literal(before), object, literal(after)]]
  })
  if (calls.length === 0) throw invalid('tool_choice', 'names a function that is not among the tools')
  const call = grammar.add(calls)
  const next = grammar.add([[literal(separator), ref(call)]])
  const most = parallel && wanted === undefined ? MAX_CALLS - 1 : 0
  const answer = [literal(begin), ref(call), ...grammar.repeat(next, 0, most), literal(end)]
  const text = grammar.toText(grammar.add([answer]))
  if (text === undefined) throw invalid('tools', 'allow no call')
  return { grammar: text, unenforced: all.flatMap((values) => [...values.unenforced]) }
}
