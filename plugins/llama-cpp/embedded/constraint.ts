/** Grammars that restrict an answer. */
import { reasonings, type ReasoningName, type Thoughts } from '../../chat/text/reasoning.js'
import type { ToolFormatName } from '../../chat/text/tools/index.js'
import { fieldsOf, isObject, listOf, type Fields } from '../../chat/json.js'
import { enforcedFormat, type ToolCallFormat } from './formats.js'
import { invalid } from './refusals.js'

/** GBNF whose start is `root`. */
interface Compiled { grammar: string }

/** Makes grammars of JSON Schemas and tools. */
export interface GrammarCompiler {
  compileSchema: (schema: unknown, options: { strict: boolean, path?: string }) => Compiled
  compileTools: (
    tools: readonly unknown[], choice: unknown, format: ToolCallFormat, options: { parallel?: boolean }
  ) => Compiled
}

/** How an answer to a prompt is written. */
export interface Writing {
  tools: ToolFormatName | null
  reasoning: ReasoningName | null
  thoughts: Thoughts
}

/** The grammar, null for none, and the format that reads calls written by it. */
export interface Constraint { gbnf: string | null, tools: ToolFormatName | null }

/** @throws EngineError invalid_request */
export function constraintOf (payload: Fields, writing: Writing, compiler: GrammarCompiler): Constraint {
  const { tool_choice: choice, parallel_tool_calls: parallel } = payload
  const answer = answerGrammar(payload['response_format'], compiler)
  const given = payload['grammar']
  if (typeof given === 'string' && given !== '') return { gbnf: given, tools: writing.tools }
  const mustCall = writing.tools !== null && (choice === 'required' || isObject(choice))
  const mayCall = writing.tools !== null && answer !== null
  if (!mustCall && !mayCall) {
    return { gbnf: answer === null ? null : behind(answer, writing), tools: writing.tools }
  }
  const { reader, format } = enforcedFormat(writing.tools ?? 'hermes')
  const calls = compiler.compileTools(
    payload['tools'] as unknown[], choice, format, { parallel: parallel !== false }).grammar
  const whole = mustCall || answer === null ? calls : either(answer, calls)
  return { gbnf: behind(whole, writing), tools: reader }
}

function answerGrammar (format: unknown, compiler: GrammarCompiler): string | null {
  const { type, json_schema: described } = fieldsOf(format)
  if (format == null || type === 'text') return null
  if (type === 'json_object') return compiler.compileSchema({ type: 'object' }, { strict: false }).grammar
  if (type !== 'json_schema') throw invalid('response_format.type is unknown', 'response_format.type')
  const { schema, strict } = fieldsOf(described)
  const path = 'response_format/json_schema/schema'
  return compiler.compileSchema(schema ?? {}, { strict: strict === true, path }).grammar
}

/** Prefixes the names of rules, so that one grammar can contain two. */
const renamed = (gbnf: string, prefix: string): string =>
  gbnf.replace(/"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|#.*|[a-zA-Z][\w-]*/g,
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
    const start = fieldsOf(schema)['type'] === 'object' ? 'object' : 'value'
    return { grammar: `root ::= ${start}\n${JSON_RULES}` }
  },
  compileTools: (tools, choice, { call, begin = '', separator = '', end = '' }, { parallel = true }) => {
    const wanted = fieldsOf(fieldsOf(choice)['function'])['name']
    const names = listOf(tools).filter((tool) => isTool(tool, wanted))
      .map((tool) => String(fieldsOf(tool['function'])['name']))
    if (names.length === 0) throw invalid('tool_choice names none of the tools', 'tool_choice')
    const one = names.map((name) => call.split('{{arguments}}')
      .map((part) => literal(part.replace('{{name}}', name))).join(' object ')).join(' | ')
    const many = parallel ? `one ( ${literal(separator)} one ){0,15}` : 'one'
    return { grammar: `root ::= ${literal(begin)} ${many} ${literal(end)}\none ::= ${one}\n${JSON_RULES}` }
  }
}
