/** Turns engine chunks into pieces: text, reasoning and tool calls of each choice. */
import type { EngineChunk } from '../../../kernel/index.js'
import type {
  AnswerChunk, CallDelta, Choice, Finish, Timings, TokenReport, Usage
} from '../../runners/language/chunks.js'

export type { Finish } from '../../runners/language/chunks.js'

/** A delta of a tool call; the first one has id and name. */
export interface ToolCallDelta { index: number, id?: string, name?: string, arguments?: string }

/** The engine accepted the prompt with this index (from 0). Sent once per prompt, before its text. */
export interface StartPiece { kind: 'start', prompt: number, promptTokens: number }
/** New text, reasoning or tool calls in one choice. */
export interface TextPiece {
  kind: 'text', index: number, content: string, reasoning: string
  calls: ToolCallDelta[], tokens: TokenReport[]
}
export interface EndPiece {
  kind: 'end', prompt: number, index: number, finish: Finish, usage: Usage, timings: Timings
  /** The stop sequence that ended the choice; null if there was none. */
  stop: string | null
}
/** The request waits for a slot of its runner. */
export type QueuePiece = { kind: 'queue' } & NonNullable<AnswerChunk['queue']>
export type Piece = QueuePiece | StartPiece | TextPiece | EndPiece

export interface PieceOptions {
  /** Limit on tool calls; later ones are dropped. */
  mostCalls: number
  /** The prompt, if a text completion must repeat it before each answer. */
  echo?: string
}

/**
 * Converts the engine's chunks for one prompt to pieces. `newId` makes ids for tool calls without one;
 * `first` is the index of the prompt's first answer, `prompt` its own index. Before the start piece, `warn`
 * gets a message per request part that the engine ignores.
 */
export function pieceReader (
  reading: PieceOptions, newId: () => string, warn: (texts: string[]) => void, { first = 0, prompt = 0 } = {}
): (chunk: EngineChunk) => Piece[] {
  const textOf = textReader(reading, newId)
  let started = false
  return ({ payload }) => {
    const { choices = [], usage, timings = {}, warnings, queue } = payload as Partial<AnswerChunk>
    if (queue !== undefined) return [{ kind: 'queue', ...queue }]
    if (warnings !== undefined) {
      warn(warnings)
      return []
    }
    const pieces: Piece[] = []
    if (!started) pieces.push({ kind: 'start', prompt, promptTokens: usage?.prompt_tokens ?? 0 })
    started = true
    for (const choice of choices) {
      const text = textOf(choice)
      const index = first + choice.index
      if (text !== null) pieces.push({ ...text, index })
      const { finish_reason: finish, stop_text: stop = null } = choice
      if (finish == null) continue
      pieces.push({ kind: 'end', prompt, index, finish, stop, usage: usage ?? { prompt_tokens: 0 }, timings })
    }
    return pieces
  }
}

/** Returns a function that converts a choice to a text piece, or to null if it has no new content. */
function textReader (
  { mostCalls, echo = '' }: PieceOptions, newId: () => string
): (choice: Choice) => TextPiece | null {
  const seen = new Set<number>()
  const called = new Set<string>()
  const callOf = (choice: number, { index, id, function: { name, arguments: text } }: CallDelta) => {
    const key = `${choice} ${index}`
    const isFirst = !called.has(key)
    called.add(key)
    return {
      index, ...isFirst ? { id: id ?? newId(), name: name ?? '' } : {},
      ...text === undefined ? {} : { arguments: text }
    }
  }
  return ({ index, delta = {}, text = '', logprobs, finish_reason: finish }) => {
    const { content = '', reasoning_content: reasoning = '', tool_calls: made = [] } = delta
    const tokens = logprobs?.content ?? []
    const calls = made.filter((call) => call.index < mostCalls).map((call) => callOf(index, call))
    const hasNews = content !== '' || text !== '' || reasoning !== '' || calls.length > 0 || tokens.length > 0
    const repeats = echo !== '' && !seen.has(index) && (hasNews || finish != null)
    if (!hasNews && !repeats) return null
    seen.add(index)
    return { kind: 'text', index, content: (repeats ? echo : '') + content + text, reasoning, calls, tokens }
  }
}

export interface WholeCall { id: string, name: string, arguments: string }

export interface CompleteChoice {
  index: number, content: string, reasoning: string, calls: WholeCall[], tokens: TokenReport[]
  finish: Finish
  stop: string | null
}

const emptyChoice = (index: number): CompleteChoice =>
  ({ index, content: '', reasoning: '', calls: [], tokens: [], finish: 'stop', stop: null })

export class Collector {
  readonly totals = new Totals()
  readonly #choices = new Map<number, CompleteChoice>()

  get choices (): CompleteChoice[] { return [...this.#choices.values()].sort((a, b) => a.index - b.index) }

  /** The first choice, for APIs with a single choice; empty if the engine sent none. */
  get only (): CompleteChoice { return this.choices[0] ?? emptyChoice(0) }

  add (piece: Piece): void {
    this.totals.add(piece)
    if (piece.kind === 'queue' || piece.kind === 'start') return
    const whole = this.#choices.get(piece.index) ?? emptyChoice(piece.index)
    this.#choices.set(piece.index, whole)
    if (piece.kind === 'end') {
      whole.finish = piece.finish
      whole.stop = piece.stop
      return
    }
    whole.content += piece.content
    whole.reasoning += piece.reasoning
    for (const token of piece.tokens) whole.tokens.push(token)
    for (const { index, id, name, arguments: text } of piece.calls) {
      const call = whole.calls[index] ??= { id: id ?? '', name: name ?? '', arguments: '' }
      call.arguments += text ?? ''
    }
  }
}

/** Totals over all prompts and choices of an answer. Rates are tokens per second. */
export class Totals {
  promptTokens = 0
  completionTokens = 0
  cachedTokens = 0
  promptRate = 0
  generationRate = 0
  peakMemoryBytes = 0
  /** Token counts by prompt index, and the prompts with at least one finished choice. */
  readonly #prompts = new Map<number, number>()
  readonly #ended = new Set<number>()

  add (piece: Piece): void {
    if (piece.kind === 'start') this.#count(piece.prompt, piece.promptTokens)
    if (piece.kind !== 'end') return
    const { prompt, usage, timings } = piece
    this.#count(prompt, usage.prompt_tokens)
    this.completionTokens += usage.completion_tokens ?? 0
    // Choices share a prompt, so its cached tokens count once.
    if (!this.#ended.has(prompt)) this.cachedTokens += usage.prompt_tokens_details?.cached_tokens ?? 0
    this.#ended.add(prompt)
    this.promptRate = Math.max(this.promptRate, timings.prompt_per_second ?? 0)
    this.generationRate += timings.predicted_per_second ?? 0
    this.peakMemoryBytes = Math.max(this.peakMemoryBytes, timings.peak_memory_bytes ?? 0)
  }

  #count (prompt: number, tokens: number): void {
    this.promptTokens += tokens - (this.#prompts.get(prompt) ?? 0)
    this.#prompts.set(prompt, tokens)
  }
}
