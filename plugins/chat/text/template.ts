import { Environment, Interpreter, Template } from '@huggingface/jinja'
import { invalid } from './errors.js'
import { isObject, parsed } from '../json.js'
import type { TextFiles } from './files.js'
import type { ChatMessage, RenderOptions } from './types.js'

/** Steps that one rendering may take: one to two seconds. Public templates take some 40 a message. */
const MAX_STEPS = 400_000
/** Most numbers of one range(). */
const MAX_RANGE = 100_000

/** The chat templates of a model by name; `default` is the one without tools. */
export type Templates = ReadonlyMap<string, string>

/**
 * Templates in their order: the file chat_template.jinja, then tokenizer_config.json (a string or a named
 * list).
 */
export function findTemplates (files: Pick<TextFiles, 'template' | 'tokenizerConfig'>): Templates {
  const found = new Map<string, string>()
  const configured = files.tokenizerConfig['chat_template']
  if (typeof configured === 'string') found.set('default', configured)
  for (const entry of Array.isArray(configured) ? configured as unknown[] : []) {
    if (!isObject(entry) || typeof entry['name'] !== 'string' || typeof entry['template'] !== 'string') {
      continue
    }
    found.set(entry['name'], entry['template'])
  }
  if (files.template !== null) {
    found.delete('tool_use')
    found.set('default', files.template)
  }
  return found
}

/** Renders a conversation as the text of a prompt. Throws EngineError `invalid_request`. */
export type Render = (messages: readonly ChatMessage[], options: RenderOptions) => string

/** Renders with a model's templates. `tokens`: bos_token, eos_token and so on. */
export function chatTemplate (templates: Templates, tokens: Readonly<Record<string, string>>): Render {
  const known = new Map<string, Template>()
  const find = (withTools: boolean): Template => {
    const name = withTools && templates.has('tool_use') ? 'tool_use' : 'default'
    const source = templates.get(name) ?? templates.values().next().value
    if (source === undefined) {
      throw invalid('this model has no chat template; send the whole prompt to /v1/completions', 'messages')
    }
    const template = known.get(name) ?? parse(source)
    known.set(name, template)
    return template
  }
  return (messages, { tools = [], addGenerationPrompt, extra }) => {
    const template = find(tools.length > 0)
    const variables = {
      ...tokens,
      messages: messages.map(forTemplate),
      tools: tools.length > 0 ? tools : null,
      documents: null,
      add_generation_prompt: addGenerationPrompt,
      ...extra
    }
    try {
      return evaluate(template, variables)
    } catch (error) {
      throw invalid(`the model's chat template refuses these messages: ${(error as Error).message}`,
        'messages')
    }
  }
}

function parse (source: string): Template {
  try {
    return new Template(source)
  } catch (error) {
    throw invalid(`the model's chat template cannot be read: ${(error as Error).message}; send the whole ` +
      'prompt to /v1/completions', 'messages')
  }
}

/** Templates expect text, and arguments of calls as objects; the API has null, and JSON in a string. */
function forTemplate (message: ChatMessage): Record<string, unknown> {
  const out: Record<string, unknown> = { ...message, content: message.content ?? '' }
  if (message.tool_calls !== undefined) out['tool_calls'] = message.tool_calls.map(withObjectArguments)
  return out
}

function withObjectArguments (call: unknown): unknown {
  if (!isObject(call) || !isObject(call['function'])) return call
  const { arguments: given, ...rest } = call['function']
  const value = typeof given === 'string' ? parsed(given) : undefined
  return { ...call, function: { ...rest, arguments: value === undefined ? given : value } }
}

/** What is used of the library's interpreter; its own declarations cannot be resolved by an ESM project. */
interface LibraryInterpreter { evaluate (statement: unknown, environment: unknown): unknown,
  run (program: unknown): { value: unknown } }
interface LibraryEnvironment { set (name: string, value: unknown): unknown }
const BaseInterpreter = Interpreter as unknown as new (environment: LibraryEnvironment) => LibraryInterpreter
const BaseEnvironment = Environment as unknown as new () => LibraryEnvironment

/** An interpreter that gives up on a template that does not come to an end. */
class BoundedInterpreter extends BaseInterpreter {
  private steps = 0

  override evaluate (statement: unknown, environment: unknown): unknown {
    if (++this.steps > MAX_STEPS) throw new Error(`it takes more than ${MAX_STEPS} steps`)
    return super.evaluate(statement, environment)
  }
}

/** As Template.render of the library, with bounds, and dates in English. */
function evaluate (template: Template, variables: Record<string, unknown>): string {
  const environment = new BaseEnvironment()
  const globals: Record<string, unknown> = {
    false: false, true: true, none: null, False: false, True: true, None: null,
    raise_exception: (message: string) => { throw new Error(message) },
    range: boundedRange,
    strftime_now: (format: string) => strftime(new Date(), format)
  }
  for (const [name, value] of Object.entries({ ...globals, ...variables })) environment.set(name, value)
  return String(new BoundedInterpreter(environment).run(template.parsed).value)
}

function boundedRange (start: number, stop?: number, step = 1): number[] {
  const [from, to] = stop === undefined ? [0, start] : [start, stop]
  if (step === 0) throw new Error('range() step must not be zero')
  const count = Math.max(0, Math.ceil((to - from) / step))
  if (!(count <= MAX_RANGE)) throw new Error(`range() of ${count} numbers, at most ${MAX_RANGE} are made`)
  return Array.from({ length: count }, (_, i) => from + i * step)
}

/** The part of Python's strftime that public templates use, English names, local time. */
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
