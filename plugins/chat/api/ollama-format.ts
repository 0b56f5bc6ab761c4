/** Answers of Ollama's API: lines of JSON. Pure. */
import { argumentsOf } from './anthropic-format.js'
import { ollamaFailure } from './errors.js'
import { Collector } from './pieces.js'
import type { ModelCard } from '../../../kernel/index.js'
import type { AnswerFormat, Facts, Framing, Formatter } from './answer.js'
import type { EndPiece, TextPiece, Totals, Whole, WholeCall } from './pieces.js'

/**
 * One value on a line. Lines have no comments, and clients read every one of them: an open stream without
 * news is its head only.
 */
const framing: Framing = {
  contentType: 'application/x-ndjson',
  begin: () => '',
  value: (value) => `${JSON.stringify(value)}\n`,
  end: () => '',
  beat: '',
  failed: (error) => `${JSON.stringify(ollamaFailure(error))}\n`
}

/** What is new of an answer. */
interface Said { content: string, thinking: string, calls: object[] }
/** Where a route puts it. */
type Field = (said: Said) => object

/** POST /ollama/api/chat. */
const chatField: Field = ({ content, thinking, calls }) => ({
  message: {
    role: 'assistant', content,
    ...thinking === '' ? {} : { thinking },
    ...calls.length === 0 ? {} : { tool_calls: calls }
  }
})

/** POST /ollama/api/generate. */
const generateField: Field = ({ content, thinking }) =>
  ({ response: content, ...thinking === '' ? {} : { thinking } })

const headOf = ({ model, created }: Facts): object =>
  ({ model, created_at: new Date(created * 1000).toISOString() })
const callValue = ({ name, arguments: text }: WholeCall): object =>
  ({ function: { name, arguments: argumentsOf(text) } })

const NANOSECONDS = 1e9
const took = (tokens: number, rate: number): number => rate > 0 ? Math.round(tokens / rate * NANOSECONDS) : 0

function ending (facts: Facts, totals: Totals, choice: Whole | undefined): object {
  const { promptTokens, completionTokens, cachedTokens, promptRate, generationRate } = totals
  return {
    done: true,
    done_reason: choice?.finish === 'length' ? 'length' : 'stop',
    total_duration: Math.round(facts.elapsedMs() * 1e6),
    load_duration: 0,
    prompt_eval_count: promptTokens,
    prompt_eval_duration: took(promptTokens - cachedTokens, promptRate),
    eval_count: completionTokens,
    eval_duration: took(completionTokens, generationRate)
  }
}

/** The lines of a stream. A call comes when it is complete: this API has no pieces of them. */
class LinesFormatter implements Formatter {
  readonly #facts: Facts
  readonly #field: Field
  readonly #answer = new Collector()

  constructor (facts: Facts, field: Field) {
    this.#facts = facts
    this.#field = field
  }

  begin (): object[] { return [] }

  piece (piece: TextPiece | EndPiece): object[] {
    this.#answer.add(piece)
    if (piece.kind === 'text') return this.#line(piece.content, piece.reasoning, [])
    return this.#line('', '', this.#answer.choices[0]?.calls ?? [])
  }

  end (totals: Totals): object[] {
    const nothing = this.#field({ content: '', thinking: '', calls: [] })
    return [{ ...headOf(this.#facts), ...nothing, ...ending(this.#facts, totals, this.#answer.choices[0]) }]
  }

  #line (content: string, thinking: string, calls: WholeCall[]): object[] {
    if (content === '' && thinking === '' && calls.length === 0) return []
    const said = { content, thinking, calls: calls.map(callValue) }
    return [{ ...headOf(this.#facts), ...this.#field(said), done: false }]
  }
}

/** The whole answer. */
function wholeLine (answer: Collector, facts: Facts, field: Field): object {
  const [choice] = answer.choices
  const { content = '', reasoning: thinking = '', calls = [] } = choice ?? {}
  const said = field({ content, thinking, calls: calls.map(callValue) })
  return { ...headOf(facts), ...said, ...ending(facts, answer.totals, choice) }
}

const formatOf = (field: Field): AnswerFormat => ({
  framing,
  formatter: (facts) => new LinesFormatter(facts, field),
  whole: (answer, facts) => wholeLine(answer, facts, field)
})

/** The formats of POST /ollama/api/chat and POST /ollama/api/generate. */
export const [ollamaChatFormat, ollamaGenerateFormat] = [formatOf(chatField), formatOf(generateField)]

/** Cards name no time; clients want one. */
const NO_TIME = '1970-01-01T00:00:00Z'

const detailsOf = ({ family, quantization }: ModelCard): object => ({
  parent_model: '', format: 'onnx', family, families: [family], parameter_size: '',
  quantization_level: quantization ?? ''
})

/** A model as GET /ollama/api/tags and /ps list it. */
export function listedModel (card: ModelCard): Record<string, unknown> {
  const { modelId, totalBytes: size, revision: digest } = card
  return { name: modelId, model: modelId, size, digest, modified_at: NO_TIME, details: detailsOf(card) }
}

/** A model as POST /ollama/api/show answers it. */
export function shownModel (card: ModelCard): object {
  const { family, contextLength, licence, support, hiddenSize, nLayers } = card
  const tools = support['tools']
  const canCall = tools !== undefined && !tools.startsWith('no effect')
  const task = card.tasks.includes('embeddings') ? 'embedding' : 'completion'
  return {
    license: licence, modelfile: '', parameters: '', template: '', modified_at: NO_TIME,
    details: detailsOf(card),
    model_info: {
      'general.architecture': family, [`${family}.context_length`]: contextLength,
      [`${family}.embedding_length`]: hiddenSize, [`${family}.block_count`]: nLayers
    },
    capabilities: canCall ? [task, 'tools'] : [task]
  }
}
