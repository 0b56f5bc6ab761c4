/** Grammars that restrict an answer. */
import { reasonings, type ReasoningName, type Thoughts } from '../text/reasoning.js'
import type { ToolFormatName } from '../text/tools/index.js'
import { fieldsOf, isObject, listOf, type Fields } from '../../runners/language/json.js'
import { enforcedFormat, type ToolCallFormat } from './formats.js'
import { invalid } from './refusals.js'

/** GBNF whose start is `root`; `loose` if the schemas do not restrict it. */
interface Compiled { grammar: string, loose?: true }

/** Makes grammars of JSON Schemas and tools. */
export interface GrammarCompiler {
  compileSchema: (schema: unknown, options: { strict: boolean, path?: string }) => Compiled
  compileTools: (
    tools: readonly unknown[], choice: unknown, format: ToolCallFormat, options: { parallel?: boolean }
  ) => Compiled
}

/** The formats of an answer to a prompt. */
export interface Writing {
  tools: ToolFormatName | null
  reasoning: ReasoningName | null
  thoughts: Thoughts
}

/** The grammar, null for none, and the format that reads calls written by it. */
export interface Constraint {
  gbnf: string | null
  tools: ToolFormatName | null
  mustCall: boolean
  /** Schemas that do not restrict the answer. */
  warnings: string[]
}

/** @throws EngineError invalid_request */
export function constraintOf (payload: Fields, writing: Writing, compiler: GrammarCompiler): Constraint {
  const { tool_choice: choice, parallel_tool_calls: parallel } = payload
  const answer = answerGrammar(payload['response_format'], compiler)
  const given = payload['grammar']
  const { tools } = writing
  const mustCall = tools !== null && (choice === 'required' || isObject(choice))
  if (typeof given === 'string' && given !== '') return { gbnf: given, tools, mustCall, warnings: [] }
  const warnings = answer?.loose === true ? ['not enforced: the schema of response_format'] : []
  if (tools === null || (!mustCall && answer === null)) {
    return { gbnf: answer === null ? null : behind(answer.grammar, writing), tools, mustCall, warnings }
  }
  const { reader, format } = enforcedFormat(tools)
  const calls = compiler.compileTools(
    payload['tools'] as unknown[], choice, format, { parallel: parallel !== false })
  if (calls.loose === true) warnings.push('not enforced: the parameters of tools')
  const whole = mustCall || answer === null ? calls.grammar : either(answer.grammar, calls.grammar)
  return { gbnf: behind(whole, writing), tools: reader, mustCall, warnings }
}

function answerGrammar (format: unknown, compiler: GrammarCompiler): Compiled | null {
  const { type, json_schema: described } = fieldsOf(format)
  if (format == null || type === 'text') return null
  if (type === 'json_object') return compiler.compileSchema({ type: 'object' }, { strict: false })
  if (type !== 'json_schema') throw invalid('response_format.type is unknown', 'response_format.type')
  const { schema, strict } = fieldsOf(described)
  const path = 'response_format/json_schema/schema'
  return compiler.compileSchema(schema ?? {}, { strict: strict === true, path })
}

/** Prefixes the names of rules, so that one grammar can contain two. */
const renamed = (gbnf: string, prefix: string): string =>
  gbnf.replace(/"(?:\\.|[^"\\])*"?|\[(?:\\.|[^\]\\])*\]?|#.*|[a-zA-Z][\w-]*/g,
    (part) => /^[a-zA-Z]/.test(part) ? prefix + part : part)

const either = (answer: string, calls: string): string =>
  `root ::= a-root | c-root\n${renamed(answer, 'a-')}\n${renamed(calls, 'c-')}`

/** The grammar, with reasoning in front of it where the prompt leaves room for that. */
function behind (gbnf: string, { reasoning, thoughts }: Writing): string {
  if (reasoning === null || thoughts === 'over' || reasonings[reasoning].channels === true) return gbnf
  const { opens, closes } = reasonings[reasoning]
  const thought = `thought ${literal(closes)} space`
  const start = thoughts === 'inside' ? thought : `(space ${literal(opens)} ${thought})?`
  return [`root ::= ${start} a-root`, `thought ::= (${without(closes)})*`, 'space ::= [ \\t\\n]{0,8}',
    renamed(gbnf, 'a-')].join('\n')
}

const literal = (text: string): string => JSON.stringify(text)

/** Text without a word: each character but its first, or a beginning of it and another character. */
function without (word: string): string {
  const chars = [...word]
  return chars.map((char, i) => {
    const before = i === 0 ? '' : `${literal(chars.slice(0, i).join(''))} `
    return `${before}[^${/[\]\\^-]/.test(char) ? `\\${char}` : char}]`
  }).join(' | ')
}

const JSON_RULES = [
  'value ::= object | array | string | number | "true" | "false" | "null"',
  'object ::= "{" s ( member ( "," s member )* )? "}"',
  'member ::= string s ":" s value s',
  'array ::= "[" s ( value s ( "," s value s )* )? "]"',
  'string ::= "\\"" ( [^"\\\\\\x00-\\x1f] | "\\\\" ( ["\\\\/bfnrt] | "u" [0-9a-fA-F]{4} ) )* "\\""',
  'number ::= "-"? ( "0" | [1-9] [0-9]{0,15} ) ( "." [0-9]{1,15} )? ( [eE] [-+]? [0-9]{1,2} )?',
  's ::= ( " " | "\\n" [ ]{0,16} )?'
].join('\n')

const isTool = (tool: unknown, wanted: unknown): boolean =>
  wanted === undefined || fieldsOf(fieldsOf(tool)['function'])['name'] === wanted

/** JSON and calls of tools without their schemas. */
export const PLAIN: GrammarCompiler = {
  compileSchema: (schema) => {
    const { type, ...rest } = fieldsOf(schema)
    const isWhole = Object.keys(rest).length === 0 && (type === undefined || type === 'object')
    const grammar = `root ::= ${type === 'object' ? 'object' : 'value'}\n${JSON_RULES}`
    return isWhole ? { grammar } : { grammar, loose: true }
  },
  compileTools: (tools, choice, { call, begin = '', separator = '', end = '' }, { parallel = true }) => {
    const wanted = fieldsOf(fieldsOf(choice)['function'])['name']
    const names = listOf(tools).filter((tool) => isTool(tool, wanted))
      .map((tool) => String(fieldsOf(tool['function'])['name']))
    if (names.length === 0) throw invalid('tool_choice names none of the tools', 'tool_choice')
    const one = names.map((name) => call.split('{{arguments}}')
      .map((part) => literal(part.replace('{{name}}', name))).join(' object ')).join(' | ')
    const many = parallel ? `one ( ${literal(separator)} one ){0,15}` : 'one'
    const root = `root ::= ${literal(begin)} ${many} ${literal(end)}`
    return { grammar: `${root}\none ::= ${one}\n${JSON_RULES}`, loose: true }
  }
}
