import { EngineError } from '../../../../kernel/api/engine.js'
import { invalid } from '../errors.js'
import { isObject } from '../../json.js'
import type { ToolFormat } from '../tool-formats.js'
import { regexAutomaton, upTo } from './automaton.js'
import { Budget } from './budget.js'
import { Builder, type CommonRules } from './builder.js'
import { COMPILE_STEPS, compileSchema } from './compile.js'
import { refused } from './flat.js'
import type { Rule } from './machine.js'
import { parseRegex } from './regex.js'
import { Choice, Free, Sequence } from './rules.js'

/** Most calls of one answer. */
const MAX_CALLS = 16

/** Free text that does not begin with the brace of a call. */
const NO_CALL = '^[ \\n]*[^ \\n{]'

/**
 * The rule of an output with tool calls, in the way the model writes them; null where nothing is enforced.
 * `choice` is what the chat API takes: free text or calls with `auto`, one call of the function that it
 * names, else at least one call. Parameters of a tool with `strict: true` must be enforceable; those of
 * others fall back to any JSON object, as OpenAI's API promises nothing for them.
 */
export function toolRule (tools: readonly unknown[], choice: unknown, format: ToolFormat,
  common: CommonRules): Rule | null {
  if (choice === 'none' || tools.length === 0) return null
  const wanted = isObject(choice) ? nameOf(choice, 'tool_choice') : undefined
  const make = new Builder(common, 'tools')
  const budget = new Budget(COMPILE_STEPS)
  const call = new Choice(make, tools.flatMap((tool, i) => {
    const other = wanted !== undefined && nameOf(tool, `tools/${i}`) !== wanted
    return other ? [] : [callRule(make, tool, `tools/${i}`, format, budget)]
  }))
  if (call.options.length === 0) {
    throw invalid('tool_choice names a function that is not among the tools', 'tool_choice')
  }
  const calls = behindMarker(make, call, format, wanted === undefined ? MAX_CALLS : 1)
  const { bare = false, marker } = format
  const required = bare ? call : new Sequence(make, [make.marker(marker), ...calls])
  if ((choice ?? 'auto') !== 'auto') return make.finished(make.spaced(required))
  return make.finished(bare
    ? new Choice(make, [new Free(make, regexAutomaton(parseRegex(NO_CALL)), true), required])
    : new Sequence(make, [new Free(make, upTo(marker), true), ...calls]))
}

/** One call as a JSON object. */
function callRule (
  make: Builder, tool: unknown, path: string, format: ToolFormat, budget: Budget
): Rule {
  const field = (key: string, value: Rule): { rule: Rule, required: true } =>
    ({ rule: make.entry(make.values([key]), value), required: true })
  const fields = [field('name', make.values([nameOf(tool, path)])),
    field(format.argumentsKey, parametersRule(make.common, tool, path, budget))]
  return make.object({ elements: fields, others: null, min: 0, max: Infinity, needed: fields.length })
}

function parametersRule (common: CommonRules, tool: unknown, path: string, budget: Budget): Rule {
  const { parameters: schema, strict } = functionOf(tool, path)
  if (schema === undefined || schema === null) return common.object
  try {
    return compileSchema(schema, `${path}/function/parameters`, common, budget)
  } catch (error) {
    if (strict === true || !(error instanceof EngineError)) throw error
    return common.object
  }
}

/** What follows the marker, for at most so many calls. */
function behindMarker (
  make: Builder, call: Rule, { bare, list, marker, end = '' }: ToolFormat, most: number
): Rule[] {
  if (bare === true) return [call]
  if (list === true) {
    return [make.spaced(make.array({ elements: [], others: call, min: 1, max: most, needed: 0 }))]
  }
  const ended = make.spaced(make.marker(end))
  if (most === 1) return [make.spaced(call), ended]
  const again = make.spaced(new Sequence(make, [make.marker(marker), make.spaced(call), ended]))
  const more = Array.from({ length: most - 1 }, () => again)
  return [make.spaced(call), new Sequence(make, [ended, ...more], 1)]
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
