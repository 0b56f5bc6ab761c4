import { Environment, Interpreter, Template } from '@huggingface/jinja'
import type { ChatMessage } from '../../runners/language/chunks.js'
import { isObject, parseJson } from '../../../kernel/api/schema.js'
import { parsed } from '../../runners/language/json.js'
import { invalid } from '../../runners/language/refusals.js'
import { reasoningOf, type ReasoningName } from './reasoning.js'
import { EngineError } from '../../../kernel/api/engine.js'
import { toolFormatNames, toolFormats, type ToolFormatName } from './tools/index.js'
import { OutputReader } from './parse/output.js'
import type { ToolFormat } from './tools/format.js'

/** Options for rendering; `extra` holds other template variables, such as `enable_thinking`. */
interface RenderOptions { tools?: unknown[], addGenerationPrompt: boolean, extra?: Record<string, unknown> }

/** Limit on steps per rendering (one to two seconds). Public templates take about 40 steps per message. */
const MAX_STEPS = 400_000
/** Number of characters or items in a value that cost one step, because filters read whole values. */
const STEP_CHARS = 1024
const STEP_ITEMS = 64
/** Limit on the length of range(), beyond which rendering fails. */
const MAX_RANGE = 100_000

/** Chat templates by name; `default` is used without tools. */
type Templates = ReadonlyMap<string, string>

export class ChatTemplate {
  /** The reasoning format; null if the template has none. */
  readonly reasoning: ReasoningName | null
  private readonly templates: Templates
  private readonly tokens: Readonly<Record<string, string>>
  private readonly parsed = new Map<string, Template>()
  private facts: ToolFacts | null = null

  /** `tokens` contains bos_token, eos_token and so on; `added` are the vocabulary's added tokens. */
  constructor (templates: Templates, tokens: Readonly<Record<string, string>>, added: Iterable<string> = []) {
    this.templates = templates
    this.tokens = tokens
    this.reasoning = reasoningOf(this.source, added)
  }

  /** How the template handles tools; detected on first use, which takes some milliseconds. */
  get tools (): ToolFacts {
    // Do not convert the arguments: each trial has them in the form whose support it tests.
    const render = (trial: Trial): string => this.rendered({ ...trial, form: 'text' })
    this.facts ??= toolFactsOf(render, this.source, this.reasoning)
    return this.facts
  }

  /** @throws EngineError invalid_request */
  render (messages: readonly ChatMessage[], options: RenderOptions): string {
    const { tools: given, addGenerationPrompt, extra } = options
    const tools = given === undefined || given.length === 0 ? null : given as object[]
    const called = messages.some((message) => message.tool_calls !== undefined)
    const { way, form } = tools !== null || called ? this.tools : NO_TOOLS
    const copies = messages.map((message) => ({ ...message }))
    return this.rendered({ messages: copies, tools, way: way ?? 'tools', form, addGenerationPrompt, extra })
  }

  private get source (): string { return [...this.templates.values()].join('\n') }

  private rendered (
    { messages, tools, way, form, addGenerationPrompt, extra }: Trial & {
      form: ArgumentsForm, extra?: Record<string, unknown> | undefined
    }
  ): string {
    const variables = {
      ...this.tokens, messages: messages.map((message) => forTemplate(message, form)), tools,
      ...way === 'xml_tools' && tools !== null ? { xml_tools: tools } : {}, documents: null,
      add_generation_prompt: addGenerationPrompt, ...extra
    }
    try {
      return evaluate(this.find(tools !== null), variables)
    } catch (error) {
      const { message } = error as Error
      const refusal = invalid(`the model's chat template fails for these messages: ${message}`, 'messages')
      refusal.cause = error
      throw refusal
    }
  }

  private find (withTools: boolean): Template {
    const name = withTools && this.templates.has('tool_use') ? 'tool_use' : 'default'
    const template = this.parsed.get(name) ??
      new Template(this.templates.get(name) ?? this.templates.values().next().value ?? '')
    this.parsed.set(name, template)
    return template
  }
}

const NO_TOOLS = { way: 'tools', form: 'object' } as const

/** Adapts a message to templates, which expect '' instead of null, and mostly arguments as objects. */
function forTemplate (message: Record<string, unknown>, form: ArgumentsForm): Record<string, unknown> {
  const { tool_calls: calls, content } = message
  return {
    ...message, content: content ?? '',
    ...form === 'object' && Array.isArray(calls) ? { tool_calls: calls.map(withObjectArguments) } : {}
  }
}

function withObjectArguments (call: unknown): unknown {
  if (!isObject(call) || !isObject(call['function'])) return call
  const { arguments: given, ...rest } = call['function']
  const value = typeof given === 'string' ? parsed(given) : undefined
  return { ...call, function: { ...rest, arguments: value === undefined ? given : value } }
}

/** The template library's interpreter, declared here because an ESM project cannot resolve its types. */
interface LibraryInterpreter {
  evaluate (statement: unknown, environment: unknown): { value: unknown }
  run (program: unknown): { value: unknown }
}
interface LibraryEnvironment { set (name: string, value: unknown): unknown }
const BaseInterpreter = Interpreter as unknown as new (environment: LibraryEnvironment) => LibraryInterpreter
const BaseEnvironment = Environment as unknown as new () => LibraryEnvironment

/** Thrown if a template exceeds the step limit; a retry would exceed it too. */
export class EndlessTemplate extends Error {}

class BoundedInterpreter extends BaseInterpreter {
  private steps = 0

  override evaluate (statement: unknown, environment: unknown): { value: unknown } {
    this.take(1)
    const result = super.evaluate(statement, environment)
    const { value } = result
    if (typeof value === 'string') this.take(value.length / STEP_CHARS)
    else if (Array.isArray(value)) this.take(value.length / STEP_ITEMS)
    return result
  }

  private take (steps: number): void {
    this.steps += steps
    if (this.steps > MAX_STEPS) throw new EndlessTemplate(`it takes more than ${MAX_STEPS} steps`)
  }
}

/** Like the library's Template.render, but with limits on work and with English dates. */
function evaluate (template: Template, variables: Record<string, unknown>): string {
  const environment = new BaseEnvironment()
  const globals: Record<string, unknown> = {
    false: false, true: true, none: null, False: false, True: true, None: null,
    raise_exception: (message: string) => { throw new Error(message) }, range: boundedRange,
    strftime_now: (format: string) => strftime(new Date(), format)
  }
  for (const [name, value] of Object.entries({ ...globals, ...variables })) environment.set(name, value)
  return String(new BoundedInterpreter(environment).run(template.parsed).value)
}

function boundedRange (start: number, stop?: number, step = 1): number[] {
  const [from, to] = stop === undefined ? [0, start] : [start, stop]
  if (step === 0) throw new Error('range() step must not be zero')
  const count = Math.max(0, Math.ceil((to - from) / step))
  if (!(count <= MAX_RANGE)) throw new Error(`range() of ${count} numbers exceeds the limit of ${MAX_RANGE}`)
  return Array.from({ length: count }, (_, i) => from + i * step)
}

/** The directives of Python's strftime that public templates use; English names, local time. */
export function strftime (date: Date, format: string): string {
  const two = (n: number): string => String(n).padStart(2, '0')
  const month = date.toLocaleString('en-US', { month: 'long' })
  const day = date.toLocaleString('en-US', { weekday: 'long' })
  const parts: Record<string, string> = {
    Y: String(date.getFullYear()), m: two(date.getMonth() + 1), d: two(date.getDate()),
    H: two(date.getHours()), M: two(date.getMinutes()), S: two(date.getSeconds()),
    B: month, b: month.slice(0, 3), A: day, a: day.slice(0, 3), y: two(date.getFullYear() % 100), '%': '%'
  }
  return format.replace(/%(-?)([a-zA-Z%])/g, (all, plain: string, key: string) => {
    const value = parts[key]
    if (value === undefined) return all
    return plain === '-' ? value.replace(/^0(?=\d)/, '') : value
  })
}

/** The name of the template variable that holds the tools. */
type ToolsVariable = 'tools' | 'xml_tools'
/** Whether the template expects the arguments of earlier calls as an object or as JSON text. */
type ArgumentsForm = 'object' | 'text'

interface ToolFacts {
  /** The variable through which the template renders tools; null if it does not render tools. */
  way: ToolsVariable | null
  /** The format of tool calls; null if svc does not know the format. */
  format: ToolFormatName | null
  form: ArgumentsForm
  /** The error message if the template could not be rendered with tools; otherwise null. */
  problem: string | null
}

interface Trial {
  messages: readonly Record<string, unknown>[], tools: readonly object[] | null, way: ToolsVariable
  addGenerationPrompt: boolean
}

const [NAME, KEY, VALUE] = ['probe_tool', 'probe_key', 'probe value']
const TOOL = {
  type: 'function',
  function: {
    name: NAME, description: 'Looks something up.',
    parameters: {
      type: 'object', required: [KEY],
      properties: { [KEY]: { type: 'string', description: 'What to look up.' } }
    }
  }
}
const ASKED = { role: 'user', content: 'Hello' }
/** The trial's tool call. Mistral's templates accept only ids of nine letters and digits. */
const CALL = { id: 'probecall', type: 'function' }
const WAYS: readonly ToolsVariable[] = ['tools', 'xml_tools']

/**
 * Detects a template's tool support. `render` throws if the template refuses a trial. `source` is the
 * template's text, which is searched for hints if no rendered conversation shows a call.
 */
function toolFactsOf (
  render: (trial: Trial) => string, source: string, reasoning: ReasoningName | null
): ToolFacts {
  let problem: string | null = null
  const rendered = (trial: Trial): string | null => {
    try {
      return render(trial)
    } catch (error) {
      if (!(error instanceof EngineError)) throw error
      problem ??= error.message
      return null
    }
  }
  const prompt = (way: ToolsVariable, tools: object[] | null = [TOOL]): string | null =>
    rendered({ messages: [ASKED], tools, way, addGenerationPrompt: true })
  if (prompt('tools', null) === null && prompt('tools') === null) {
    return { way: null, form: 'object', format: hintedBy(source), problem }
  }
  problem = null
  const way = WAYS.find((each) => prompt(each)?.includes(NAME) === true) ?? null
  const why = way === null ? problem : null
  const shown = prompt(way ?? 'tools') ?? ''
  let showsCalls = false
  for (const form of ['object', 'text'] as const) {
    const given = { [KEY]: VALUE }
    const written = form === 'object' ? given : JSON.stringify(given)
    const call = { ...CALL, function: { name: NAME, arguments: written } }
    const whole = rendered({
      messages: [ASKED, { role: 'assistant', content: '', tool_calls: [call] }], tools: [TOOL],
      way: way ?? 'tools', addGenerationPrompt: false
    })
    const text = whole === null ? '' : behind(shown, whole)
    const format = formatOf(text, reasoning)
    if (format !== null) return { way, format, form, problem: why }
    showsCalls ||= text.includes(NAME)
  }
  // Ignore hints if the template renders calls, because then it does so in an unknown format.
  const format = showsCalls ? null : hintedBy(shown) ?? hintedBy(source)
  return { way, form: 'object', format, problem: why }
}

/** The part of a rendered conversation (`whole`) that follows the prompt. */
function behind (prompt: string, whole: string): string {
  if (whole.startsWith(prompt)) return whole.slice(prompt.length)
  let same = 0
  while (same < prompt.length && prompt[same] === whole[same]) same++
  // If prompt and conversation differ in the middle of a marker, start at the marker's beginning.
  return whole.slice(Math.max(0, whole.lastIndexOf('<', same)))
}

/** The format whose parser finds the test call in the rendered conversation. */
function formatOf (text: string, reasoning: ReasoningName | null): ToolFormatName | null {
  return toolFormatNames.find((name) =>
    toolFormats[name].shows.every((shown) => text.includes(shown)) && reads(name, text, reasoning)) ?? null
}

function reads (name: ToolFormatName, text: string, reasoning: ReasoningName | null): boolean {
  const reader = new OutputReader({
    tools: name, reasoning: name === 'harmony' ? 'harmony' : reasoning, newId: () => '',
    parameters: () => TOOL.function.parameters
  })
  const found = [reader.push(text), reader.end()].flatMap(({ tool_calls: calls = [] }) => calls)
  const given = found.map((call) => call.function.arguments ?? '').join('')
  const value = parseJson(given)
  return found[0]?.function.name === NAME && isObject(value) && value[KEY] === VALUE
}

function hintedBy (text: string): ToolFormatName | null {
  const hints = ({ hints, opens }: ToolFormat): readonly string[] => hints ?? opens
  return toolFormatNames.find((name) => hints(toolFormats[name]).some((hint) => text.includes(hint))) ?? null
}
