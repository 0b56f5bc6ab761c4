/** An engine's answer taken apart: text, reasoning and tool calls of each choice, as they come. */
import { OutputReader } from '../text/parse/output.js'
import type { ToolCallDelta } from '../text/parse/output.js'
import type { EngineChunk } from '../../../kernel/index.js'
import type { TokenReport } from '../engine/mailbox.js'
import type { Done } from '../engine/generation.js'
import type { ToolFormatName } from '../text/tool-formats.js'

/** Why a choice ended, under OpenAI's names. */
export type Finish = 'stop' | 'length' | 'tool_calls'

/** The request was taken in: its prompt fits. Comes once, first. */
export interface StartPiece { kind: 'start', promptTokens: number }
/** What is new of a choice. */
export interface TextPiece {
  kind: 'text', index: number, content: string, reasoning: string
  calls: ToolCallDelta[], tokens: TokenReport[]
}
/** A choice is complete. */
export interface EndPiece {
  kind: 'end', index: number, finish: Finish, usage: Done['usage'], stats: Done['stats']
  /** The stop text that ended it, if one did. */
  stop: string | null
}
/** One thing an answer consists of. */
export type Piece = StartPiece | TextPiece | EndPiece

/** How an answer is read. */
export interface Reading {
  /** Look for reasoning and tool calls; else the text is handed on as it is. */
  parse: boolean
  /** The request has tools. */
  tools: boolean
  /** Calls that are handed on; later ones are left out. */
  mostCalls: number
}

/** What the engine says when it has taken a request in. */
interface Admitted {
  kind: 'admitted', prompt_tokens: number, tool_format?: ToolFormatName, in_reasoning?: boolean
}
interface Delta { kind: 'delta', index: number, text: string, tokens?: TokenReport[] }
type EngineMessage = Admitted | Delta | Done

/**
 * The pieces of an answer, in the order in which the engine made them. The first is a `start`, also where
 * the engine does not say that it took the request in. `newId` makes the ids of tool calls.
 */
export async function * piecesOf (
  chunks: AsyncIterable<EngineChunk>, reading: Reading, newId: () => string
): AsyncGenerator<Piece> {
  let choices: Choices | null = null
  for await (const { payload } of chunks) {
    const told = payload as unknown as EngineMessage
    if (choices === null) {
      const admitted = told.kind === 'admitted' ? told : null
      choices = new Choices(reading, newId, admitted)
      yield { kind: 'start', promptTokens: admitted?.prompt_tokens ?? 0 }
    }
    if (told.kind === 'delta') yield * choices.delta(told)
    else if (told.kind === 'done') yield * choices.done(told)
  }
}

/** The choices of one answer, each with its own reader. */
class Choices {
  readonly #reading: Reading
  readonly #newId: () => string
  readonly #format: ToolFormatName
  readonly #inReasoning: boolean
  readonly #readers = new Map<number, OutputReader>()

  constructor (reading: Reading, newId: () => string, admitted: Admitted | null) {
    this.#reading = reading
    this.#newId = newId
    this.#format = admitted?.tool_format ?? 'hermes'
    this.#inReasoning = admitted?.in_reasoning === true
  }

  delta ({ index, text, tokens = [] }: Delta): Piece[] {
    const nothing: TextPiece = { kind: 'text', index, content: '', reasoning: '', calls: [], tokens }
    if (!this.#reading.parse) return [{ ...nothing, content: text }]
    return this.#piece(index, this.#reader(index).push(text), tokens)
  }

  done ({ index, finish_reason: reason, stop_text: stop, usage, stats }: Done): Piece[] {
    const end: EndPiece = { kind: 'end', index, finish: reason, usage, stats, stop }
    if (!this.#reading.parse) return [end]
    const reader = this.#reader(index)
    const rest = this.#piece(index, reader.end(), [])
    if (reason === 'stop' && reader.calls > 0) end.finish = 'tool_calls'
    return [...rest, end]
  }

  #piece (
    index: number, out: ReturnType<OutputReader['push']>, tokens: TokenReport[]
  ): Piece[] {
    const { content, reasoning } = out
    const calls = out.toolCalls.filter((call) => call.index < this.#reading.mostCalls)
    const empty = content === '' && reasoning === '' && calls.length === 0 && tokens.length === 0
    return empty ? [] : [{ kind: 'text', index, content, reasoning, calls, tokens }]
  }

  #reader (index: number): OutputReader {
    const known = this.#readers.get(index)
    if (known !== undefined) return known
    const reader = new OutputReader({
      tools: this.#reading.tools ? this.#format : null,
      startsInReasoning: this.#inReasoning,
      newId: this.#newId
    })
    this.#readers.set(index, reader)
    return reader
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

/** Puts pieces together. */
export class Collector {
  readonly totals = new Totals()
  readonly #choices = new Map<number, Whole>()

  /** The choices by index. */
  get choices (): Whole[] { return [...this.#choices.values()].sort((a, b) => a.index - b.index) }

  add (piece: Piece): void {
    this.totals.add(piece)
    if (piece.kind === 'start') return
    const whole = this.#choice(piece.index)
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

  #choice (index: number): Whole {
    const known = this.#choices.get(index)
    if (known !== undefined) return known
    const made: Whole = {
      index, content: '', reasoning: '', calls: [], tokens: [], finish: 'stop', stop: null
    }
    this.#choices.set(index, made)
    return made
  }
}

/** Counts of an answer over all its choices. Rates are tokens per second. */
export class Totals {
  promptTokens = 0
  completionTokens = 0
  cachedTokens = 0
  promptRate = 0
  generationRate = 0
  peakMemoryBytes = 0

  /** Choices that have ended. */
  ended = 0

  add (piece: Piece): void {
    if (piece.kind === 'start') this.promptTokens = piece.promptTokens
    if (piece.kind !== 'end') return
    const { usage, stats } = piece
    this.ended++
    this.promptTokens = usage.prompt_tokens
    this.completionTokens += usage.completion_tokens
    // The choices share one prompt; the first one worked on it.
    if (this.ended === 1) this.cachedTokens = usage.cached_tokens
    this.promptRate = Math.max(this.promptRate, stats.prompt_tps ?? 0)
    this.generationRate += stats.generation_tps ?? 0
    this.peakMemoryBytes = Math.max(this.peakMemoryBytes, stats.peak_memory_bytes)
  }
}
