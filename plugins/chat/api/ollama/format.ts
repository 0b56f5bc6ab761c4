/** Response formats for Ollama's clients. */
import { fieldsOf, parsed } from '../../../runners/language/json.js'
import { ollamaFailure } from '../../../staging/service.js'
import { Collector, type Totals, type CompleteChoice, type WholeCall } from '../pieces.js'
import type { TokenReport } from '../../../runners/language/chunks.js'
import type { AnswerFormat, AnswerMetadata, Formatter, Framing } from '../types.js'

/**
 * Newline-delimited JSON. It cannot carry comments as keep-alives, so a stream without output sends only its
 * headers.
 */
const framing: Framing = {
  contentType: 'application/x-ndjson',
  begin: () => '',
  value: (value) => `${JSON.stringify(value)}\n`,
  end: () => '',
  beat: '',
  failed: (error) => `${JSON.stringify(ollamaFailure(error))}\n`
}

type News = Pick<CompleteChoice, 'content' | 'reasoning' | 'calls' | 'tokens'>
/** Puts new content into the response field of the route: `message` or `response`. */
type Field = (news: News) => object

const NOTHING: News = { content: '', reasoning: '', calls: [], tokens: [] }

const chatField: Field = ({ content, reasoning: thinking, calls, tokens }) => ({
  message: {
    role: 'assistant', content,
    ...thinking === '' ? {} : { thinking },
    ...calls.length === 0 ? {} : { tool_calls: calls.map(callValue) }
  },
  ...logprobsOf(tokens)
})

const generateField: Field = ({ content, reasoning: thinking, tokens }) =>
  ({ response: content, ...thinking === '' ? {} : { thinking }, ...logprobsOf(tokens) })

const logprobsOf = (tokens: readonly TokenReport[]): object => tokens.length === 0 ? {} : { logprobs: tokens }

/** A tool call whose arguments were cut off gets `{}` as arguments. */
const callValue = ({ name, arguments: json }: WholeCall): object =>
  ({ function: { name, arguments: fieldsOf(parsed(json)) } })

const headOf = ({ model, created }: AnswerMetadata): object =>
  ({ model, created_at: new Date(created * 1000).toISOString() })

const NANOSECONDS = 1e9
const took = (tokens: number, rate: number): number => rate > 0 ? Math.round(tokens / rate * NANOSECONDS) : 0

function ending (facts: AnswerMetadata, totals: Totals, { finish }: CompleteChoice): object {
  const { promptTokens, completionTokens, cachedTokens, promptRate, generationRate } = totals
  return {
    done: true, done_reason: finish === 'length' ? 'length' : 'stop',
    total_duration: Math.round(facts.elapsedMs() * 1e6), load_duration: Math.round(facts.loadMs * 1e6),
    prompt_eval_count: promptTokens, prompt_eval_duration: took(promptTokens - cachedTokens, promptRate),
    eval_count: completionTokens, eval_duration: took(completionTokens, generationRate)
  }
}

/** The lines of a stream. Ollama's API has no tool call deltas, so a call is sent once it is complete. */
function linesFormatter (facts: AnswerMetadata, field: Field): Formatter {
  const answer = new Collector()
  return {
    begin: () => [],
    piece (piece) {
      answer.add(piece)
      const news = piece.kind === 'text' ? { ...piece, calls: [] } : { ...NOTHING, calls: answer.only.calls }
      const { content, reasoning, calls, tokens } = news
      if (content === '' && reasoning === '' && calls.length === 0 && tokens.length === 0) return []
      return [{ ...headOf(facts), ...field(news), done: false }]
    },
    end: (totals) => [{ ...headOf(facts), ...field(NOTHING), ...ending(facts, totals, answer.only) }]
  }
}

const answerFormat = (field: Field): AnswerFormat => ({
  framing,
  formatter: (facts) => linesFormatter(facts, field),
  whole: ({ only, totals }, facts) => ({ ...headOf(facts), ...field(only), ...ending(facts, totals, only) })
})

export const chatFormat = answerFormat(chatField)
export const generateFormat = answerFormat(generateField)
