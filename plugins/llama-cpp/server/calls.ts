/** Parses tool calls and reasoning in grammar-constrained answers, which the server returns as plain text. */
import type { AnswerChunk } from '../../runners/language/chunks.js'
import type { Fields } from '../../runners/language/json.js'
import { deltaOf, type OutputReader } from '../text/parse/output.js'
import type { AnswerReader } from './answer.js'

export class CallReader implements Pick<AnswerReader, 'read' | 'end'> {
  private readonly inner: AnswerReader
  private readonly output: OutputReader

  constructor (inner: AnswerReader, output: OutputReader) {
    ;[this.inner, this.output] = [inner, output]
  }

  read (event: Fields): AnswerChunk[] {
    return this.inner.read(event).map((chunk) => ({
      ...chunk,
      choices: chunk.choices.map(({ delta: { content = '', ...rest } = {}, text = '', ...choice }) =>
        ({ ...choice, delta: { ...rest, ...deltaOf(this.output.push(content + text)) } }))
    }))
  }

  end (peakBytes: number): AnswerChunk | null {
    const last = this.inner.end(peakBytes)
    const delta = deltaOf(this.output.end())
    if (last?.choices[0] === undefined) return last
    const { text: _, ...choice } = last.choices[0]
    const isCall = choice.finish_reason === 'stop' && this.output.calls > 0
    return { ...last, choices: [{ ...choice, delta, ...isCall ? { finish_reason: 'tool_calls' } : {} }] }
  }
}
