import t from 'tap'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { loadText } from '../text/index.js'
import type { LoadedText } from '../text/index.js'
import type { ToolFormatName } from '../text/tool-formats.js'
import { MARKERS, OutputReader } from '../text/parse/output.js'
import { babble, byteLevelTokenizer, dice, modelFolder, PLAIN } from './text-kit.js'

const ajv = new Ajv2020({ strict: false })
const WEATHER = {
  type: 'object',
  properties: { city: { type: 'string', maxLength: 8 }, days: { type: 'integer', minimum: 1, maximum: 14 } },
  required: ['city', 'days'],
  additionalProperties: false
}
const tool = (name: string, parameters?: unknown, strict?: boolean): object =>
  ({ type: 'function', function: { name, ...(parameters === undefined ? {} : { parameters }),
    ...(strict === undefined ? {} : { strict }) } })
const tools = [tool('weather', WEATHER), tool('now')]

const TEMPLATES: Record<ToolFormatName, string> = { hermes: 'as <tool_call>', mistral: 'as [TOOL_CALLS]',
  llama: 'as JSON' }

async function model (format: ToolFormatName): Promise<LoadedText> {
  const text = await loadText(await modelFolder(`${t.testdirName}/${format}`, {
    'tokenizer.json': byteLevelTokenizer(), 'tokenizer_config.json': { eos_token: '<|end|>',
      chat_template: TEMPLATES[format] }
  }))
  t.equal(text.toolFormat, format)
  return text
}

interface Answer { content: string, calls: { name: string, arguments: string }[] }

/** What a client would see of random output under a grammar. */
function answer (text: LoadedText, choice: unknown, seed: number, maxTokens = 150): Answer {
  const { ids, ended } = babble(text, { grammar: { kind: 'tools', tools, choice }, maxTokens, temperature: 1,
    seed }, dice(seed), maxTokens)
  t.ok(ended)
  const stream = text.stream([], { markers: MARKERS })
  const reader = new OutputReader({ tools: text.toolFormat, newId: () => 'x' })
  const out: Answer = { content: '', calls: [] }
  for (const piece of [...ids.map((id) => reader.push(stream.push(id).text)), reader.push(stream.end().text),
    reader.end()]) {
    out.content += piece.content
    for (const d of piece.toolCalls) {
      if (d.name !== undefined) out.calls.push({ name: d.name, arguments: '' })
      out.calls[d.index]!.arguments += d.arguments ?? ''
    }
  }
  return out
}

function checkCalls (calls: Answer['calls']): void {
  for (const call of calls) {
    const value: unknown = JSON.parse(call.arguments)
    const valid = call.name === 'weather' ? ajv.validate(WEATHER, value) : call.name === 'now' &&
      typeof value === 'object'
    if (!valid) t.fail('arguments that do not fit', { call })
  }
}

t.test('required and named functions are called, with valid arguments', async (t) => {
  for (const format of ['hermes', 'mistral', 'llama'] as const) {
    const text = await model(format)
    for (let seed = 0; seed < 12; seed++) {
      const any = answer(text, 'required', seed)
      t.ok(any.calls.length >= 1, `${format} ${seed}: ${JSON.stringify(any)}`)
      t.equal(any.content, '')
      checkCalls(any.calls)
      const named = answer(text, { type: 'function', function: { name: 'weather' } }, seed)
      t.ok(named.calls.length >= 1 && named.calls.every((c) => c.name === 'weather'))
      checkCalls(named.calls)
    }
  }
})

t.test('auto: free text, and every call is valid', async (t) => {
  for (const format of ['hermes', 'mistral', 'llama'] as const) {
    const text = await model(format)
    let calls = 0
    for (let seed = 0; seed < 40; seed++) {
      const got = answer(text, 'auto', seed, 120)
      calls += got.calls.length
      checkCalls(got.calls)
    }
    if (format !== 'llama') t.ok(calls > 0, `${format} made ${calls} calls`)
  }
})

t.test('a marker that is a token of its own begins a call', async (t) => {
  const text = await model('mistral')
  const chooser = text.chooser({ ...PLAIN, grammar: { kind: 'tools', tools, choice: 'required' } })
  const best = (id: number): number => {
    const logits = new Float32Array(text.vocabularySize)
    logits[id] = 1
    return chooser.choose(logits).id
  }
  t.equal(best(3), 3)
  const bracket = text.encode('[', false)[0] as number
  t.equal(best(bracket), bracket)
  t.not(best(3), 3, 'not inside a call')
})

t.test('what is not strict falls back to any object, what is strict is refused', async (t) => {
  const text = await model('hermes')
  const use = (strict: boolean): unknown =>
    text.chooser({ ...PLAIN, grammar: { kind: 'tools',
      tools: [tool('a', { type: 'object', not: {} }, strict)], choice: 'auto' } })
  t.doesNotThrow(() => use(false))
  t.throws(() => use(true), { reason: 'invalid_request', message: /tools\/0\/function\/parameters\/not/ })
})

t.test('tool_choice', async (t) => {
  const text = await model('hermes')
  const use = (list: unknown[], choice: unknown): unknown =>
    text.chooser({ ...PLAIN, grammar: { kind: 'tools', tools: list, choice } })
  t.throws(() => use(tools, { type: 'function', function: { name: 'other' } }), /not among the tools/)
  t.throws(() => use([7], 'auto'), { reason: 'invalid_request', message: /./ })
  t.throws(() => use([{ type: 'function', function: {} }], 'auto'), /name/)
  t.throws(() => use(tools, { type: 'function' }), { reason: 'invalid_request', message: /tool_choice/ })
  t.doesNotThrow(() => use(tools, 'none'))
})
