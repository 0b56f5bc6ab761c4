import t from 'tap'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { GrammarFactory } from '../text/grammar/factory.js'
import { loadText } from '../text/index.js'
import type { LoadedText } from '../text/index.js'
import { tokenTable } from '../text/tokens.js'
import { babble, byteLevelTokenizer, dice, modelFolder, pieceTokenizer } from './text-kit.js'
import type { Dice } from './text-kit.js'

/** More with SVC_TEST_FULL. */
const SEEDS = process.env['SVC_TEST_FULL'] === '1' ? 3000 : 150

type Schema = Record<string, unknown>
const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: false })

let loaded: Promise<LoadedText[]> | null = null
const models = (): Promise<LoadedText[]> => loaded ??= loadModels(t.testdir())

async function loadModels (root: string): Promise<LoadedText[]> {
  const letters = byteLevelTokenizer(60)
  return await Promise.all([
    loadText(await modelFolder(`${root}/bytes`,
      { 'tokenizer.json': byteLevelTokenizer(), 'tokenizer_config.json': { eos_token: '<|end|>' } })),
    loadText(await modelFolder(`${root}/pieces`,
      { 'tokenizer.json': pieceTokenizer(), 'tokenizer_config.json': { eos_token: '</s>' } })),
    // A vocabulary without bytes outside ASCII, as small models trained on English text have it.
    loadText(await modelFolder(`${root}/ascii`,
      { 'tokenizer.json': withoutHighBytes(letters), 'tokenizer_config.json': { eos_token: '<|end|>' } }))
  ])
}

function withoutHighBytes (tokenizer: Schema): Schema {
  const model = tokenizer['model'] as Schema
  const vocab = Object.entries(model['vocab'] as Record<string, number>).filter(([token]) =>
    /^[!-~ĠĊ]+$/.test(token) || token === 'Ã©')
  return { ...tokenizer, model: { ...model, vocab: Object.fromEntries(vocab), merges: [] } }
}

const NAMES = ['a', 'b', 'name', 'näme', 'x"y', 'list', '日本']
const PATTERNS = ['^[a-z]{2,4}$', '^\\d+-\\d$', 'ab|c$', '^(foo|bar)?x*$', '[^"\\\\]{3}', 'é+', '^.{2,3}$',
  '\\w\\s\\w', '^\\u0041[\\x41-\\x5a]*$', '^"q"$', '^[😀-😂]?$']

function scalar (d: Dice): Schema {
  const low = d.below(2000) / 10 ** d.below(4) - 50
  return d.of<() => Schema>([
    () => ({ type: 'string' }),
    () => ({ type: 'string', minLength: d.below(4), maxLength: 4 + d.below(5) }),
    () => ({ type: 'string', minLength: 3 }),
    () => ({ type: 'string', pattern: d.of(PATTERNS) }),
    () => ({ type: 'string', pattern: '^[a-cé]*$', minLength: 2, maxLength: 5 }),
    () => ({ type: 'integer' }),
    () => ({ type: 'number' }),
    () => ({ type: 'integer', minimum: Math.ceil(low), maximum: Math.ceil(low) + d.below(300) }),
    () => ({ type: 'number', minimum: low, exclusiveMaximum: low + 0.001 + d.below(100) }),
    () => ({ type: 'number', exclusiveMinimum: low }),
    () => ({ type: 'integer', multipleOf: 1 + d.below(30), minimum: -d.below(1000) }),
    () => ({ type: 'integer', maximum: -7 }),
    () => ({ type: ['boolean', 'null'] }),
    () => ({ enum: ['x', 'xy', 1, 12, -1.5, null, true, { k: [1, 'é'] }, []].slice(d.below(5)) }),
    () => ({ const: d.of<unknown>(['only', 0, 'ünï"cödé', { a: 1 }]) }),
    () => ({ type: 'string', nullable: true, maxLength: 3 })
  ])()
}

function composite (d: Dice, depth: number): Schema {
  const inner = (): Schema => schema(d, depth - 1)
  const object = (): Schema => {
    const names = NAMES.filter(() => d.below(2) === 0)
    return {
      type: 'object',
      properties: Object.fromEntries(names.map((n) => [n, inner()])),
      required: names.filter(() => d.below(2) === 0),
      ...d.of<Schema>([{}, { additionalProperties: false }, { additionalProperties: true },
        { additionalProperties: scalar(d) }])
    }
  }
  return d.of<() => Schema>([
    object,
    object,
    () => ({ type: 'object', additionalProperties: inner(), minProperties: 1, maxProperties: 3 }),
    () => ({ type: 'object', properties: { a: inner(), b: inner(), list: inner() }, minProperties: 2,
      maxProperties: 2 }),
    () => ({ type: 'array', items: inner(), minItems: d.below(3), maxItems: 2 + d.below(3) }),
    () => ({ type: 'array', items: inner() }),
    () => ({ type: 'array', prefixItems: [inner(), inner()], items: d.of<unknown>([false, inner()]),
      minItems: d.below(3) }),
    () => ({ anyOf: [inner(), inner(), scalar(d)] }),
    () => ({ oneOf: [{ type: 'string' }, { type: 'array', items: inner() }, { type: 'null' }] }),
    () => ({ oneOf: ['p', 'q'].map((kind) => ({ type: 'object',
      properties: { kind: { const: kind }, v: inner() }, required: ['kind', 'v'] })) }),
    () => ({ allOf: [{ type: 'object', properties: { a: inner() }, required: ['a'] },
      { properties: { b: inner() }, required: ['b'] }] }),
    () => ({ type: 'object', properties: { v: inner() }, anyOf: [{ required: ['v'] }, { required: ['b'] }] }),
    () => ({
      $defs: { node: { type: 'object', properties: { value: scalar(d),
        next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } }, required: ['value', 'next'] } },
      $ref: '#/$defs/node'
    })
  ])()
}

function schema (d: Dice, depth: number): Schema {
  const made = depth === 0 || d.below(4) === 0 ? scalar(d) : composite(d, depth)
  return '$defs' in made && depth < 3 ? { type: 'integer' } : made
}

t.test('whatever the logits are, what ends is valid, and it ends in time', async (t) => {
  const all = await models()
  let ended = 0
  for (let seed = 0; seed < SEEDS; seed++) {
    const d = dice(seed)
    const wanted = schema(d, 3)
    // The last vocabulary cannot write é.
    const model = d.of(JSON.stringify(wanted).includes('é+') ? all.slice(0, 2) : all)
    const maxTokens = 400 + d.below(400)
    const temperature = d.of([0, 1, 1])
    const { text, ended: done } = tryBabble(model, wanted, d, maxTokens, temperature, seed)
    const valid = done && ajv.validate(wanted, JSON.parse(text))
    if (!valid) t.fail('not valid', { seed, wanted, text, done, errors: ajv.errors })
    if (done) ended++
    ajv.removeSchema()
  }
  t.equal(ended, SEEDS)
})

function tryBabble (model: LoadedText, wanted: Schema, d: Dice, maxTokens: number, temperature: number,
  seed: number): { text: string, ended: boolean } {
  try {
    return babble(model, { grammar: { kind: 'schema', schema: wanted }, maxTokens, temperature, seed }, d,
      maxTokens)
  } catch (error) {
    t.fail((error as Error).message, { seed, wanted })
    throw error
  }
}

t.test('any JSON object', async (t) => {
  for (const model of await models()) {
    for (let seed = 0; seed < 25; seed++) {
      const { text, ended } = babble(model, { grammar: { kind: 'json' }, maxTokens: 120, temperature: 1,
        seed }, dice(seed), 120)
      const value: unknown = JSON.parse(text)
      if (!ended || typeof value !== 'object' || value === null || Array.isArray(value)) t.fail(text)
    }
  }
})

t.test('formats that are enforced', async (t) => {
  const model = (await models())[0] as LoadedText
  const checks: Record<string, (text: string) => boolean> = {
    date: (s) => new Date(`${s}T00:00:00Z`).toISOString().startsWith(s),
    'date-time': (s) => !Number.isNaN(Date.parse(s.replace(/(\.\d{3})\d+/, '$1').toUpperCase())),
    time: (s) => /^\d\d:\d\d:\d\d/.test(s),
    uuid: (s) => /^[0-9a-f-]{36}$/i.test(s),
    ipv4: (s) => s.split('.').length === 4 && s.split('.').every((n) => String(Number(n)) === n &&
      Number(n) < 256)
  }
  for (const [format, check] of Object.entries(checks)) {
    for (let seed = 0; seed < 20; seed++) {
      const { text } = babble(model, { grammar: { kind: 'schema', schema: { type: 'string', format } },
        maxTokens: 90, temperature: 1, seed }, dice(seed), 90)
      const value = JSON.parse(text) as string
      if (!check(value)) t.fail(`${format}: ${value}`)
    }
  }
})

t.test('the shortest output fits exactly, and one token less is not enough', async (t) => {
  const model = (await models())[0] as LoadedText
  const grammar = { kind: 'schema', schema: { type: 'object',
    properties: { a: { type: 'string', minLength: 2 }, n: { type: 'integer', minimum: 100 } },
    required: ['a', 'n'] } } as const
  const least = '{"a":"xx","n":100}'.length + 1
  for (let seed = 0; seed < 20; seed++) {
    t.equal(babble(model, { grammar, maxTokens: least, temperature: 1, seed }, dice(seed), least).ended, true)
  }
  t.doesNotThrow(() => babble(model, { grammar, maxTokens: 5, temperature: 1 }, dice(1), 5),
    'too few: the output is cut, not refused')
})

t.test('a free part comes before the grammar where a marker is named', async (t) => {
  const model = (await models())[0] as LoadedText
  for (let seed = 0; seed < 20; seed++) {
    const { text, ended } = babble(model, { grammar: { kind: 'schema', schema: { type: 'integer' } },
      grammarAfter: '</think>', maxTokens: 60, temperature: 1, seed }, dice(seed), 60)
    t.ok(ended)
    t.match(text, /<\/think>\s*-?\d+$/)
  }
})

t.test('greedy keeps the best allowed token', async (t) => {
  const model = (await models())[0] as LoadedText
  const chooser = model.chooser({ temperature: 0, topP: 1, topK: 0, minP: 0, seed: null, frequencyPenalty: 0,
    presencePenalty: 0, repetitionPenalty: 1, repeatLastN: null, logitBias: {}, topLogprobs: 0,
    logprobs: false,
    grammar: { kind: 'schema', schema: { enum: ['yes', 'no'] } } })
  const best = (...order: string[]): number => {
    const logits = new Float32Array(model.vocabularySize)
    order.forEach((text, i) => { logits[model.encode(text, false)[0] as number] = 10 - i })
    return chooser.choose(logits).id
  }
  const of = (text: string): number => model.encode(text, false)[0] as number
  t.equal(best('x', '"'), of('"'))
  t.equal(best('"', 'm', 'n'), of('n'))
  t.equal(best('"', 'o'), of('o'))
  t.equal(best('!', '"'), of('"'))
  t.ok(model.eosIds.has(best('"', ' ', '!')), 'only the end is left')
})

t.test('the mask allows exactly the tokens that fit, letter by letter', async (t) => {
  const table = tokenTable(byteLevelTokenizer())
  if (table === null) throw new Error('no table')
  const writes = { toolFormat: 'mistral', reasoning: null } as const
  const factory = new GrammarFactory(table, table.size, new Set([0]), writes)
  for (let seed = 0; seed < 60; seed++) {
    const d = dice(seed)
    const tools = [{ type: 'function', function: { name: 'f', parameters: scalar(d) } }]
    const grammar = d.below(5) === 0
      ? { kind: 'tools', tools, choice: d.of(['auto', 'required']) } as const
      : { kind: 'schema', schema: schema(d, 3) } as const
    const constraint = factory.constraint({ grammar })
    for (let step = 0; constraint !== null && step < 25; step++) {
      const logits = new Float32Array(table.size).fill(1)
      constraint.mask(logits)
      const masked = [...logits.keys()].filter((id) => logits[id] === 1)
      const fitting = [...logits.keys()].filter((id) => constraint.allows(id))
      if (masked.join() !== fitting.join()) t.fail('other tokens', { seed, step, grammar, masked, fitting })
      const id = d.of(fitting)
      if (id === 0) break
      constraint.accept(id)
    }
  }
})
