/** The rule of a whole output: reasoning, then an answer of a certain shape, calls, or both. */
import { EngineError } from '../../../../kernel/api/engine.js'
import { isObject } from '../../json.js'
import { invalid } from '../errors.js'
import type { Reasoning, Thoughts } from '../reasoning.js'
import type { CallableTool, CallGrammar, ToolFormat } from '../tools/format.js'
import { channelsRule } from '../tools/harmony.js'
import type { AnswerShape, GrammarRequest } from '../types.js'
import { regexAutomaton, upTo } from './automaton.js'
import { Budget } from './budget.js'
import { Builder, type CommonRules } from './builder.js'
import { COMPILE_STEPS, compileFields, compileSchema, type CompileOptions } from './compile.js'
import { refused } from './flat.js'
import type { Rule } from './machine.js'
import { parseRegex } from './regex.js'
import { Choice, Free, Sequence } from './rules.js'

/** Most calls of one answer. */
const MAX_CALLS = 16
/** Where a schema stands in a chat request. */
export const SCHEMA_PATH = 'response_format/json_schema/schema'

/** How a model writes. */
export interface Writings {
  format: ToolFormat | null
  reasoning: Reasoning | null
  common: CommonRules
  /** The same with the values of Python. */
  python: () => CommonRules
}

/** Where the grammar begins: behind a text (`after`), or where the reasoning is over. */
export interface Place { after?: string | undefined, thoughts?: Thoughts | undefined }

/** The rule of an output; null where nothing is enforced. Throws `invalid_request`. */
export function outputRule (request: GrammarRequest, writings: Writings, place: Place): Rule | null {
  const { common, reasoning } = writings
  const shape = request.kind === 'tools' ? request.answer : request.kind === 'none' ? undefined : request
  const answer = shape === undefined ? null : answerRule(shape, common)
  const calls = request.kind === 'tools' ? callsOf(request.tools, request.choice, writings) : null
  if (calls === null && answer === null) return null
  const make = calls?.make ?? new Builder(common, SCHEMA_PATH)
  const must = request.kind === 'tools' && calls !== null && (request.choice ?? 'auto') !== 'auto'
  if (reasoning?.channels === true && place.after === undefined) {
    return make.finished(channelsRule(make, { answer: must ? undefined : answer, calls }))
  }
  const rule = calls === null ? make.spaced(answer as Rule)
    : markedRule(calls, writings.format as ToolFormat, must ? undefined : answer)
  return make.finished(reasoned(make, rule, reasoning, place))
}

function answerRule (shape: AnswerShape, common: CommonRules): Rule {
  if (shape.kind === 'json') return common.object
  return compileSchema(shape.schema, SCHEMA_PATH, common, { strict: shape.strict === true })
}

/** An output whose calls begin with a marker. `answer` null: any text may be it; undefined: none. */
function markedRule (calls: CallGrammar, format: ToolFormat, answer: Rule | null | undefined): Rule {
  const { make } = calls
  const { opens: [marker, ...others], bare } = format
  const inside = format.calls(calls)
  const required = make.spaced(bare !== undefined || marker === undefined ? inside
    : new Sequence(make, [make.marker(marker), inside]))
  if (answer === undefined) return required
  if (answer !== null) return new Choice(make, [make.spaced(answer), required])
  if (bare === undefined && marker !== undefined) {
    // Another marker would begin calls that the rule knows nothing of.
    return new Sequence(make, [new Free(make, upTo(marker), true, others), inside])
  }
  const noCall = `^[ \\n]*[^ \\n\\${bare ?? '{'}]`
  return new Choice(make, [new Free(make, regexAutomaton(parseRegex(noCall)), true), required])
}

/** Free text in front of the rule: up to a marker, or as reasoning, which the model may leave out. */
function reasoned (make: Builder, rule: Rule, reasoning: Reasoning | null, { after, thoughts }: Place): Rule {
  const behind = (marker: string, more: Rule[] = []): Rule =>
    new Sequence(make, [...more, new Free(make, upTo(marker), false), rule])
  if (after !== undefined) return behind(after)
  if (reasoning === null || thoughts === undefined || thoughts === 'over') return rule
  if (thoughts === 'inside') return behind(reasoning.closes)
  return new Choice(make, [rule, behind(reasoning.closes, [make.spaced(make.marker(reasoning.opens))])])
}

/**
 * The functions that may be called, by `choice` as the chat API has it: all of them, or the one that it
 * names. Parameters of a tool with `strict: true` must be enforceable; those of others are enforced as far
 * as they can be, as OpenAI's API promises nothing for them. Null: none may be called.
 */
function callsOf (tools: readonly unknown[], choice: unknown, writings: Writings): CallGrammar | null {
  if (choice === 'none' || tools.length === 0) return null
  if (writings.format === null) throw invalid('this model has no known way to call tools', 'tools')
  const wanted = isObject(choice) ? nameOf(choice, 'tool_choice') : undefined
  const budget = new Budget(COMPILE_STEPS)
  const callable = tools.flatMap((tool, i) => {
    const path = `tools/${i}`
    const name = nameOf(tool, path)
    return wanted === undefined || name === wanted ? [callableTool(name, tool, path, writings, budget)] : []
  })
  if (callable.length === 0) {
    throw invalid('tool_choice names a function that is not among the tools', 'tool_choice')
  }
  return {
    make: new Builder(writings.common, 'tools'), tools: callable, most: wanted === undefined ? MAX_CALLS : 1
  }
}

function callableTool (
  name: string, tool: unknown, toolPath: string, { common, python }: Writings, budget: Budget
): CallableTool {
  const { parameters, strict } = functionOf(tool, toolPath)
  const path = `${toolPath}/function/parameters`
  const schema = parameters ?? true
  const compiled = (compile: (schema: unknown, how: CompileOptions) => Rule): Rule => {
    try {
      return compile(schema, { budget, strict: strict === true })
    } catch (error) {
      if (strict === true || !(error instanceof EngineError)) throw error
      return compile({ type: 'object' }, {})
    }
  }
  let json: Rule | null = schema === true ? common.object : null
  return {
    name,
    json: () => json ??= compiled((each, how) => compileSchema(each, path, common, how)),
    fields: (writing) => compiled((each, how) =>
      compileFields(each, path, writing.python === true ? python() : common, writing, how))
  }
}

function functionOf (tool: unknown, path: string): Record<string, unknown> {
  const fn = isObject(tool) ? tool['function'] : undefined
  if (!isObject(fn)) throw refused(path, ' is not a function')
  return fn
}

function nameOf (tool: unknown, path: string): string {
  const name = functionOf(tool, path)['name']
  if (typeof name === 'string' && name !== '') return name
  throw refused(`${path}/function/name`, ' is not a text')
}
