/** An engine's answer taken apart: text, reasoning and tool calls of each choice, as they come. */
import { OutputReader } from '../text/parse/output.js'
import type { OutputDelta, ToolCallDelta } from '../text/parse/output.js'
import type { EngineChunk } from '../../../kernel/index.js'
import type { Done, TokenReport } from '../engine/pieces.js'
import type { ReasoningName } from '../text/reasoning.js'
import type { ToolFormatName } from '../text/tools/index.js'

/** Why a choice ended, under OpenAI's names. */
export type Finish = 'stop' | 'length' | 'tool_calls'

/**
 * The engine admitted the request: its prompt fits. Comes once for each prompt, before its choices. `prompt`
 * counts the prompts of a request from 0.
 */
export interface StartPiece { kind: 'start', prompt: number, promptTokens: number }
/** What is new of a choice. */
export interface TextPiece {
  kind: 'text', index: number, content: string, reasoning: string
  calls: ToolCallDelta[], tokens: TokenReport[]
}
/** A choice is complete. */
export interface EndPiece {
  kind: 'end', prompt: number, index: number, finish: Finish, usage: Done['usage'], stats: Done['stats']
  /** The stop text that ended it, if one did. */
  stop: string | null
}
/** One thing an answer consists of. */
export type Piece = StartPiece | TextPiece | EndPiece

/** How an answer is read. */
export interface Reading {
  /** Look for reasoning and tool calls; else the text is passed on as it is. */
  parse: boolean
  /** The request has tools. */
  tools: boolean
  /** The JSON Schemas of their parameters by their names, for values that are written without types. */
  parameters?: ReadonlyMap<string, unknown>
  /** Calls that are passed on; later ones are left out. */
  mostCalls: number
  /** What each answer begins with: its prompt, where a text completion is to repeat it. */
  echo?: string
}

/** The engine's message that it admitted a request. */
interface Admitted {
  kind: 'admitted', prompt_tokens: number, tool_format?: ToolFormatName | null, in_reasoning?: boolean
  reasoning?: ReasoningName | null
  /** Nothing in the text is a marker: it is passed on as it is. */
  plain?: boolean
}
interface Delta {
  kind: 'delta', index: number, text: string, tokens?: TokenReport[]
  /** Content, even if it contains markers. */
  plain?: boolean
}
type EngineMessage = Admitted | Delta | Done

/**
 * The pieces of the answers to a prompt, in the order in which the engine made them. The first is a `start`,
 * also where the engine sends no `admitted`. `newId` makes the ids of tool calls; `first` is the index of the
 * first answer, `prompt` that of the prompt.
 */
export async function * piecesOf (
  chunks: AsyncIterable<EngineChunk>, reading: Reading, newId: () => string, { first = 0, prompt = 0 } = {}
): AsyncGenerator<Piece> {
  let read: ((message: EngineMessage) => Piece[]) | null = null
  for await (const { payload } of chunks) {
    const message = payload as unknown as EngineMessage
    if (read === null) {
      const admitted = message.kind === 'admitted' ? message : null
      read = messageReader(reading, newId, admitted)
      yield { kind: 'start', prompt, promptTokens: admitted?.prompt_tokens ?? 0 }
    }
    for (const piece of read(message)) {
      if (piece.kind === 'end') yield { ...piece, prompt, index: first + piece.index }
      else if (piece.kind === 'text') yield { ...piece, index: first + piece.index }
    }
  }
}

const plainText = (index: number, content: string, tokens: TokenReport[]): TextPiece =>
  ({ kind: 'text', index, content, reasoning: '', calls: [], tokens })

/** One entry for each call: clients put what they get of one together once in a chunk. */
function joinedCalls (deltas: readonly ToolCallDelta[]): ToolCallDelta[] {
  const byIndex = new Map<number, ToolCallDelta>()
  for (const delta of deltas) {
    const { index, arguments: more } = delta
    const known = byIndex.get(index)
    if (known === undefined) byIndex.set(index, delta)
    else if (more !== undefined) byIndex.set(index, { ...known, arguments: (known.arguments ?? '') + more })
  }
  return [...byIndex.values()]
}

/** Makes pieces of an engine's messages. Each choice has its own reader. */
function messageReader (
  { parse: wanted, tools, parameters, mostCalls, echo = '' }: Reading, newId: () => string,
  admitted: Admitted | null
): (message: EngineMessage) => Piece[] {
  const parse = wanted && admitted?.plain !== true
  const begun = new Set<number>()
  /** The prompt, before the first text of an answer that is to repeat it. */
  const echoed = (index: number): string => {
    if (begun.has(index)) return ''
    begun.add(index)
    return echo
  }
  const readers = new Map<number, OutputReader>()
  const readerOf = (index: number): OutputReader => {
    const reader = readers.get(index) ?? new OutputReader({
      tools: tools ? admitted?.tool_format ?? 'hermes' : null,
      reasoning: admitted?.reasoning,
      parameters: (name) => parameters?.get(name),
      startsInReasoning: admitted?.in_reasoning === true,
      newId
    })
    readers.set(index, reader)
    return reader
  }
  const texts = (index: number, read: OutputDelta, tokens: TokenReport[]): Piece[] => {
    const { content, reasoning } = read
    const calls = joinedCalls(read.toolCalls.filter((call) => call.index < mostCalls))
    const empty = content === '' && reasoning === '' && calls.length === 0 && tokens.length === 0
    return empty ? [] : [{ kind: 'text', index, content, reasoning, calls, tokens }]
  }
  return (message) => {
    if (message.kind === 'delta') {
      const { index, text, tokens = [], plain } = message
      if (parse) {
        const reader = readerOf(index)
        return texts(index, plain === true ? reader.plain(text) : reader.push(text), tokens)
      }
      return [plainText(index, echoed(index) + text, tokens)]
    }
    if (message.kind !== 'done') return []
    const { index, finish_reason: reason, stop_text: stop, usage, stats } = message
    const end: EndPiece = { kind: 'end', prompt: 0, index, finish: reason, usage, stats, stop }
    if (!parse) {
      const prompt = echoed(index)
      return prompt === '' ? [end] : [plainText(index, prompt, []), end]
    }
    const reader = readerOf(index)
    const rest = texts(index, reader.end(), [])
    return [...rest, reason === 'stop' && reader.calls > 0 ? { ...end, finish: 'tool_calls' } : end]
  }
}

/** A tool call as a whole. */
export interface WholeCall { id: string, name: string, arguments: string }

/** A choice as a whole. */
export interface Whole {
  index: number, content: string, reasoning: string, calls: WholeCall[], tokens: TokenReport[]
  finish: Finish
  stop: string | null
}

const emptyChoice = (index: number): Whole =>
  ({ index, content: '', reasoning: '', calls: [], tokens: [], finish: 'stop', stop: null })

/** Puts pieces together. */
export class Collector {
  readonly totals = new Totals()
  readonly #choices = new Map<number, Whole>()

  get choices (): Whole[] { return [...this.#choices.values()].sort((a, b) => a.index - b.index) }

  /** The only choice, of an API that has no more; an empty one where nothing came. */
  get only (): Whole { return this.choices[0] ?? emptyChoice(0) }

  add (piece: Piece): void {
    this.totals.add(piece)
    if (piece.kind === 'start') return
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

/** Counts of an answer over all its prompts and choices. Rates are tokens per second. */
export class Totals {
  promptTokens = 0
  completionTokens = 0
  cachedTokens = 0
  promptRate = 0
  generationRate = 0
  peakMemoryBytes = 0
  /** Tokens of each prompt, and the prompts of which a choice has ended. */
  readonly #prompts = new Map<number, number>()
  readonly #ended = new Set<number>()

  add (piece: Piece): void {
    if (piece.kind === 'start') this.#count(piece.prompt, piece.promptTokens)
    if (piece.kind !== 'end') return
    const { prompt, usage, stats } = piece
    this.#count(prompt, usage.prompt_tokens)
    this.completionTokens += usage.completion_tokens
    // The choices share one prompt: what was cached of it counts once.
    if (!this.#ended.has(prompt)) this.cachedTokens += usage.cached_tokens
    this.#ended.add(prompt)
    this.promptRate = Math.max(this.promptRate, stats.prompt_tps ?? 0)
    this.generationRate += stats.generation_tps ?? 0
    this.peakMemoryBytes = Math.max(this.peakMemoryBytes, stats.peak_memory_bytes)
  }

  #count (prompt: number, tokens: number): void {
    this.promptTokens += tokens - (this.#prompts.get(prompt) ?? 0)
    this.#prompts.set(prompt, tokens)
  }
}
