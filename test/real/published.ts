/** Checks answers of svc against the OpenAPI documents of the APIs. */
import { documents, type Published, type Publisher } from './documents.js'
import type { Exchange } from './recorder.js'

/** A field that a document does not name, and why svc adds it. `at` matches `PUBLISHER METHOD PATH FIELD`. */
export interface Extra { at: RegExp, why: string }

const MODEL_FIELDS = ['root', 'name', 'description', 'context_length', 'tags', 'tasks', 'family', 'audio',
  'storage_size_megabytes', 'supports_tensor', 'quantization', 'capabilities', 'resolved_capabilities',
  'available', 'broken_link', 'installed', 'ready', 'remedy', 'virtual']

export const EXTRAS: Extra[] = [
  { at: / (error\.(reason|retryable|requestId|details|param|code|remedy)|detail)$/,
    why: 'the fields of an error are the same in all APIs' },
  { at: new RegExp(`^openai GET /models\\S* 200 (data\\[\\]\\.)?(${MODEL_FIELDS.join('|')})$`),
    why: 'svc says what each model is and whether it is ready' },
  { at: /\.(message|delta)\.reasoning_content$/, why: 'where llama.cpp, vLLM and DeepSeek put reasoning' },
  { at: /^anthropic .*(diagnostics|usage\.speed)$/, why: 'newer than the document: the client requires it' },
  { at: /^anthropic .*\/count_tokens 200 context_management$/, why: 'of the beta, whose types require it' },
  { at: /cache_write_tokens$/, why: 'newer than the document: the client requires it' },
  { at: /^openai \w+ \/responses\S* 200 (response\.)?(store|\w+_penalty)$/,
    why: 'Open Responses requires it' },
  { at: /^open responses \S+ \/responses 200 name$/, why: 'OpenAI has the name in the last event of a call' },
  { at: /^open responses .*(output\[\]|item)\.status$/, why: 'OpenAI has the state of reasoning' },
  { at: /^open responses \S+ \/responses 200 (code|message|param)$/, why: 'OpenAI has them beside `error`' },
  { at: /^openai \S+ \/responses 200 error$/, why: 'Open Responses has the error in `error`' }
]

/** Answers that break a schema on purpose. */
export const DEVIATIONS: Extra[] = [
  { at: /^openai \S+ \/completions 200:  \/choices\[\]\/finish_reason/,
    why: 'the document has no schema for events, in which it is null before the end' },
  { at: /^openai \S+ \/completions 200:  \/usage/, why: 'null in events before the last' },
  { at: /^anthropic .* must have required property 'citations'$/,
    why: '@ai-sdk/anthropic refuses null, which the document requires where there are none' },
  { at: /^anthropic .*: ping /, why: 'only Anthropic\'s guide to streaming describes it' },
  { at: /^openai .*\/embeddings 200:  \/data\[\]\/embedding must be array/,
    why: 'the document omits base64, which its clients request' },
  { at: /^openai .*(safety_identifier|prompt_cache_key) must be string/,
    why: 'Open Responses requires null if it is not set' },
  { at: /^openai .*: response\.(created|in_progress) \/response\/usage/,
    why: 'Open Responses requires null before the end' },
  { at: /^open responses .*: response\.reasoning_text\.(delta|done)/, why: 'an event of OpenAI' },
  { at: /^open responses .* \/(response\/)?text\/format/,
    why: 'the document has no place for the schema that OpenAI repeats' }
]

export interface Checked {
  /** Answers and events that were checked. */
  values: number
  /** Deviations from the documents that the lists above do not contain, each with the body of a request. */
  broken: Map<string, string>
  /** The entries of the lists that were found. */
  found: Set<Extra>
}

/** The complete events of a stream; the last one may be cut off if the client left. */
function events (got: string): { event: string | undefined, data: string }[] {
  return got.split('\n\n').slice(0, -1).flatMap((block) => {
    const lines = block.split('\n')
    const of = (name: string): string | undefined =>
      lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2)
    const data = of('data')
    return data === undefined ? [] : [{ event: of('event'), data }]
  })
}

const DONE = '[DONE]'
const ERROR = '#/components/schemas/ErrorResponse'
/** Schemas of events that the documents do not mention at the route. */
const EVENTS: Record<string, string> = {
  'openai /completions': '#/components/schemas/CreateCompletionResponse',
  'anthropic /v1/messages': '#/components/schemas/MessageStreamEvent'
}

/** The documents that describe the answers at a path, with the path as they name it. */
function publishers ({ path, asked }: Exchange): [Publisher, string][] {
  const short = path.replace(/\?.*/, '').replace(/^\/ollama(?=\/v1\/)/, '')
  if (!short.startsWith('/v1/')) return []
  if (short.startsWith('/v1/messages') || asked?.['anthropic-version'] !== undefined) {
    return [['anthropic', short]]
  }
  const rest = short.slice('/v1'.length)
  return rest === '/responses' ? [['openai', rest], ['open responses', rest]] : [['openai', rest]]
}

type Value = string | { schema: string, value: unknown }

/** The values in an answer with the schemas that they have to match; a string says what is wrong. */
function valuesOf (
  published: Published, publisher: Publisher, path: string, exchange: Exchange
): Value[] {
  const { method, status = 0, headers, got } = exchange
  const schemas = published.answers(publisher, method, path)
  const type = headers?.['content-type']?.split(';')[0] ?? ''
  if (status >= 400) {
    return publisher === 'open responses' || (schemas === null && !got.startsWith('{'))
      ? []
      : [{ schema: ERROR, value: JSON.parse(got) }]
  }
  if (schemas === null) return []
  if (type === 'text/event-stream') {
    const schema = schemas[type] ?? EVENTS[`${publisher} ${path}`]
    if (schema === undefined) return [`${path} has no events`]
    const all = events(got)
    const isOpenAi = ['/chat/completions', '/completions'].includes(path)
    const last = all.at(-1)?.data ?? ''
    const ends = last === DONE || last.startsWith('{"error":')
    return [
      ...isOpenAi && exchange.ended === 'answered' && !ends ? ['the stream does not end with [DONE]'] : [],
      ...all.filter(({ data }) => data !== DONE).flatMap(({ event, data }): Value[] => {
        const value = JSON.parse(data) as { type?: string, error?: object }
        if (event !== undefined && event !== value.type) return [`the event ${event} has type ${value.type}`]
        return [{ schema: value.error === undefined || path === '/responses' ? schema : ERROR, value }]
      })
    ]
  }
  if (type !== 'application/json') {
    return type in schemas || 'application/octet-stream' in schemas || got === '' ? [] : [`type ${type}`]
  }
  // DELETE has no content there.
  if (Object.keys(schemas).length === 0) return []
  const schema = schemas[type]
  return schema === undefined ? ['no such content'] : [{ schema, value: JSON.parse(got) }]
}

/** Checks the answers; null if the documents are not available. */
export function check (exchanges: readonly Exchange[]): Checked | null {
  const published = documents()
  if (published === null) return null
  const checked: Checked = { values: 0, broken: new Map(), found: new Set() }
  const note = (line: string, list: readonly Extra[], sent: string): void => {
    const known = list.find(({ at }) => at.test(line))
    if (known !== undefined) checked.found.add(known)
    else if (!checked.broken.has(line)) checked.broken.set(line, sent)
  }
  for (const exchange of exchanges) {
    for (const [publisher, path] of publishers(exchange)) {
      const where = `${publisher} ${exchange.method} ${path} ${exchange.status}`
      for (const one of valuesOf(published, publisher, path, exchange)) {
        checked.values++
        if (typeof one === 'string') {
          note(`${where}: ${one}`, DEVIATIONS, exchange.sent)
          continue
        }
        const { schema, value } = one
        const kind = (value as { type?: string }).type ?? ''
        for (const fault of published.faults(publisher, schema, value)) {
          note(`${where}: ${kind} ${fault}`, DEVIATIONS, exchange.sent)
        }
        for (const extra of published.extras(publisher, [schema], value)) {
          note(`${where} ${extra}`, EXTRAS, exchange.sent)
        }
      }
    }
  }
  return checked
}
