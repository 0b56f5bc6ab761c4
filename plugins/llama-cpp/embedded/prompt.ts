/** Renders and tokenizes a chat request. */
import { TokenSplitter } from '../text/verbatim.js'
import { MARKERS } from '../text/parse/output.js'
import { reasonings, reasoningStateAfter } from '../text/reasoning.js'
import { ChatTemplate, EndlessTemplate } from '../text/template.js'
import type { AnswerFormats } from './constraint.js'
import type { ChatMessage } from '../../runners/language/chunks.js'
import { fieldsOf, isObject, textOf, type Fields } from '../../runners/language/json.js'
import { prefilledAnswer } from '../server/request.js'
import { toHermesFormat, withoutSystem } from './formats.js'
import { needsServer } from './refusals.js'
import { invalid } from '../../runners/language/refusals.js'
import type { Vocabulary } from './vocabulary.js'

/** llama.cpp's default chat template, for files without one. */
const CHATML = '{% for m in messages %}{{ "<|im_start|>" + m.role + "\\n" + m.content + "<|im_end|>\\n" }}' +
  '{% endfor %}{% if add_generation_prompt %}{{ "<|im_start|>assistant\\n" }}{% endif %}'
/** Number of characters at the prompt's end to search for reasoning markers. */
const END_CHARS = 200

export interface Prompt extends AnswerFormats {
  ids: number[]
  /** Whether the template has no place for tools, so that the messages describe them. */
  describesTools?: boolean
}

export class Prompts {
  private readonly vocabulary: Vocabulary
  private readonly template: ChatTemplate
  private readonly answers: TokenSplitter
  private readonly others: TokenSplitter

  /** `templates` contains the chat templates by name, `default` first; `bos` and `eos` are token ids. */
  constructor (
    vocabulary: Vocabulary, templates: ReadonlyMap<string, string>, { bos, eos }: { bos: number, eos: number }
  ) {
    const { added, special } = vocabulary.table
    const tokens = { bos_token: vocabulary.textOf(bos) ?? '', eos_token: vocabulary.textOf(eos) ?? '' }
    const all = templates.size === 0 ? new Map([['default', CHATML]]) : templates
    this.vocabulary = vocabulary
    this.template = new ChatTemplate(all, tokens, added.keys())
    const { reasoning } = this.template
    const own = reasoning === null || reasonings[reasoning].channels === true ? []
      : [reasonings[reasoning].opens, reasonings[reasoning].closes]
    const words = [...added].filter(([text, id]) => [...text].length > 1 &&
      (special.has(id) || MARKERS.includes(text))).map(([text]) => text)
    // Keep reasoning markers intact in earlier answers, because templates search for them there.
    this.answers = new TokenSplitter(words.filter((word) => !own.includes(word)))
    this.others = new TokenSplitter(words)
  }

  /** Detects the template's tool support now, so that the first request saves some milliseconds. */
  warm (): void { void this.template.tools }

  /** @throws EngineError invalid_request */
  read (payload: Fields): Prompt {
    const all = messagesOf(payload['messages'])
    const begun = prefilledAnswer(all)
    const messages = begun === undefined ? all : all.slice(0, -1)
    const { tools: given, tool_choice: choice } = payload
    const offered = Array.isArray(given) && choice !== 'none' ? given : []
    const spoken = messages.map((message) => this.cutterOf(message.role).cut(message))
    const tools = this.others.cut(offered)
    const shows = this.shows(tools, spoken)
    const asText = (): ChatMessage[] => shows && tools.length === 0 ? spoken : toHermesFormat(spoken, tools)
    const variables = isObject(payload['chat_template_kwargs'])
      ? this.others.cut(payload['chat_template_kwargs']) : {}
    const begins = begun !== undefined || payload['add_generation_prompt'] !== false
    const options = { addGenerationPrompt: begins, extra: variables }
    const bare = { ...options, extra: { ...variables, tools: [] } }
    // Some templates fail for untyped parameters, a missing tool list or system messages, so try variants.
    const [rendered, showsTools] = firstOf<[string, boolean]>([
      () => [shows ? this.template.render(spoken, { ...options, tools })
        : this.template.render(asText(), options), shows],
      () => [this.template.render(asText(), bare), false],
      () => [this.template.render(withoutSystem(asText()), bare), false]
    ])
    const { reasoning } = this.template
    const thoughts = reasoning === null ? 'over'
      : reasoningStateAfter(rendered.slice(-END_CHARS), reasonings[reasoning])
    const asked = { rendered, reasoning, thoughts }
    const { rendered: text, ...rest } = begun === undefined ? asked : goingOn(asked, this.answers.cut(begun))
    return {
      ids: this.vocabulary.encodeRendered(text),
      tools: tools.length === 0 ? null : showsTools ? this.template.tools.format : 'hermes',
      describesTools: tools.length > 0 && !showsTools, ...rest
    }
  }

  private cutterOf (role: string): TokenSplitter { return role === 'assistant' ? this.answers : this.others }

  /** Whether the template renders these tools and calls in a format that can be parsed. */
  private shows (tools: readonly unknown[], messages: readonly ChatMessage[]): boolean {
    const calls = messages.some(({ tool_calls: made, role }) => made !== undefined || role === 'tool')
    if (tools.length === 0 && !calls) return true
    const { way, format } = this.template.tools
    return way !== null && format !== null
  }
}

type Written = Pick<Prompt, 'reasoning' | 'thoughts'> & { rendered: string }

/** Appends a partial answer, which the model should continue, to the prompt, as llama-server does. */
function goingOn ({ rendered, reasoning, thoughts }: Written, answer: ChatMessage): Written {
  const said = textOf(answer.content)
  if (reasoning === null) return { rendered: rendered + said, reasoning, thoughts }
  const { opens, closes, channels } = reasonings[reasoning]
  if (channels === true) throw needsServer('messages', 'does not continue answers of this model')
  const before = thoughts === 'may' ? rendered : rendered.slice(0, rendered.lastIndexOf(opens))
  const text = before + opens + textOf(answer.reasoning_content)
  return said === '' ? { rendered: text, reasoning, thoughts: 'inside' }
    : { rendered: text + closes + said, reasoning, thoughts: 'over' }
}

/** The result of the first attempt that succeeds; if all fail, throws the first attempt's error. */
function firstOf<T> (attempts: readonly (() => T)[]): T {
  let first: unknown
  for (const attempt of attempts) {
    try {
      return attempt()
    } catch (error) {
      first ??= error
      if ((error as Error).cause instanceof EndlessTemplate) break
    }
  }
  throw first
}

/** @throws EngineError invalid_request */
function messagesOf (value: unknown): ChatMessage[] {
  if (!Array.isArray(value) || value.length === 0) {
    throw invalid('messages must have at least one message with a role and a text', 'messages')
  }
  return value.map((message: unknown, i) => {
    const { role, content } = fieldsOf(message)
    if (typeof role !== 'string') throw invalid(`messages[${i}].role must be a string`, `messages[${i}].role`)
    return { ...fieldsOf(message), role, content: contentOf(content, `messages[${i}].content`) }
  })
}

function contentOf (content: unknown, path: string): string | null {
  if (content == null || typeof content === 'string') return content ?? null
  if (!Array.isArray(content)) throw invalid(`${path} must be a string or a list of parts`, path)
  return content.map((part: unknown) => {
    const { type, text } = fieldsOf(part)
    if (type === 'text' && typeof text === 'string') return text
    if (type === 'image_url' || type === 'input_audio') {
      throw needsServer(path, 'supports no images or audio')
    }
    throw invalid(`${path} has a part of unknown type ${JSON.stringify(type)}`, path)
  }).join('')
}
