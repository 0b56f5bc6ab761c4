/** Converts events from llama.cpp's own routes, and its constrained text, to chunks. Pure. */
import { fieldsOf, textOf, type Fields } from '../../runners/language/json.js'
import {
  admittedOf, endOf, newsOf, reportsOf, type AnswerReader, type ReaderFactory
} from '../../runners/openai/answer.js'
import type { OutputReader } from '../text/parse/output.js'

/** Reads an answer from `/completion`. */
export const completionReader: ReaderFactory = (index, tops) => {
  let last: Fields | null = null
  return {
    read (event) {
      if (event['stop'] === true) last = event
      const tokens = reportsOf(event['completion_probabilities'], tops)
      return [...admittedOf(event), ...newsOf(index, { text: textOf(event['content']) }, tokens)]
    },
    end (peakBytes) {
      if (last === null) return null
      const { stop_type: type, stopped_limit: limited, truncated } = last
      const cut = type === 'limit' || limited === true || truncated === true
      const usage = { prompt_tokens: last['tokens_evaluated'], completion_tokens: last['tokens_predicted'] }
      return endOf({ index, text: '' }, {
        finish: cut ? 'length' : 'stop', stop: textOf(last['stopping_word']) || null, usage,
        timings: fieldsOf(last['timings']), peakBytes
      })
    }
  }
}

/** Parses tool calls and reasoning in grammar-constrained answers, which the server returns as text. */
export const withCalls = (inner: AnswerReader, output: OutputReader): AnswerReader => ({
  read: (event) => inner.read(event).map((chunk) => ({
    ...chunk,
    choices: chunk.choices.map(({ delta: { content = '', ...rest } = {}, text = '', ...choice }) =>
      ({ ...choice, delta: { ...rest, ...output.push(content + text) } }))
  })),
  end (peakBytes) {
    const last = inner.end(peakBytes)
    const delta = output.end()
    if (last?.choices[0] === undefined) return last
    const { text: _, ...choice } = last.choices[0]
    const isCall = choice.finish_reason === 'stop' && output.calls > 0
    return { ...last, choices: [{ ...choice, delta, ...isCall ? { finish_reason: 'tool_calls' } : {} }] }
  }
})
