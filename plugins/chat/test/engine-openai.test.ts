/** The protocol of language models around the sessions of the ONNX engine. */
import t from 'tap'
import { OpenAiSession } from '../engine/openai.js'
import type { EngineSession } from '../../../kernel/api/engine.js'
import type { AnswerChunk } from '../chunks.js'
import type { Delta } from '../engine/pieces.js'
import type { LoadedText } from '../text/types.js'

type Payload = Record<string, unknown>
type Text = Pick<LoadedText, 'toolFormat' | 'reasoning'>

const never = new AbortController().signal
const messages = [{ role: 'user', content: 'hi' }]
const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }]

/** A session around one that writes these texts, and what that one was asked. */
function around (
  texts: string[], { toolFormat = 'hermes', reasoning = 'think' }: Partial<Text> = {}
): { run: (payload: Payload, kind?: string) => Promise<AnswerChunk[]>, asked: Payload[] } {
  const asked: Payload[] = []
  const inner = {
    async * run ({ payload }) {
      asked.push(payload)
      yield { payload: { kind: 'admitted', prompt_tokens: 4, in_reasoning: false } }
      const tokens = [{ id: 7, text: 'ä', logprob: -0.5, top: [{ id: 7, text: 'ä', logprob: -0.5 }] }]
      for (const text of texts) {
        const delta: Delta = { kind: 'delta', index: 0, text, ...text === 'ä' ? { tokens } : {} }
        yield { payload: { ...delta } }
      }
      yield { payload: {
        kind: 'done', index: 0, finish_reason: 'stop', stop_text: null,
        usage: { prompt_tokens: 4, completion_tokens: 3, cached_tokens: 1 },
        stats: { prompt_tps: 5, generation_tps: null, peak_memory_bytes: 6 }
      } }
    }
  } as Pick<EngineSession, 'run'> as EngineSession
  const session = new OpenAiSession(inner, { toolFormat, reasoning })
  const run = async (payload: Payload, kind = 'chat'): Promise<AnswerChunk[]> => {
    const chunks: AnswerChunk[] = []
    for await (const chunk of session.run({ kind, payload }, never)) {
      chunks.push(chunk.payload as unknown as AnswerChunk)
    }
    return chunks
  }
  return { run, asked }
}

const END = {
  usage: { prompt_tokens: 4, completion_tokens: 3, prompt_tokens_details: { cached_tokens: 1 } },
  timings: { prompt_per_second: 5, predicted_per_second: null, peak_memory_bytes: 6 }
}

t.test('marked text becomes reasoning, content and calls', async (t) => {
  const text = '<think>Hm.</think>So:<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
  const { run } = around([...text])
  const chunks = await run({ messages, tools })
  t.same(chunks[0], { choices: [], usage: { prompt_tokens: 4 } })
  const deltas = chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta ?? {}))
  t.equal(deltas.map(({ reasoning_content: said = '' }) => said).join(''), 'Hm.')
  t.equal(deltas.map(({ content = '' }) => content).join(''), 'So:')
  const calls = deltas.flatMap(({ tool_calls: made = [] }) => made)
  t.match(calls[0], { index: 0, id: /^call_[0-9a-f]{32}$/, function: { name: 'f' } })
  t.equal(calls.map((call) => call.function.arguments ?? '').join(''), '{"a": 1}')
  t.same(chunks.at(-1),
    { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls', stop_text: null }], ...END })
  const plain = await around([text]).run({ prompt: 'x' }, 'completion')
  t.same(plain.slice(1), [
    { choices: [{ index: 0, text }] },
    { choices: [{ index: 0, text: '', finish_reason: 'stop', stop_text: null }], ...END }
  ], 'but not of a completion')
})

t.test('log probabilities are in OpenAI\'s form', async (t) => {
  const one = { token: 'ä', logprob: -0.5, bytes: [195, 164] }
  t.same((await around(['ä']).run({ messages }))[1]?.choices[0]?.logprobs,
    { content: [{ ...one, top_logprobs: [one] }] })
})

t.test('requests in the fields of the session inside', async (t) => {
  const { run, asked } = around([])
  const schema = { type: 'object' }
  const held = { type: 'json_schema', json_schema: { schema, strict: true } }
  const rows: [Payload, Payload, Payload?][] = [
    [{}, {}],
    [{ temperature: 0, seed: 3, logit_bias: { 5: 1 }, logprobs: true, top_logprobs: 2 },
      { temperature: 0, seed: 3, logit_bias: { 5: 1 }, logprobs: true, top_logprobs: 2 }],
    [{ max_tokens: 5, n: 2, stop: ['x'] }, {}, { max_tokens: 5, n: 2, stop: ['x'] }],
    [{ chat_template_kwargs: { a: 1 } }, {}, { template_variables: { a: 1 } }],
    [{ response_format: { type: 'json_object' } }, { grammar: { kind: 'json' } }],
    [{ response_format: held }, { grammar: { kind: 'schema', schema, strict: true } }],
    [{ tools, response_format: held },
      { grammar: { kind: 'tools', tools, choice: 'auto', answer: { kind: 'schema', schema, strict: true } } },
      { tools }],
    [{ tools, tool_choice: 'required' }, { grammar: { kind: 'tools', tools, choice: 'required' } }, { tools }]
  ]
  for (const [payload, params, more = {}] of rows) {
    await run({ messages, ...payload })
    const { markers, ...rest } = asked.at(-1)!
    t.same(rest, { messages, ...more, params })
    t.ok((markers as string[]).includes('<think>'))
  }
})

t.test('what is left out with a warning, and what is refused', async (t) => {
  const { run, asked } = around(['Hi'], { toolFormat: null })
  const [warned] = await run({ messages, tools, mirostat: 2 })
  t.match(warned, { choices: [], warnings: [/engine: mirostat$/, /^tools: not offered/] })
  t.notOk('tools' in asked[0]! || 'grammar' in (asked[0]!['params'] as object))
  t.same((await run({ messages, tools, tool_choice: 'none' }))[0]?.warnings, undefined)
  for (const [payload, path] of [
    [{ tools, tool_choice: 'required' }, 'tool_choice'],
    [{ tools, tool_choice: { type: 'function', function: { name: 'f' } } }, 'tool_choice'],
    [{ grammar: 'root ::= "a"' }, 'grammar']
  ] as const) {
    const refusal = { reason: 'invalid_request', details: { issues: [{ path }] } }
    await t.rejects(run({ messages, ...payload }), refusal as never)
  }
})
