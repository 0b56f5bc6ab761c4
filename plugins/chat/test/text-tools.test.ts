/** Calls under a grammar, in every format of tool calls. */
import t from 'tap'
import { Ajv2020 } from 'ajv/dist/2020.js'
import type { LoadedText } from '../text/index.js'
import { MARKERS } from '../text/parse/output.js'
import type { GrammarRequest, Thoughts } from '../text/types.js'
import { KNOWN, modelWith, read, type Call, type Whole } from './text-format-kit.js'
import { babble, dice, PLAIN } from './text-kit.js'

const ajv = new Ajv2020({ strict: false })
const WEATHER = {
  type: 'object',
  properties: {
    city: { type: 'string', maxLength: 8 }, days: { type: 'integer', minimum: 1, maximum: 14 },
    unit: { enum: ['C', 'F'] }, more: { type: 'object', properties: { a: { type: ['boolean', 'null'] } } }
  },
  required: ['city', 'days'],
  additionalProperties: false
}
const tool = (name: string, parameters?: unknown, strict?: boolean): object =>
  ({ type: 'function', function: { name, ...(parameters === undefined ? {} : { parameters }),
    ...(strict === undefined ? {} : { strict }) } })
const tools = [tool('weather', WEATHER), tool('now')]
const NAMED = { type: 'function', function: { name: 'weather' } }

const models = new Map<string, Promise<LoadedText>>()
async function model (family: string): Promise<LoadedText> {
  const known = models.get(family) ?? modelWith(`${t.testdirName}/${family}`, KNOWN[family]!.template)
  models.set(family, known)
  return await known
}

/** What a client would see of random output under a grammar. */
async function answer (
  family: string, grammar: Partial<GrammarRequest & { kind: 'tools' }>, seed: number,
  { maxTokens = 250, thoughts = 'over' as Thoughts } = {}
): Promise<Whole> {
  const text = await model(family)
  const request = { kind: 'tools', tools, choice: 'auto', ...grammar } as GrammarRequest
  const { ids, ended } = babble(text, { grammar: request, maxTokens, temperature: 1, seed, thoughts },
    dice(seed), maxTokens)
  if (!ended) t.fail(`${family} ${seed} did not end`)
  const stream = text.stream([], { markers: MARKERS })
  const parts = [...ids.map((id) => stream.push(id).text), stream.end().text]
  return read(parts, { tools: text.toolFormat, reasoning: text.reasoning,
    startsInReasoning: thoughts === 'inside',
    parameters: (name) => name === 'weather' ? WEATHER : undefined })
}

function checkCalls (family: string, calls: readonly Call[]): void {
  for (const call of calls) {
    const value: unknown = JSON.parse(call.arguments)
    const valid = call.name === 'weather' ? ajv.validate(WEATHER, value) : call.name === 'now' &&
      typeof value === 'object'
    if (!valid) t.fail('arguments that do not fit', { family, call })
  }
}

const SEEDS = process.env['SVC_TEST_FULL'] === '1' ? 200 : 2

t.test('required and named functions are called, with valid arguments', async (t) => {
  for (const family of Object.keys(KNOWN)) {
    for (let seed = 0; seed < SEEDS; seed++) {
      const any = await answer(family, { choice: 'required' }, seed)
      if (any.calls.length === 0 || any.content !== '') t.fail(`${family} ${seed}`, { any })
      checkCalls(family, any.calls)
      const named = await answer(family, { choice: NAMED }, seed)
      const [first] = named.calls
      if (named.calls.length !== 1 || first?.name !== 'weather') t.fail(`${family} ${seed}`, { named })
      checkCalls(family, named.calls)
    }
  }
})

t.test('auto: free text, and every call is valid', async (t) => {
  for (const family of Object.keys(KNOWN)) {
    for (let seed = 0; seed < SEEDS; seed++) checkCalls(family, (await answer(family, {}, seed)).calls)
  }
})

t.test('with a shape for the answer: one or the other', async (t) => {
  const schema = { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] }
  const shape = { answer: { kind: 'schema', schema } as const }
  let [answers, calls] = [0, 0]
  for (const family of Object.keys(KNOWN)) {
    for (let seed = 0; seed < SEEDS; seed++) {
      const got = await answer(family, shape, seed)
      checkCalls(family, got.calls)
      if (got.calls.length > 0) calls++
      else if (ajv.validate(schema, JSON.parse(got.content))) answers++
      else t.fail(`${family} ${seed}`, { got })
      const must = await answer(family, { ...shape, choice: 'required' }, seed)
      if (must.calls.length === 0 || must.content !== '') t.fail(`${family} ${seed}`, { must })
      const none = await answer(family, { ...shape, choice: 'none' }, seed)
      if (none.calls.length > 0 || !ajv.validate(schema, JSON.parse(none.content))) t.fail(family, { none })
    }
  }
  t.ok(answers > 0 && calls > 0, `${answers} answers, ${calls} calls`)
})

t.test('a model that reasons does so first, and the grammar holds behind', async (t) => {
  const shape = { answer: { kind: 'json' } as const }
  let reasoned = 0
  for (const family of ['qwen3', 'glm', 'granite', 'gpt_oss', 'deepseek_r1']) {
    for (let seed = 0; seed < SEEDS; seed++) {
      for (const thoughts of ['may', 'inside'] as const) {
        if (thoughts === 'inside' && family === 'gpt_oss') continue
        const must = await answer(family, { choice: 'required' }, seed, { thoughts })
        if (must.calls.length === 0 || must.content !== '') t.fail(`${family} ${seed} ${thoughts}`, { must })
        checkCalls(family, must.calls)
        const shaped = await answer(family, { ...shape, choice: 'none' }, seed, { thoughts })
        t.type(JSON.parse(shaped.content), 'object')
        if (must.reasoning + shaped.reasoning !== '') reasoned++
      }
    }
  }
  t.ok(reasoned > 0, `${reasoned} times`)
})

t.test('a marker that is a token of its own begins a call', async (t) => {
  const text = await model('mistral_nemo')
  const [marker, bracket] = ['[TOOL_CALLS]', '['].map((each) => text.encode(each, false)[0] as number)
  const chooser = text.chooser({ ...PLAIN, grammar: { kind: 'tools', tools, choice: 'required' } })
  const best = (id: number): number => {
    const logits = new Float32Array(text.vocabularySize)
    logits[id] = 1
    return chooser.choose(logits).id
  }
  t.equal(best(marker!), marker)
  t.equal(best(bracket!), bracket)
  t.not(best(marker!), marker, 'not inside a call')
})

t.test('free text ends where calls begin, by their first marker alone', async (t) => {
  const text = await model('deepseek_r1')
  const chosen = (marker: string): boolean => {
    const chooser = text.chooser({ ...PLAIN, grammar: { kind: 'tools', tools, choice: 'auto' } })
    const id = text.encode(marker, false)[0] as number
    const logits = new Float32Array(text.vocabularySize)
    logits[id] = 1
    return chooser.choose(logits).id === id
  }
  t.notOk(chosen('<｜tool▁call▁begin｜>'), 'it would open a call that no rule holds')
  t.ok(chosen('<｜tool▁calls▁begin｜>'))
})

t.test('the channels of gpt-oss under a grammar: reasoning, then what was asked for', async (t) => {
  const text = await model('gpt_oss')
  const takes = (grammar: GrammarRequest, written: string): boolean => {
    const chooser = text.chooser({ ...PLAIN, grammar })
    return [...text.encode(written, false), [...text.eosIds][0]!].every((id) => {
      const logits = new Float32Array(text.vocabularySize)
      logits[id] = 1
      return chooser.choose(logits).id === id
    })
  }
  const thought = '<|channel|>analysis<|message|>Hm, to=functions.now?<|end|><|start|>assistant'
  const header = '<|channel|>commentary to=functions.weather <|constrain|>json<|message|>'
  const calls = { kind: 'tools', tools, choice: 'required' } as const
  const given = '{"city": "Rome", "days": 3}'
  t.ok(takes(calls, `${thought}${header}${given}`))
  t.ok(takes(calls, `${header}${given}`))
  t.ok(takes(calls, ` to=functions.weather<|channel|>commentary json<|message|>${given}`),
    'as the template has it')
  t.notOk(takes(calls, `${header}{"city": 3}`))
  t.notOk(takes(calls, '<|channel|>final<|message|>No.'))
  t.ok(takes({ ...calls, choice: 'auto' }, `${thought}<|channel|>final<|message|>No.`))
  const words = '<|channel|>commentary<|message|>I look.<|end|><|start|>assistant'
  t.ok(takes({ ...calls, choice: 'auto' }, `${words}${header}${given}`), 'words before a call')
  const schema = { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] }
  t.ok(takes({ kind: 'schema', schema }, `${thought}<|channel|>final<|message|>{"ok": true}`))
  t.notOk(takes({ kind: 'schema', schema }, `${thought}<|channel|>final<|message|>true`))
})

t.test('what is not strict is enforced as far as it can be, what is strict is refused', async (t) => {
  const text = await model('qwen3')
  const use = (strict: boolean): unknown =>
    text.chooser({ ...PLAIN, grammar: { kind: 'tools',
      tools: [tool('a', { type: 'object', properties: { x: { type: 'array', uniqueItems: true } } }, strict)],
      choice: 'auto' } })
  t.doesNotThrow(() => use(false))
  t.throws(() => use(true),
    { reason: 'invalid_request', message: /tools\/0\/function\/parameters\/properties\/x\/uniqueItems/ })
})

t.test('tool_choice', async (t) => {
  const text = await model('qwen3')
  const use = (list: unknown[], choice: unknown): unknown =>
    text.chooser({ ...PLAIN, grammar: { kind: 'tools', tools: list, choice } })
  t.throws(() => use(tools, { type: 'function', function: { name: 'other' } }), /not among the tools/)
  t.throws(() => use([7], 'auto'), { reason: 'invalid_request', message: /./ })
  t.throws(() => use([{ type: 'function', function: {} }], 'auto'), /name/)
  t.throws(() => use(tools, { type: 'function' }), { reason: 'invalid_request', message: /tool_choice/ })
  t.doesNotThrow(() => use(tools, 'none'))
})
