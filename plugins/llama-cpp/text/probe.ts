/** Detects how a chat template handles tools, by rendering conversations with and without them. */
import { EngineError } from '../../../kernel/api/engine.js'
import { toolFormatNames, toolFormats, type ToolFormatName } from './tools/index.js'
import { OutputReader } from './parse/output.js'
import type { ToolFormat } from './tools/format.js'
import type { ReasoningName } from './reasoning.js'

/** The name of the template variable that holds the tools. */
export type ToolsVariable = 'tools' | 'xml_tools'
/** Whether the template expects the arguments of earlier calls as an object or as JSON text. */
export type ArgumentsForm = 'object' | 'text'

export interface ToolFacts {
  /** The variable through which the template renders tools; null if it does not render tools. */
  way: ToolsVariable | null
  /** The format of tool calls; null if svc does not know the format. */
  format: ToolFormatName | null
  form: ArgumentsForm
  /** The error message if the template could not be rendered with tools; otherwise null. */
  problem: string | null
}

export interface Trial {
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
export function toolFactsOf (
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
  return found[0]?.function.name === NAME && sameArguments(given)
}

function sameArguments (text: string): boolean {
  try {
    const value = JSON.parse(text) as Record<string, unknown>
    return value[KEY] === VALUE
  } catch {
    return false
  }
}

function hintedBy (text: string): ToolFormatName | null {
  const hints = ({ hints, opens }: ToolFormat): readonly string[] => hints ?? opens
  return toolFormatNames.find((name) => hints(toolFormats[name]).some((hint) => text.includes(hint))) ?? null
}
