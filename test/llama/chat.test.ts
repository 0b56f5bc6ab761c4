/**
 * Conversations with a real llama-server, with real chat templates and a real vocabulary. The models generate
 * a scripted answer in the call format of the template's model family.
 */
import t from 'tap'
import { ask, chunksOf, structured } from '../../plugins/llama-cpp/test/llama-kit.js'
import { loaded, generatedModel, skipGenerated, template, type Real } from './kit.js'

type Payload = Record<string, unknown>

const messages = [
  { role: 'system', content: 'Be brief.' }, { role: 'user', content: 'Is it raining in Oslo?' }
]
const tool = (name: string, field: string): Payload => ({
  type: 'function',
  function: { name, description: `Looks up ${field}`, parameters: {
    type: 'object', additionalProperties: false, required: [field],
    properties: { [field]: { type: 'string' } }
  } }
})
const tools = [tool('weather', 'city'), tool('clock', 'zone')]

type Answer = Awaited<ReturnType<typeof ask>>

function readOf (answer: Answer): { content: string, reasoning: string, calls: [unknown, unknown][] } {
  const { thought, calls } = structured(answer)
  return {
    content: answer.text, reasoning: thought,
    calls: calls.map(({ name, input }) => [name, JSON.parse(input)])
  }
}

const chat = async ({ session }: Real, more: Payload = {}) =>
  await ask(session, 'chat', { messages, max_tokens: 200, temperature: 0, ...more })

/** Pieces of a tagged function call; no piece is a token of the original vocabulary. */
const TAGGED = ['<tool_call>', '\n{"name": "clock",', ' "arguments": {"zone":', ' "utc"}}', '\n</tool_call>']

/** Function calls in the format of each known template. */
const CALLS: Record<string, string[]> = {
  'Qwen-Qwen2.5-7B-Instruct': TAGGED,
  'Qwen-Qwen3-0.6B': TAGGED,
  'Qwen3-Coder': ['<tool_call>', '\n<function=clock>', '\n<parameter=zone>', '\nutc',
    '\n</parameter>\n</function>', '\n</tool_call>'],
  'meta-llama-Llama-3.2-3B-Instruct': ['{"name": "clock",', ' "parameters": {"zone":', ' "utc"}}'],
  'NousResearch-Hermes-3-Llama-3.1-8B-tool_use': TAGGED,
  'mistralai-Mistral-Nemo-Instruct-2407': ['[TOOL_CALLS]', '[{"name": "clock",', ' "arguments": {"zone":',
    ' "utc"},', ' "id": "abcdefghi"}]'],
  'ibm-granite-granite-4.0': TAGGED,
  'HuggingFaceTB-SmolLM3-3B': TAGGED,
  'LFM2-8B-A1B': ['<|tool_call_start|>', '[clock(zone="', 'utc")]', '<|tool_call_end|>']
}

for (const [name, script] of Object.entries(CALLS)) {
  t.test(`${name}: calls`, { skip: skipGenerated }, async (t) => {
    const real = await loaded(t, generatedModel(t, { template: template(name), script }))
    // Required calls are generated in the Hermes format, whatever the template.
    const required = { required: 'required', one: { type: 'function', function: { name: 'clock' } } }
    const choices = { auto: 'auto', ...script === TAGGED ? required : {} }
    for (const [what, choice] of Object.entries(choices)) {
      const answer = await chat(real, { tools, tool_choice: choice })
      t.same(readOf(answer), { content: '', reasoning: '', calls: [['clock', { zone: 'utc' }]] }, what)
      t.match(answer.done,
        { finish_reason: 'tool_calls', usage: { completion_tokens: script.length + 1 } }, what)
    }
    const id = 'call_0123456789abcdef'
    const called = { id, type: 'function', function: { name: 'clock', arguments: '{"zone":"utc"}' } }
    const more = [
      ...messages, { role: 'assistant', content: null, tool_calls: [called] },
      { role: 'tool', tool_call_id: id, content: '{"time":"noon"}' }
    ]
    const { done } = await chat(real, { messages: more, tools })
    t.match(done, { finish_reason: String }, 'the result is read')
    const [plain, told] = await Promise.all([messages, more].map(async (each) =>
      (await chunksOf(real.session, 'tokenize', { messages: each, tools }))[0]?.payload['count'] as number))
    t.ok(told! > plain!, 'and stands in the prompt')
  })

  t.test(`${name}: words`, { skip: skipGenerated }, async (t) => {
    const said = ['It is', ' dry in', ' Oslo, and', ' in Rome.']
    const real = await loaded(t, generatedModel(t, { template: template(name), script: said }))
    const { pieces, text, done } = await chat(real, { logprobs: true, top_logprobs: 2 })
    t.equal(text, said.join(''))
    t.match(done, { finish_reason: 'stop', usage: { completion_tokens: said.length + 1 } })
    const [counted] = await chunksOf(real.session, 'tokenize', { messages, add_special_tokens: false })
    const { count } = counted?.payload ?? {}
    t.same(pieces[0], { choices: [], usage: { prompt_tokens: count } })
    const told = pieces.flatMap(({ choices }) => choices.flatMap(({ logprobs }) => logprobs?.content ?? []))
    t.same(told.map(({ token }) => token).slice(0, said.length), said, 'each token is reported')
    for (const choice of ['auto', 'none']) {
      const answer = await chat(real, { tools, tool_choice: choice })
      t.same(readOf(answer), { content: said.join(''), reasoning: '', calls: [] }, `tools: ${choice}`)
    }
    t.match(await chat(real, { max_tokens: 2 }), { text: 'It is dry in', done: { finish_reason: 'length' } })
    const stopped = { text: 'It is dry in Oslo', done: { finish_reason: 'stop' } }
    t.match(await chat(real, { stop: [', and'] }), stopped)
  })
}

t.test('reasoning', { skip: skipGenerated }, async (t) => {
  const script = ['<think>', '\nHm, rain', ' or not?\n', '</think>', '\n\nNo, it', ' is dry.']
  const real = await loaded(t, generatedModel(t, { template: template('Qwen-Qwen3-0.6B'), script }))
  const { reasoning, content } = readOf(await chat(real))
  t.same([reasoning, content], ['Hm, rain or not?', 'No, it is dry.'])
  t.equal(readOf(await chat(real, { max_tokens: 2 })).reasoning, 'Hm, rain', 'cut in the middle')
})

const held = (schema: object): Payload => ({ type: 'json_schema', json_schema: { schema } })

t.test('a schema', { skip: skipGenerated }, async (t) => {
  const schema = {
    type: 'object', additionalProperties: false, required: ['rain'], properties: { rain: { type: 'boolean' } }
  }
  const script = ['{"rain": tr', 'ue }']
  const real = await loaded(t, generatedModel(t, { template: template('Qwen-Qwen2.5-7B-Instruct'), script }))
  for (const response_format of [held(schema), { type: 'json_object' }]) {
    const { text } = await chat(real, { response_format })
    t.same(JSON.parse(text), { rain: true }, text)
  }
  const wrong = chat(real, { response_format: held({ type: 'nothing' }) })
  await t.rejects(wrong, { message: /type must be equal to one of/ })
})

t.test('a schema constrains a model that would answer differently', { skip: skipGenerated }, async (t) => {
  const schema = {
    type: 'object', additionalProperties: false, required: ['rain'], properties: { rain: { enum: [true] } }
  }
  const made = { template: template('Qwen-Qwen2.5-7B-Instruct'), script: ['Well, it', ' is dry.'] }
  const real = await loaded(t, generatedModel(t, made))
  t.match((await chat(real, {})).text, /^Well/)
  t.same(JSON.parse((await chat(real, { response_format: held(schema) })).text), { rain: true })
})

t.test('a call whose first token is already wrong', { skip: skipGenerated }, async (t) => {
  // After the opening token the server constrains the model to a valid call.
  const script = ['<tool_call>', '\n{"name": "nope",', ' "arguments": {"zone":', ' "utc"}}', '\n</tool_call>']
  const real = await loaded(t, generatedModel(t, { template: template('Qwen-Qwen3-0.6B'), script }))
  const error = await chat(real, { tools })
    .catch((thrown: unknown) => thrown)
  t.match(error, { reason: 'tool_call_unreadable', message: /empty grammar stack/ })
  const said = await chat(real, { tools, tool_choice: 'none' })
  t.match(said.text, /nope/, 'and answers the next')
})

t.test('a text that begins like a call', { skip: skipGenerated }, async (t) => {
  const made = { template: template('meta-llama-Llama-3.2-3B-Instruct'), script: ['{"rain":', ' tru', 'e }'] }
  const real = await loaded(t, generatedModel(t, made))
  const error = await chat(real, { tools })
    .catch((thrown: unknown) => thrown)
  t.match(error, { reason: 'tool_call_unreadable', message: /does not match the expected/ })
  t.equal((await chat(real, {})).text, '{"rain": true }', 'and answers the next, which has no tools')
})
