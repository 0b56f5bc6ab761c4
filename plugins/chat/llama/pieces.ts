import type { SpanSink } from '../../../kernel/api/engine.js'
import { Steps } from '../engine/steps.js'
import type { Piece } from './answer.js'

/**
 * The spans of one traced answer, as its pieces arrive: a piece of text stands for a token. A server that
 * does not report when it takes up a prompt has no wait; it counts as work on the prompt then.
 */
export class PieceSteps {
  private readonly steps: Steps
  private promptTokens = 0
  private written = 0

  constructor (trace: SpanSink, index: number) { this.steps = new Steps(trace, index) }

  saw (piece: Piece): void {
    if (piece.kind === 'admitted') {
      if (this.promptTokens === 0) this.steps.started()
      this.promptTokens = piece.prompt_tokens
    } else if (piece.kind === 'delta') {
      this.steps.token(++this.written, this.promptTokens)
    } else {
      const { prompt_tokens: input, completion_tokens: output, cached_tokens: cached } = piece.usage
      this.steps.ended({ input_tokens: input, output_tokens: output, cached_tokens: cached })
    }
  }
}
