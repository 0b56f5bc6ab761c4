/** Reads the answers of programs. Pure. */
import type { AnswerChunk, Finish } from '../../runners/language/chunks.js'
import { fieldsOf, listOf, numberOf, textOf, type Fields } from '../../runners/language/json.js'
import type { StopFinder } from '../../runners/language/stop.js'
import {
  chatReader, endOf, newsOf, type AnswerReader, type ReaderFactory
} from '../../runners/openai/answer.js'

/** Newer programs write `reasoning` for `reasoning_content`. */
export const programChatReader: ReaderFactory = (...of) => {
  const inner = chatReader(...of)
  return {
    ...inner,
    read: (event) => inner.read({
      ...event,
      choices: listOf(event['choices']).map((choice) => {
        const { reasoning, ...delta } = fieldsOf(choice['delta'])
        const thoughts = reasoning == null ? {} : { reasoning_content: reasoning }
        return { ...choice, delta: { ...thoughts, ...delta } }
      })
    })
  }
}

/** Reads an answer from `/v1/completions`. */
export const completionReader: ReaderFactory = (index, tops) => {
  let finish: Finish | null = null
  let usage: Fields = {}
  return {
    read (event) {
      usage = { ...usage, ...fieldsOf(event['usage']) }
      const [choice = {}] = listOf(event['choices'])
      const why = textOf(choice['finish_reason'])
      if (why !== '') finish = why === 'length' ? 'length' : 'stop'
      return newsOf(index, { text: textOf(choice['text']) },
        legacyReports(fieldsOf(choice['logprobs']), tops))
    },
    end: (peakBytes) => finish === null ? null
      : endOf({ index, text: '' }, { finish, stop: null, usage, timings: {}, peakBytes })
  }
}

/** Log probabilities of the completions API: parallel lists of tokens, numbers, and maps of alternatives. */
function legacyReports (
  { tokens, token_logprobs: numbers, top_logprobs: alternatives }: Fields, tops: number
): Parameters<typeof newsOf>[2] {
  const named = (token: string, logprob: unknown) =>
    ({ token, logprob: numberOf(logprob) ?? null, bytes: null })
  return (Array.isArray(tokens) ? tokens : []).map((token, i) => ({
    ...named(textOf(token), (numbers as unknown[] | undefined)?.[i]),
    top_logprobs: Object.entries(listOf(alternatives)[i] ?? {}).slice(0, tops)
      .map(([other, logprob]) => named(other, logprob))
  }))
}

/** Proof that the model works: text, or an end that follows generated tokens. */
export const isProof = (event: Fields): boolean => listOf(event['choices']).some((choice) => {
  const { content, reasoning, reasoning_content: thoughts } = fieldsOf(choice['delta'])
  return [content, reasoning, thoughts, choice['text'], choice['finish_reason']]
    .some((one) => textOf(one) !== '')
})

/**
 * Cuts an answer at its stop texts, for programs that do not. Usage of an answer that was cut is counted by
 * its events, since the program reports it only at the end.
 */
export function withStops (
  inner: AnswerReader, index: number, finder: StopFinder, promptTokens: number
): AnswerReader & { readonly stopped: boolean } {
  let written = 0
  const cut = (chunk: AnswerChunk): AnswerChunk => ({
    ...chunk,
    choices: chunk.choices.map(({ delta, text, ...choice }) => {
      const { content, ...rest } = delta ?? {}
      const own = finder.push((content ?? '') + (text ?? '')).text
      return {
        ...choice,
        ...text !== undefined ? { text: own } : { delta: { ...rest, ...own === '' ? {} : { content: own } } }
      }
    })
  })
  return {
    get stopped () { return finder.found !== null },
    read (event) {
      if (isProof(event)) written++
      return inner.read(event).map(cut)
    },
    end (peakBytes) {
      if (finder.found !== null) {
        const usage = { prompt_tokens: promptTokens, completion_tokens: written }
        return endOf({ index, delta: {} },
          { finish: 'stop', stop: finder.found, usage, timings: {}, peakBytes })
      }
      const last = inner.end(peakBytes)
      const rest = finder.end()
      return last === null || rest === '' ? last : {
        ...last, choices: last.choices.map((choice) =>
          ({ ...choice, ...choice.text === undefined ? { delta: { content: rest } } : { text: rest } }))
      }
    }
  }
}
