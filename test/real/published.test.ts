/**
 * Answers to requests of many shapes against the OpenAPI documents that OpenAI, Anthropic and Open Responses
 * publish: those of a node with real models, and those of the chat plugin with scripted engines.
 * `npm run test:real -- published`.
 */
import { readdirSync, readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { kernelError } from '../../kernel/index.js'
import {
  answering, call, calling, delta, done, MODEL, news, startChat, type Open
} from '../../plugins/chat/test/api-kit.js'
import { startNode } from '../node/kit.js'
import { documents } from './documents.js'
import { DEVIATIONS, EXTRAS, check } from './published.js'
import { recorder, type Exchange } from './recorder.js'
import { folderOf, ggufOf, withoutWeights } from './weights.js'
import { pullAndPlace } from './weights-kit.js'
import type { IncomingHttpHeaders } from 'node:http'

const skip = documents() === null && 'needs PyPI for the published documents'
const ANTHROPIC = { 'anthropic-version': '2023-06-01' }
const [CHAT, TEXT, EMBED, RESPONSES, MESSAGES] =
  ['/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/responses', '/v1/messages']
const all: Exchange[] = []

/** The answers to all of these must be in the documents. */
function conforms (t: Test, exchanges: Exchange[], atLeast: number): void {
  const { values, broken } = check(exchanges)!
  t.ok(values >= atLeast, `${values} answers and events`)
  t.strictSame([...broken].map(([line, sent]) => `${line}, for ${sent.slice(0, 300)}`), [])
  all.push(...exchanges)
}

type Method = 'GET' | 'POST' | 'DELETE'
interface Row {
  path: string, body?: object, method?: Method, status?: number, headers?: object, raw?: string
}

const weather = { type: 'object', required: ['city'], properties: { city: { enum: ['Oslo', 'Rome'] } },
  additionalProperties: false }
const functions = [{ type: 'function', function: { name: 'weather', parameters: weather } }]
const flat = [{ type: 'function', name: 'weather', parameters: weather, strict: true }]
const tools = [{ name: 'weather', input_schema: weather }]
const format = { type: 'json_schema', json_schema: { name: 'x', strict: true, schema: weather } }

const SMOL = 'acme/smol'
const EMBEDDER = 'acme/minilm'
const messages = [{ role: 'user', content: 'What is the weather in Rome?' }]
const long = [{ role: 'user', content: 'word '.repeat(4000) }]
const chat = { model: SMOL, messages, max_tokens: 8 }
const text = { model: SMOL, prompt: 'The capital of France is', max_tokens: 4 }
const response = { model: SMOL, input: 'Hi', max_output_tokens: 8 }

/** Bodies that are requested whole and as a stream. */
const BOTH: [path: string, body: object][] = [
  [CHAT, chat], [CHAT, { ...chat, model: 'svc/guide' }], [CHAT, { ...chat, n: 2 }],
  [CHAT, { ...chat, model: 'svc/steward', max_tokens: 60 }],
  [CHAT, { ...chat, stop: ['e'], seed: 1, user: 'x', metadata: { a: 'b' }, store: false }],
  [CHAT, { ...chat, logprobs: true, top_logprobs: 2 }],
  [CHAT, { ...chat, response_format: format, max_tokens: 40 }],
  [CHAT, { ...chat, response_format: { type: 'json_object' }, max_tokens: 20 }],
  [CHAT, { ...chat, tools: functions }], [CHAT, { ...chat, tools: functions, tool_choice: 'none' }],
  [CHAT, { ...chat, tools: functions, tool_choice: 'required', max_tokens: 40 }],
  [CHAT, { ...chat, max_tokens: 40, tools: functions,
    tool_choice: { type: 'function', function: { name: 'weather' } } }],
  [TEXT, text], [TEXT, { ...text, prompt: ['One', 'Two'], n: 2 }], [TEXT, { ...text, logprobs: 1 }],
  [TEXT, { ...text, echo: true }],
  [RESPONSES, response], [RESPONSES, { ...response, instructions: 'Be brief.', metadata: { a: 'b' } }],
  [RESPONSES, { ...response, tools: flat, tool_choice: 'required', max_output_tokens: 40 }],
  [RESPONSES, { ...response, tools: flat, tool_choice: { type: 'function', name: 'weather' },
    max_output_tokens: 40, temperature: 0, top_p: 1, parallel_tool_calls: false }],
  [RESPONSES, { ...response, max_output_tokens: 40,
    text: { format: { type: 'json_schema', name: 'x', strict: true, schema: weather } } }],
  [RESPONSES, { ...response, reasoning: { effort: 'low' }, store: false }],
  [MESSAGES, chat], [MESSAGES, { ...chat, system: 'Be brief.', stop_sequences: ['e'] }],
  [MESSAGES, { ...chat, tools, max_tokens: 40, tool_choice: { type: 'any' } }],
  [MESSAGES, { ...chat, tools, max_tokens: 40, tool_choice: { type: 'tool', name: 'weather' } }]
]
const ROWS: Row[] = [
  ...BOTH.flatMap(([path, body]) => [{ path, body }, { path, body: { ...body, stream: true } }]),
  { path: CHAT, body: { ...chat, stream: true, stream_options: { include_usage: true } } },
  { path: TEXT, body: { ...text, stream: true, stream_options: { include_usage: true } } },
  { path: '/ollama/v1/chat/completions', body: chat },
  { path: EMBED, body: { model: EMBEDDER, input: 'One' } },
  { path: EMBED, body: { model: EMBEDDER, input: ['One', 'Two'], encoding_format: 'base64' } },
  { path: EMBED, body: { model: EMBEDDER, input: [[101, 2028, 102]] } },
  { path: '/v1/models', method: 'GET' }, { path: '/v1/models', method: 'GET', headers: ANTHROPIC },
  { path: '/v1/models?limit=1', method: 'GET', headers: ANTHROPIC },
  { path: `/v1/models/${SMOL}`, method: 'GET' },
  { path: `/v1/models/${SMOL}`, method: 'GET', headers: ANTHROPIC },
  { path: '/v1/models/acme%2Fnone', method: 'GET', status: 404 },
  { path: '/v1/models/acme%2Fnone', method: 'GET', status: 404, headers: ANTHROPIC },
  { path: `${RESPONSES}/input_tokens`, body: { model: SMOL, input: 'Hi', tools: flat } },
  { path: `${RESPONSES}/resp_none`, method: 'GET', status: 404 },
  { path: `${MESSAGES}/count_tokens`, body: { model: SMOL, messages, tools }, headers: ANTHROPIC },
  { path: '/v1/audio/speech', body: { model: 'svc/voice-en', input: 'One.', stream_format: 'sse' } },
  ...[CHAT, MESSAGES].flatMap((path): Row[] => [
    { path, body: { ...chat, temperature: 9 }, status: 400 },
    { path, body: { ...chat, model: 'acme/none' }, status: 404 },
    { path, body: { ...chat, model: EMBEDDER }, status: 400 },
    { path, body: { ...chat, messages: long }, status: 400 },
    { path, body: { ...chat, messages: long, stream: true }, status: 400 },
    { path, body: { ...chat, messages: undefined }, status: 400 },
    { path, raw: '{"model":', status: 400 },
    { path, raw: 'model=x', headers: { 'content-type': 'application/x-www-form-urlencoded' }, status: 415 },
    { path, method: 'DELETE', status: 405 }
  ]),
  { path: CHAT, body: { ...chat, functions: [{ name: 'f' }] }, status: 400 },
  { path: TEXT, body: { ...text, suffix: 'x' }, status: 400 },
  { path: EMBED, body: { model: SMOL, input: 'One' }, status: 400 },
  { path: EMBED, body: { model: EMBEDDER, input: 'word '.repeat(900) }, status: 400 },
  { path: RESPONSES, body: { ...response, background: true }, status: 400 },
  { path: RESPONSES, body: { ...response, previous_response_id: 'resp_none' }, status: 400 }
]

const withoutModels = skip || withoutWeights(['smollm2', 'minilm'])

t.test('a node with real models', { skip: withoutModels, timeout: 600_000 }, async (t) => {
  const node = await startNode(t, {
    config: {
      cluster: { discovery: false }, plugins: { runners: { threads: 1 } },
      model_store: { hub: { enabled: false } }
    },
    env: { PATH: '/usr/bin:/bin' }
  })
  await pullAndPlace(t, node, ggufOf('smollm2'), SMOL, ['--ctx', '2048'])
  await pullAndPlace(t, node, folderOf('minilm'), EMBEDDER)
  const { url, exchanges } = await recorder(t, node)
  const send = async ({ path, body, raw, method = 'POST', headers }: Row): Promise<Response> => {
    const sent = raw ?? (body === undefined ? null : JSON.stringify(body))
    return await fetch(`${url}${path}`, { method, body: sent, headers: {
      ...sent === null ? {} : { 'content-type': 'application/json' },
      ...path.startsWith(MESSAGES) ? ANTHROPIC : {}, ...headers
    } })
  }
  for (const row of ROWS) {
    const answer = await send(row)
    const got = await answer.text()
    t.equal(answer.status, row.status ?? 200, `${row.path} ${JSON.stringify(row.body)}: ${got.slice(0, 300)}`)
  }
  conforms(t, exchanges, 300)
})

interface Case { post?: string, body: object, engine?: unknown }
const folder = new URL('../../plugins/chat/test/cases/', import.meta.url)

/** An engine that fails after its first words. */
const failing: Open = async function * () {
  yield delta('Hello')
  throw kernelError('instance_lost', 'The runner is gone.')
}
const parallel = answering(call('f', '{"a": 1}', 0, 'one'), news({
  tool_calls: [{ index: 1, id: 'two', function: { name: 'f', arguments: '{}' } }]
}), done('tool_calls'))
const ENGINES: Open[] = [calling(), failing, parallel, answering(delta('Hi'), done('length'))]
const SCRIPTED: [path: string, body: object][] = [
  [CHAT, { messages, tools: functions }], [TEXT, { prompt: 'Hi' }], [RESPONSES, { input: 'Hi', tools: flat }],
  [MESSAGES, { messages, tools, max_tokens: 9 }]
]

t.test('the chat plugin with scripted engines', { skip, timeout: 600_000 }, async (t) => {
  const cases = readdirSync(folder).flatMap((file) =>
    JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as Case[])
  const rows: [Open | undefined, string, object][] = [
    ...cases.filter(({ engine, post }) => engine === undefined && post !== undefined)
      .map(({ post, body }): [undefined, string, object] => [undefined, post!, body]),
    ...ENGINES.flatMap((open) => SCRIPTED.map(([path, body]): [Open, string, object] => [open, path, body]))
  ]
  const exchanges: Exchange[] = []
  for (const [open, path, body] of rows) {
    const { post } = await startChat(t, open === undefined ? {} : { open })
    for (const stream of [false, true]) {
      const sent = { model: MODEL, ...body, stream }
      const answer = await post(path, sent)
      exchanges.push({ method: 'POST', path, asked: {}, sent: JSON.stringify(sent), status: answer.statusCode,
        headers: answer.headers as IncomingHttpHeaders, got: answer.body, ended: 'answered' })
    }
  }
  conforms(t, exchanges, 190)
})

t.test('every listed deviation is seen, and every fault is', { skip }, (t) => {
  const { found } = check(all)!
  for (const list of [EXTRAS, DEVIATIONS]) {
    for (const one of list) t.ok(found.has(one), `${one.at} is no longer needed`)
  }
  const published = documents()!
  const model = { id: 'x', object: 'model', created: 1, owned_by: 'x' }
  const faults = (value: object): string[] => published.faults('openai', '#/components/schemas/Model', value)
  t.strictSame(faults(model), [])
  t.match(faults({ ...model, created: '1' }), [/created must be integer/])
  t.match(faults({ ...model, object: 'x' }), [/object must be equal to one of/])
  t.match(faults({ ...model, id: undefined, owned_by: undefined }), [/^\/id/, /^\/owned_by/])
  t.strictSame(published.extras('openai', ['#/components/schemas/ListModelsResponse'],
    { object: 'list', data: [{ ...model, more: 1 }], other: 1 }), ['data[].more', 'other'])
  t.end()
})
