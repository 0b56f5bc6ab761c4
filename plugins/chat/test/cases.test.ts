/** Runs `cases/*.json`: requests with the resulting tasks or refusals, and engine chunks with the answers. */
import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { kernelError, SvcError, type EngineChunk } from '../../../kernel/index.js'
import { fromAnthropic } from '../api/anthropic.js'
import { embeddingTask } from '../api/embeddings.js'
import { fromOllamaChat, fromOllamaGenerate, fromOllamaRaw } from '../api/ollama/chat.js'
import { chatTask, completionTask } from '../api/request-to-task.js'
import { fromResponses } from '../api/responses.js'
import {
  answering, call, calling, delta, done, hello, MODEL, news, png, startChat, values, type Open
} from './api-kit.js'

/** A request to one API, and either the resulting task or chat request or the field that is refused. */
interface Request {
  api: string
  /** Request fields, in addition to the API's required ones. */
  request: object
  /** A subset of the task's fields. */
  gives?: object
  /** All fields of the task apart from the messages. */
  only?: object
  /** All messages of the task. */
  messages?: object[]
  mostCalls?: number
  refused?: string
  says?: string
}

/** Engine chunks and the answer to a request. */
interface Answer {
  name: string
  engine?: unknown[] | 'calling'
  post: string
  body: object
  json?: object
  /** All values in the event stream. */
  events?: object[]
  /** All lines in a JSON lines stream. */
  lines?: object[]
  text?: string
  task?: object
}

/** Cases; "/…/" stands for a pattern, "<Number>" and "<String>" for types, and "<png>" for an image. */
const folder = new URL('cases/', import.meta.url)
const cases = readdirSync(folder).flatMap((file) =>
  JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as (Request | Answer)[])

const NAMED: Readonly<Record<string, unknown>> =
  { '<Number>': Number, '<String>': String, '<absent>': undefined, '<Infinity>': Infinity }
const PNG = png(2, 1)

/** Replaces the placeholders in a test case's value. */
function meant (value: unknown): unknown {
  if (Array.isArray(value)) return value.map(meant)
  if (value !== null && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, meant(one)]))
  }
  if (typeof value !== 'string') return value
  const pattern = /^\/(.+)\/(\w*)$/s.exec(value)
  if (pattern !== null) return new RegExp(pattern[1]!, pattern[2])
  return value in NAMED ? NAMED[value] : value.replaceAll('<png>', PNG)
}

const rules = {
  limits: {
    max_messages: 4, max_stops: 2, max_answers: 2, max_inputs: 4, max_tools: 2, schema_kib: 1, schema_depth: 5
  },
  aliases: { 'gpt-4o': MODEL }, readsImages: (modelId: string) => modelId === 'a/eyes'
}
const generate = { model: MODEL, prompt: 'Hi' }
const APIS: Readonly<Record<string, (more: object) => object>> = {
  chat: (more) => chatTask({ ...hello, ...more }, rules),
  completions: (more) => completionTask({ model: MODEL, prompt: 'A', ...more }, rules),
  messages: (more) => fromAnthropic({ ...hello, max_tokens: 50, ...more } as never, rules),
  responses: (more) => fromResponses({ model: MODEL, input: 'Hi', ...more }, rules),
  ollamaChat: (more) => fromOllamaChat({ ...hello, ...more } as never, rules),
  ollamaGenerate: (more) => fromOllamaGenerate({ ...generate, ...more }, rules),
  ollamaRaw: (more) => fromOllamaRaw({ ...generate, raw: true, ...more }),
  embeddings: (more) => embeddingTask({ model: MODEL, input: '', ...more } as never, rules)
}

t.test('requests', (t) => {
  for (const one of cases) {
    if (!('api' in one)) continue
    const { gives, only, messages, mostCalls, refused, says } = one
    const title = `${one.api} ${JSON.stringify(one.request)}`
    try {
      const made = APIS[one.api]!(meant(one.request) as object)
      t.equal(refused, undefined, title)
      if (gives !== undefined) t.match(made, meant(gives) as object, title)
      const { task, reading } = made as { task?: { payload: Record<string, unknown> }, reading?: object }
      const { messages: given, ...rest } = task?.payload ?? {}
      if (messages !== undefined) t.same(given, meant(messages), title)
      if (only !== undefined) t.same(rest, meant(only), title)
      if (mostCalls !== undefined) t.same(reading, { mostCalls: meant(mostCalls) }, title)
    } catch (error) {
      if (!(error instanceof SvcError) || error.reason !== 'invalid_request') throw error
      t.equal(error.param, refused, title)
      if (says !== undefined) t.match(error.message, meant(says) as RegExp, title)
    }
  }
  t.end()
})

/** Expands the short forms of engine chunks in a case. */
const chunksOf = (given: unknown[]): EngineChunk[] => given.map((one) => {
  if (typeof one === 'string') return delta(one)
  const { say, call: made, done: ended, payload, ...more } = one as Record<string, unknown[]>
  if (say !== undefined) return delta(...say as Parameters<typeof delta>)
  if (made !== undefined) return call(...made as Parameters<typeof call>)
  if (ended !== undefined) return done(...ended as Parameters<typeof done>)
  return payload !== undefined ? { payload: payload as unknown as EngineChunk['payload'] } : news(more)
})

function engineOf (given: Answer['engine']): { open?: Open } {
  if (given === undefined) return {}
  if (given === 'calling') return { open: calling() }
  const last = given.at(-1) as { fails?: string } | undefined
  if (last?.fails === undefined) return { open: answering(...chunksOf(given)) }
  const before = answering(...chunksOf(given.slice(0, -1)))
  return { open: async function * (...asked) {
    yield * before(...asked)
    throw kernelError(last.fails as 'instance_lost', 'The instance was lost.')
  } }
}

for (const one of cases) {
  if (!('post' in one)) continue
  t.test(`${one.post}: ${one.name}`, async (t) => {
    const { post, asked } = await startChat(t, engineOf(one.engine))
    const { body, ...answer } = await post(one.post, { model: MODEL, ...one.body })
    const lists = { events: () => values(body), lines: () => body.trim().split('\n').map(parsed) }
    if (one.json !== undefined) t.match(answer.json(), meant(one.json) as object)
    for (const [key, read] of Object.entries(lists) as [keyof typeof lists, () => unknown[]][]) {
      const expected = one[key]
      if (expected === undefined) continue
      const found = read()
      t.match(found, meant(expected) as object[])
      t.equal(found.length, expected.length, key)
    }
    if (one.text !== undefined) t.match(body, meant(one.text) as RegExp)
    if (one.task !== undefined) t.match(asked.tasks.at(-1), meant(one.task) as object)
  })
}

const parsed = (line: string): unknown => JSON.parse(line) as unknown
