/** Calls that the model writes by our grammar, and the server takes for text. */
import { randomUUID } from 'node:crypto'
import type { AnswerChunk } from '../../runners/language/chunks.js'
import type { Fields } from '../../runners/language/json.js'
import { deltaOf, OutputReader } from '../text/parse/output.js'
import { ChatReader } from './answer.js'

/** An answer of `/v1/chat/completions` whose text is calls. */
export class CallReader extends ChatReader {
  private readonly output = new OutputReader({
    tools: 'hermes', reasoning: null, newId: () => `call_${randomUUID().replaceAll('-', '')}`
  })

  override read (event: Fields): AnswerChunk[] {
    return super.read(event).map((chunk) => ({
      ...chunk,
      choices: chunk.choices.map(({ delta = {}, ...choice }) => {
        const { content = '', ...rest } = delta
        return { ...choice, delta: { ...rest, ...deltaOf(this.output.push(content)) } }
      })
    }))
  }

  override end (peakBytes: number): AnswerChunk | null {
    const last = super.end(peakBytes)
    const delta = deltaOf(this.output.end())
    const [choice] = last?.choices ?? []
    if (last === null || choice === undefined) return last
    const isCall = choice.finish_reason === 'stop' && this.output.calls > 0
    return { ...last, choices: [{ ...choice, delta, ...isCall ? { finish_reason: 'tool_calls' } : {} }] }
  }
}
