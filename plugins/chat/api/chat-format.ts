/** Answers of POST /v1/chat/completions. Pure. */
import { chatLogprobs, usageOf } from './openai-format.js'
import type { Facts, Formatter } from './answer.js'
import type { Collector, EndPiece, TextPiece, Totals, Whole, WholeCall } from './pieces.js'

/** How many answers there are, and whether their usage comes in a chunk of its own. */
export interface ChatOptions { n: number, includeUsage: boolean }

/** The chunks of a stream. */
export class ChatFormatter implements Formatter {
  readonly #facts: Facts
  readonly #options: ChatOptions
  /** The last choice's end, which waits for the usage. */
  #last: object | null = null

  constructor (facts: Facts, options: ChatOptions) {
    this.#facts = facts
    this.#options = options
  }

  begin (): object[] {
    return Array.from({ length: this.#options.n }, (_, index) =>
      this.#choice(index, { role: 'assistant', content: '' }))
  }

  piece (piece: TextPiece | EndPiece): object[] {
    if (piece.kind === 'end') return this.#ended(piece)
    const { index, content, reasoning, calls, tokens } = piece
    const delta: Record<string, unknown> = {}
    if (reasoning !== '') delta['reasoning_content'] = reasoning
    if (content !== '') delta['content'] = content
    if (calls.length > 0) delta['tool_calls'] = calls.map(callDelta)
    return [this.#choice(index, delta, chatLogprobs(tokens))]
  }

  end (totals: Totals): object[] {
    const usage = usageOf(totals)
    if (this.#options.includeUsage) {
      return [...this.#last === null ? [] : [this.#last], { ...this.#chunk([]), usage }]
    }
    return this.#last === null ? [] : [{ ...this.#last, usage }]
  }

  #ended ({ index, finish }: EndPiece): object[] {
    const before = this.#last
    this.#last = this.#choice(index, {}, null, finish)
    return before === null ? [] : [before]
  }

  #choice (
    index: number, delta: object, logprobs: object | null = null, finish: string | null = null
  ): object {
    return this.#chunk([{ index, delta, logprobs, finish_reason: finish }])
  }

  #chunk (choices: object[]): object {
    const { id, created, model } = this.#facts
    return {
      id, object: 'chat.completion.chunk', created, model, system_fingerprint: null, choices,
      ...this.#options.includeUsage ? { usage: null } : {}
    }
  }
}

function callDelta (
  { index, id, name, arguments: text }: TextPiece['calls'][number]
): Record<string, unknown> {
  if (id === undefined) return { index, function: { arguments: text ?? '' } }
  return { index, id, type: 'function', function: { name, arguments: text ?? '' } }
}

/** The whole answer. */
export function chatCompletion (answer: Collector, { id, created, model }: Facts): object {
  return {
    id, object: 'chat.completion', created, model, system_fingerprint: null,
    choices: answer.choices.map(wholeChoice),
    usage: usageOf(answer.totals)
  }
}

function wholeChoice ({ index, content, reasoning, calls, tokens, finish }: Whole): object {
  const message = {
    role: 'assistant',
    content: content === '' && calls.length > 0 ? null : content,
    refusal: null,
    ...reasoning === '' ? {} : { reasoning_content: reasoning },
    ...calls.length === 0 ? {} : { tool_calls: calls.map(wholeCall) }
  }
  return { index, message, logprobs: chatLogprobs(tokens), finish_reason: finish }
}

const wholeCall = ({ id, name, arguments: text }: WholeCall): object =>
  ({ id, type: 'function', function: { name, arguments: text } })
