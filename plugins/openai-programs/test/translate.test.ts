import { readFileSync } from 'node:fs'
import t from 'tap'
import type { EngineError } from '../../../kernel/api/engine.js'
import { fieldsOf, listOf, parsed, type Fields } from '../../runners/language/json.js'
import { StopFinder } from '../../runners/language/stop.js'
import { BUNDLED, GENERIC } from '../descriptions.js'
import type { Description } from '../schema.js'
import { completionReader, isProof, programChatReader, withStops } from '../engine/answer.js'
import { programError } from '../engine/index.js'
import { bodyOf, copiesOf } from '../engine/request.js'

const ALL: Record<string, Description> = { ...BUNDLED, own: GENERIC }
const messages = [{ role: 'user', content: 'hi' }]
const schema = { type: 'object', required: ['a'] }
const tools = [{ type: 'function', function: { name: 'f' } }]

const ask = (name: string, payload: Fields, kind: 'chat' | 'completion' = 'chat') => bodyOf(kind,
  kind === 'chat' ? { messages, ...payload } : payload, name,
  { model: 'm', description: ALL[name]!, defaults: { top_k: 5 } })

/** The field that is refused; undefined if none is. */
function refused (name: string, payload: Fields, kind: 'chat' | 'completion' = 'chat'): string | undefined {
  try {
    ask(name, payload, kind)
    return undefined
  } catch (error) {
    return String(listOf((error as EngineError).details['issues'])[0]?.['path'])
  }
}

t.test('only svc sets models, adapters, templates, transfers and addresses', async (t) => {
  const part = (media: object) => ({ messages: [{ role: 'user', content: [{ type: 'x', ...media }] }] })
  const at = (name: string): string => `messages.0.content.0.${name}`
  const rows: [Fields, string | undefined][] = [
    ...['model', 'adapters', 'lora', 'draft_model', 'chat_template', 'kv_transfer_params', 'bootstrap_host']
      .flatMap((field): [Fields, string][] =>
        [[{ [field]: 'x' }, field], [{ extra_body: { [field]: 'x' } }, field]]),
    [part({ image_url: { url: 'http://10.0.0.1/a.png' } }), at('image_url')],
    [part({ image_url: 'file:///etc/passwd' }), at('image_url')],
    [part({ video_url: { url: 'https://a/b' } }), at('video_url')],
    [part({ audio_url: { url: '/x' } }), at('audio_url')],
    [part({ file: { file_id: 'f' } }), at('file')],
    [part({ image_url: { url: 'data:image/png;base64,AA' } }), undefined],
    [part({ input_audio: { data: 'AA', format: 'wav' } }), undefined],
    [{ grammar: 'root ::= "a"' }, 'grammar'], [{ model: null }, undefined]
  ]
  for (const name of Object.keys(ALL)) {
    for (const [payload, field] of rows) t.equal(refused(name, payload), field,
      `${name}: ${JSON.stringify(payload)}`)
  }
})

t.test('unknown fields that may name files, addresses or code do not pass', async (t) => {
  const never = ['image_data', 'vllm_xargs', 'documents', 'model_path', 'custom_logit_processor', 'priority',
    'ec_transfer_params', 'data_parallel_rank', 'lora_adapters']
  const given = Object.fromEntries([...never, 'min_tokens', 'toString'].map((name) => [name, 1]))
  const { body } = ask('vllm', { extra_body: given })
  t.match(body, { min_tokens: 1 })
  t.same(Object.keys(body).filter((name) => never.includes(name) || name.includes('native')), [])
})

t.test('names and forms', async (t) => {
  const rows: [string, Fields, Fields][] = [
    ['vllm', { repeat_penalty: 1.2 }, { repetition_penalty: 1.2 }],
    ['vllm', { repeat_penalty: 1.2, repetition_penalty: 1.1 }, { repetition_penalty: 1.1 }],
    ['vllm', { repeat_last_n: 8 }, { repeat_last_n: undefined }],
    ['mlx', { repeat_last_n: 8 }, { repetition_context_size: 8 }],
    ['sglang', { logit_bias: [[5, -1], [7, 2]] }, { logit_bias: { 5: -1, 7: 2 } }],
    ['vllm', { logit_bias: { 5: 1 } }, { logit_bias: { 5: 1 } }],
    ['vllm', { response_format: { type: 'json_schema', json_schema: { schema } } },
      { response_format: { type: 'json_schema', json_schema: { name: 'answer', schema } } }],
    ['vllm', { response_format: { type: 'json_schema',
      json_schema: { name: 'mine', schema, strict: true } } },
    { response_format: { json_schema: { name: 'mine', strict: true } } }],
    ['vllm', { json_schema: schema },
      { json_schema: undefined, response_format: { json_schema: { schema } } }],
    ['vllm', { response_format: { type: 'json_object' } }, { response_format: { type: 'json_object' } }],
    ['vllm', { logprobs: true, top_logprobs: 3 }, { logprobs: true, top_logprobs: 3 }],
    ['vllm', { stop: ['a'] }, { stop: ['a'] }], ['mlx', { stop: ['a'] }, { stop: undefined }],
    ['own', { extra_body: { unheard_of: 1 } }, { unheard_of: 1, extra_body: undefined }],
    ['own', { top_k: 2, n: 3, n_predict: 4 }, { top_k: 2, n: undefined, n_predict: undefined }],
    ['own', {}, { top_k: 5, model: 'm', stream: true, stream_options: { include_usage: true } }]
  ]
  for (const [name, payload, wanted] of rows) t.match(ask(name, payload).body, wanted,
    `${name} ${JSON.stringify(payload)}`)
  t.match(ask('vllm', { prompt: 'x', logprobs: true, top_logprobs: 2 }, 'completion').body,
    { prompt: 'x', logprobs: 2 })
  t.same(copiesOf(ask('vllm', { n: 2, seed: -1 })).map((body) => body['seed']), [2 ** 31 - 1, 0])
})

t.test('MLX ignores these, so svc refuses them', async (t) => {
  const rows: [Fields, string][] = [
    [{ response_format: { type: 'json_object' } }, 'response_format'],
    [{ json_schema: schema }, 'json_schema'],
    [{ extra_body: { structured_outputs: { regex: 'a' } } }, 'structured_outputs'],
    [{ tools, tool_choice: 'required' }, 'tool_choice'],
    [{ tools, tool_choice: { type: 'function', function: { name: 'f' } } }, 'tool_choice'],
    [{ logprobs: true }, 'logprobs']
  ]
  for (const [payload, field] of rows) {
    t.equal(refused('mlx', payload), field)
    t.equal(refused('vllm', payload), undefined)
  }
  t.equal(refused('mlx', { prompt: [1, 2] }, 'completion'), 'prompt')
  t.equal(refused('mlx', { tools }), undefined)
})

const recorded = parsed(readFileSync(new URL('fixtures/recorded.json', import.meta.url), 'utf8')) as
  Record<string, { status: number, body: string }>
const who = { modelId: 'a/b', name: 'it' }

t.test('errors of the real programs', async (t) => {
  const rows: [string, object][] = [
    ['vllm/42-too-long', { reason: 'context_length_exceeded',
      details: { prompt_tokens: 2049, context_length: 2048 } }],
    ['vllm/43-max-too-big', { reason: 'invalid_request', message: /max_tokens=100000/ }],
    ['vllm/49-bad-schema', { reason: 'invalid_request', message: /Grammar error/ }],
    ['vllm/50-image', { reason: 'invalid_request', message: /multimodal/ }],
    ['vllm/51-404', { reason: 'provider_error', message: /Not Found/ }],
    ['mlx/41-wrong-model', { reason: 'provider_error', message: /ConnectError|Got/ }],
    ['mlx/44-bad-temperature', { reason: 'invalid_request', message: /temperature must be/ }]
  ]
  for (const [name, wanted] of rows) {
    const { status, body } = recorded[name]!
    t.match(programError(parsed(body), who, status), wanted, name)
  }
  const inside = { error: { message: 'EngineCore encountered an issue.', code: 500 } }
  t.match(programError(inside, who), { name: 'BrokenAnswer' })
  t.match(programError({ error: 'Unauthorized' }, who, 401),
    { reason: 'provider_error', message: /Unauthorized/ })
  t.match(programError({ detail: [{ msg: 'x' }] }, who, 422), { reason: 'invalid_request', message: /msg/ })
})

const eventsIn = (name: string): Fields[] => recorded[name]!.body.split('\n')
  .filter((line) => line.startsWith('data: {')).map((line) => fieldsOf(parsed(line.slice('data: '.length))))

t.test('answers of the real programs', async (t) => {
  for (const name of ['vllm/12-chat-stream-usage', 'mlx/12-chat-stream-usage']) {
    const reader = programChatReader(0, 0)
    const chunks = eventsIn(name).flatMap((event) => reader.read(event))
    t.equal(chunks.map(({ choices: [one] }) => one?.delta?.content ?? '').join(''),
      'The planets in order from closest', name)
    t.match(reader.end(0),
      { choices: [{ finish_reason: 'length' }], usage: { prompt_tokens: 40, completion_tokens: 6 } })
    t.equal(eventsIn(name).findIndex(isProof), name.startsWith('vllm') ? 1 : 0, 'a role is no proof')
  }
  for (const name of ['vllm/31-completions-stream', 'mlx/31-completions-stream']) {
    const reader = completionReader(0, 0)
    t.ok(eventsIn(name).flatMap((event) => reader.read(event)).length > 1, name)
    t.ok(reader.end(0)?.choices[0]?.finish_reason, name)
  }
  const called = programChatReader(0, 0)
  const calls = eventsIn('vllm/25-tools-named-stream').flatMap((event) => called.read(event))
    .flatMap(({ choices }) => choices.flatMap(({ delta }) => delta?.tool_calls ?? []))
  t.equal(calls[0]?.function.name, 'get_weather')
  t.match(programChatReader(0, 0).read({ choices: [{ delta: { reasoning: 'hm' } }] }),
    [{ choices: [{ delta: { reasoning_content: 'hm' } }] }])
})

t.test('stop texts that a program does not honour', async (t) => {
  const reader = withStops(programChatReader(0, 0), 0, new StopFinder(['Venus']), 7)
  const say = (content: string) => reader.read({ choices: [{ delta: { content } }] })
    .map(({ choices: [one] }) => one?.delta?.content ?? '').join('')
  t.equal(['Mercury, ', 'Ve', 'nus, Earth'].map(say).join(''), 'Mercury, ')
  t.ok(reader.stopped)
  t.match(reader.end(0), {
    choices: [{ finish_reason: 'stop', stop_text: 'Venus' }],
    usage: { prompt_tokens: 7, completion_tokens: 3 }
  })
})
