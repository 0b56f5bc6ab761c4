/** JSON Schema (2020-12) to GBNF, the grammars of llama.cpp, for both drivers. Runs in the runner process. */
import { fieldsOf } from '../../runners/language/json.js'
import type { ToolCallFormat } from '../embedded/formats.js'
import { Grammar, invalid, literal, ref } from './gbnf.js'
import { Values } from './schema-rules.js'

const MAX_CALLS = 16
/** GBNF whose start is `root`, and JSON pointers of the keywords that it does not enforce. */
export interface Compiled { grammar: string, unenforced: string[] }

/**
 * The grammar of JSON texts that a schema allows; `path` is its place in the request. All that it admits is
 * valid if `unenforced` is empty. Throws `invalid_request` for a schema that is wrong, too large or allows no
 * value, and, if `strict`, for a keyword that cannot be expressed.
 */
export function compileSchema (
  schema: unknown, { strict, path = '' }: { strict: boolean, path?: string }
): Compiled {
  const grammar = new Grammar()
  const values = new Values(schema, path, grammar, strict)
  const text = grammar.toText(values.rule(schema))
  if (text === undefined) throw invalid(path, 'allows no value')
  return { grammar: text, unenforced: [...values.unenforced] }
}

/**
 * The grammar of an answer that calls tools of a chat request. `choice` is its `tool_choice`: one that names
 * a function, or any other for calls of any of them, one if not `parallel`. Parameters of a function with
 * `strict: true` must be expressible.
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
    if (typeof name !== 'string' || name === '') throw invalid(`tools.${i}.function.name`, 'is not a text')
    if (wanted !== undefined && wanted !== name) return []
    const values = new Values(parameters, `tools.${i}.function.parameters`, grammar, strict === true)
    all.push(values)
    const object = ref(values.rule({ allOf: [parameters, { type: 'object' }] }))
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
