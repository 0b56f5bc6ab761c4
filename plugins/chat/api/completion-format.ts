/** Answers of POST /v1/completions. Pure. */
import { usageOf } from './openai-format.js'
import type { Facts, Formatter } from './answer.js'
import type { Collector, EndPiece, TextPiece, Totals } from './pieces.js'
import type { TokenReport } from '../engine/mailbox.js'

/** `logprobs` of this route: lists beside each other. `offset` is where the first token's text lies. */
export function completionLogprobs (tokens: readonly TokenReport[], offset = 0): object | null {
  if (tokens.length === 0) return null
  let at = offset
  const offsets = tokens.map(({ text }) => {
    const from = at
    at += text.length
    return from
  })
  return {
    tokens: tokens.map(({ text }) => text),
    token_logprobs: tokens.map(({ logprob }) => logprob),
    top_logprobs: tokens.map(({ top }) =>
      Object.fromEntries(top.map(({ text, logprob }) => [text, logprob]))),
    text_offset: offsets
  }
}

/** The chunks of a stream. */
export class CompletionFormatter implements Formatter {
  readonly #facts: Facts
  readonly #includeUsage: boolean
  /** Characters so far, by choice. */
  readonly #offsets = new Map<number, number>()
  #last: object | null = null

  constructor (facts: Facts, includeUsage: boolean) {
    this.#facts = facts
    this.#includeUsage = includeUsage
  }

  begin (): object[] { return [] }

  piece (piece: TextPiece | EndPiece): object[] {
    if (piece.kind === 'end') {
      const before = this.#last
      this.#last = this.#choice(piece.index, '', null, piece.finish)
      return before === null ? [] : [before]
    }
    const { index, content, tokens } = piece
    const offset = this.#offsets.get(index) ?? 0
    this.#offsets.set(index, offset + tokens.reduce((sum, { text }) => sum + text.length, 0))
    return [this.#choice(index, content, completionLogprobs(tokens, offset))]
  }

  end (totals: Totals): object[] {
    const usage = usageOf(totals)
    if (this.#includeUsage) {
      return [...this.#last === null ? [] : [this.#last], { ...this.#chunk([]), usage }]
    }
    return this.#last === null ? [] : [{ ...this.#last, usage }]
  }

  #choice (index: number, text: string, logprobs: object | null, finish: string | null = null): object {
    return this.#chunk([{ text, index, logprobs, finish_reason: finish }])
  }

  #chunk (choices: object[]): object {
    const { id, created, model } = this.#facts
    return {
      id, object: 'text_completion', created, model, choices, ...this.#includeUsage ? { usage: null } : {}
    }
  }
}

/** The whole answer. */
export function textCompletion (answer: Collector, { id, created, model }: Facts): object {
  const choices = answer.choices.map(({ index, content, tokens, finish }) =>
    ({ text: content, index, logprobs: completionLogprobs(tokens), finish_reason: finish }))
  return { id, object: 'text_completion', created, model, choices, usage: usageOf(answer.totals) }
}
