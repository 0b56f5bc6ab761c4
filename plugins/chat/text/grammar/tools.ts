import { EngineError } from '../../../../kernel/api/engine.js'
import { invalid } from '../errors.js'
import { isObject } from '../../json.js'
import type { CallRules, ToolFormat } from '../../tool-formats/index.js'
import { Budget } from './budget.js'
import { COMPILE_STEPS, compileSchema, jsonText, whole } from './compile.js'
import type { CommonRules } from './compile.js'
import { Literal } from './literal.js'
import { holeFrame, measureAll } from './machine.js'
import type { Frame, Rule } from './machine.js'
import { ArrayRule, ObjectRule } from './object.js'
import { Choice, Free, Repeat, Sequence, SpaceThen } from './space.js'

/** Most calls of one answer. */
const MAX_CALLS = 16
const MAX_TOOLS = 128

/** What the client wants: free text or calls, at least one call, or one certain function. */
export type ToolChoice = { kind: 'none' } | { kind: 'auto' } | { kind: 'required' } | { kind: 'function',
  name: string }

/** Reads `tool_choice` of the OpenAI APIs (both spellings of a function). Throws `invalid_request`. */
export function readToolChoice (choice: unknown): ToolChoice {
  if (choice === undefined || choice === null || choice === 'auto') return { kind: 'auto' }
  if (choice === 'none') return { kind: 'none' }
  if (choice === 'required' || choice === 'any') return { kind: 'required' }
  if (isObject(choice) && choice['type'] === 'function') {
    const named = isObject(choice['function']) ? choice['function']['name'] : choice['name']
    if (typeof named === 'string') return { kind: 'function', name: named }
  }
  throw invalid(`tool_choice ${JSON.stringify(choice)} is none of "none", "auto", "required" or a function`,
    'tool_choice')
}

/**
 * The rule of an output with tool calls, in the way the model writes them; null where nothing is enforced.
 * Parameters of a tool with `strict: true` must be enforceable; those of others fall back to any JSON
 * object, as OpenAI's API promises nothing for them.
 */
export function toolRule (tools: readonly unknown[], choice: unknown, format: ToolFormat,
  common: CommonRules): Rule | null {
  const wanted = readToolChoice(choice)
  if (wanted.kind === 'none' || tools.length === 0) return null
  if (tools.length > MAX_TOOLS) {
    throw invalid(`there are ${tools.length} tools, at most ${MAX_TOOLS} are taken`, 'tools')
  }
  const builder = new ToolRules(common, format)
  for (const [i, tool] of tools.entries()) {
    if (wanted.kind !== 'function' || nameOf(tool, i) === wanted.name) builder.add(tool, i)
  }
  if (builder.call.options.length === 0) {
    throw invalid('tool_choice names a function that is not among the tools', 'tool_choice')
  }
  return builder.output(wanted)
}

class ToolRules implements CallRules {
  /** One call as a JSON object. */
  readonly call: Choice
  private readonly common: CommonRules
  private readonly format: ToolFormat
  private readonly hole: Frame = holeFrame()
  private readonly rules: Rule[] = []
  private readonly budget = new Budget(COMPILE_STEPS)

  constructor (common: CommonRules, format: ToolFormat) {
    this.common = common
    this.format = format
    this.call = this.made(new Choice(this.hole))
  }

  add (tool: unknown, index: number): void {
    const name = this.literal(jsonText(nameOf(tool, index), this.common.ascii))
    const field = (key: string, value: Rule): { name: Rule, value: Rule, required: boolean } =>
      ({ name: this.literal(JSON.stringify(key)), value, required: true })
    this.call.options.push(this.made(new ObjectRule(this.hole, {
      properties: [field('name', name), field(this.format.argumentsKey,
        this.parameters(tool, index))],
      others: null, min: 0, max: Infinity
    })))
  }

  /** The whole output. */
  output (wanted: ToolChoice): Rule {
    const calls = wanted.kind === 'function' ? 1 : MAX_CALLS
    const required = this.calls(calls)
    if (wanted.kind !== 'auto') return this.finished(this.made(new SpaceThen(this.hole, required)))
    const { bare, marker } = this.format
    if (bare === true) {
      const choice = this.made(new Choice(this.hole))
      choice.options.push(this.made(new Free(this.hole, '', true, '{'.charCodeAt(0))), required)
      return this.finished(choice)
    }
    return this.finished(this.sequence(
      [this.made(new Free(this.hole, marker, true)), ...this.format.behindMarker(this, calls)]))
  }

  readonly literal = (text: string): Rule => this.made(new Literal(this.hole, [text]))
  readonly spaced = (rule: Rule): Rule => this.made(new SpaceThen(this.hole, rule))
  readonly sequence = (parts: Rule[]): Rule => this.made(new Sequence(this.hole, parts))
  readonly repeat = (last: Rule, again: Rule, most: number): Rule =>
    this.made(new Repeat(this.hole, last, again, most))

  readonly list = (of: Rule, most: number): Rule =>
    this.made(new ArrayRule(this.hole, { first: [], others: of, min: 1, max: most }))

  private calls (most: number): Rule {
    const { bare, marker, behindMarker } = this.format
    return bare === true ? this.call : this.sequence([this.literal(marker), ...behindMarker(this, most)])
  }

  private parameters (tool: unknown, index: number): Rule {
    const fn = functionOf(tool, index)
    const schema = fn['parameters']
    if (schema === undefined || schema === null) return this.common.object
    try {
      return compileSchema(schema, `tools/${index}/function/parameters`, this.common, this.budget)
    } catch (error) {
      if (fn['strict'] === true || !(error instanceof EngineError)) throw error
      return this.common.object
    }
  }

  private finished (rule: Rule): Rule {
    measureAll(this.rules)
    return rule
  }

  private made<R extends Rule> (rule: R): R {
    this.rules.push(rule)
    return rule
  }
}

function functionOf (tool: unknown, index: number): Record<string, unknown> {
  const fn = isObject(tool) ? tool['function'] ?? tool : undefined
  if (!isObject(fn)) throw invalid(`tools/${index} is not a function`, `tools/${index}`)
  return fn
}

function nameOf (tool: unknown, index: number): string {
  const name = functionOf(tool, index)['name']
  if (typeof name === 'string' && name !== '') return name
  throw invalid(`tools/${index}/function/name is not a text`, `tools/${index}/function/name`)
}

/** Free text up to `marker` (as thinking before an answer), then `rule`. */
export function afterMarker (marker: string, rule: Rule): Rule {
  const hole = holeFrame()
  const parts = [new Free(hole, marker, false), whole(rule)]
  const out = new Sequence(hole, parts)
  measureAll([...parts, out])
  return out
}
