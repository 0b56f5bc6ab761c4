import t from 'tap'
import { GrammarFactory } from '../text/grammar/factory.js'
import { commonRules } from '../text/grammar/builder.js'
import { compileSchema } from '../text/grammar/compile.js'
import { tokenTable } from '../text/tokens.js'
import { byteLevelTokenizer } from './text-kit.js'

const common = commonRules(false)
const HERMES = { toolFormat: 'hermes', reasoning: null } as const
const REFUSED = { reason: 'invalid_request', message: /more than \d+ steps of work/ }

/** `levels` definitions, each of which refers to the next one twice. */
const doubling = (levels: number): object => ({
  $ref: '#/$defs/d0',
  $defs: Object.fromEntries(Array.from({ length: levels + 1 }, (_, i) => [`d${i}`, i === levels
    ? { type: 'string' } : { allOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] }]))
})
const many = <T>(count: number, make: (i: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => make(i))
const letters = (count: number): string => many(count, (i) => String.fromCodePoint(0x4e00 + 2 * i)).join('')

t.test('a schema that takes too much work is refused before it has taken it', async (t) => {
  const refused: [string, unknown][] = [
    ['references that double', doubling(40)],
    ['alternatives to tell apart', { oneOf: many(4000, (i) => ({ const: i })) }],
    ['a long chain of references', { $ref: '#/$defs/d0', $defs: Object.fromEntries(many(2000, (i) =>
      [`d${i}`, i === 1999 ? {} : { $ref: `#/$defs/d${i + 1}` }])) }],
    ['states of a pattern', { type: 'string', pattern: '(a|b)*a(a|b){10}$' }],
    ['optional letters', { type: 'string', pattern: '^(.?){900}$' }],
    ['counted properties', { type: 'object', minProperties: 490,
      properties: Object.fromEntries(many(500, (i) => [`p${i}`, { type: 'string' }])) }],
    ['one list of values many times', { anyOf: many(60, () => ({ $ref: '#/$defs/e' })),
      $defs: { e: { enum: many(1000, (i) => 'x'.repeat(40) + i) } } }]
  ]
  for (const [name, schema] of refused) t.throws(() => compileSchema(schema, 's', common), REFUSED, name)
  t.throws(() => compileSchema({ type: 'string', pattern: `^[${letters(8000)}]+$` }, 's', common),
    { message: /more than 1024 ranges/ })
})

t.test('patterns of a request are never run by the engine of JavaScript', async (t) => {
  const slow = { type: 'string', enum: [`${'a'.repeat(64)}!`, 'aaa'], pattern: '^(a+)+$' }
  t.ok(compileSchema(slow, 's', common).least < Infinity, 'the value that fits is left')
  t.throws(() => compileSchema({ ...slow, enum: [`${'a'.repeat(64)}!`] }, 's', common), /no value/)
  t.throws(() => compileSchema({ type: 'string', enum: ['a'], pattern: '(' }, 's', common),
    { reason: 'invalid_request', message: /pattern/ }, 'one that is none is a refusal, not a failure')
})

t.test('what schemas of real programs need is far inside the budget', async (t) => {
  const taken: unknown[] = [
    { type: 'object', additionalProperties: false, required: ['f0'], properties: Object.fromEntries(
      many(60, (i) => [`f${i}`, { anyOf: [{ type: 'string', maxLength: 100 }, { type: 'null' },
        { type: 'array', items: { enum: ['p', 'q'] } }] }])) },
    { type: 'object', properties: Object.fromEntries(many(1500, (i) => [`p${i}`, { type: 'string' }])) },
    { oneOf: many(40, (i) => ({ type: 'object', required: ['k'], properties: { k: { const: `k${i}` } } })) },
    { type: 'string', pattern: '^[a-z ]+$', minLength: 1, maxLength: 2000 },
    { type: 'string', format: 'date-time' }
  ]
  for (const schema of taken) t.ok(compileSchema(schema, 's', common).least < Infinity)
})

t.test('tools share one budget: beyond it a strict one is refused, others take any object', async (t) => {
  const table = tokenTable(byteLevelTokenizer())
  if (table === null) throw new Error('no table')
  const factory = new GrammarFactory(table, table.size, new Set([0]), HERMES)
  const tool = (i: number, strict: boolean): object =>
    ({ type: 'function', function: { name: `t${i}`, strict, parameters: doubling(40) } })
  const ask = (strict: boolean): unknown => factory.constraint({ maxTokens: 100,
    grammar: { kind: 'tools', tools: many(60, (i) => tool(i, strict)), choice: 'required' } })
  t.ok(ask(false))
  t.throws(() => ask(true), REFUSED)
})

t.test('tokens of one place that take too much work end their own sequence only', async (t) => {
  const tokenizer = byteLevelTokenizer()
  const { vocab } = tokenizer['model'] as { vocab: Record<string, number> }
  const ids = Object.keys(vocab).length + 4
  for (const [i, digits] of many(9000, (i) => String(i + 1000)).entries()) vocab[digits] = ids + i
  const table = tokenTable(tokenizer)
  if (table === null) throw new Error('no table')
  const factory = new GrammarFactory(table, table.size, new Set([0]), HERMES)
  const schema = { anyOf: many(60, (i) => ({ type: 'number', minimum: i, maximum: 1e9 + i })) }
  const constraint = factory.constraint({ grammar: { kind: 'schema', schema }, maxTokens: 100 })
  t.throws(() => constraint?.mask(new Float32Array(table.size)), REFUSED)
  const fine = factory.constraint({ grammar: { kind: 'json' }, maxTokens: 100 })
  fine?.mask(new Float32Array(table.size))
})
