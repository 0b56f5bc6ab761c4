/** Schemas of requests that are not strict: what cannot be enforced is left out, and named. */
import t from 'tap'
import { commonRules } from '../text/grammar/builder.js'
import { compileSchema } from '../text/grammar/compile.js'
import { configOf, endFrame, stepBytes } from '../text/grammar/machine.js'
import { unenforced, unenforcedIn } from '../text/grammar/unenforced.js'

const common = commonRules(false)
const REFUSED = { reason: 'invalid_request', message: /./ }

function takes (schema: unknown, text: string): boolean {
  const start = configOf(compileSchema(schema, 's', common, { strict: false }).start(endFrame()))
  return start !== null && (stepBytes(start, Buffer.from(text))?.final ?? false)
}

t.test('what is left out is named, and the rest is enforced', async (t) => {
  const cases: [string, unknown, string[], string[], string[]][] = [
    ['unique items', { type: 'array', items: { type: 'integer' }, uniqueItems: true }, ['s/uniqueItems'],
      ['[1,1]'], ['["a"]']],
    ['if and then',
      { type: 'object', properties: { a: { type: 'integer' } }, if: { required: ['a'] }, then: {} },
      ['s/if', 's/then'], ['{"a":1}'], ['{"a":"x"}']],
    ['contains', { type: 'array', contains: { const: 1 }, minContains: 2 }, ['s/contains', 's/minContains'],
      ['[]'], ['{}']],
    ['minContains alone says nothing', { type: 'array', minContains: 2 }, [], ['[]'], ['{}']],
    ['a misspelt keyword', { type: 'string', maxLenght: 3 }, ['s/maxLenght'], ['"abcd"'], ['1']],
    ['a pattern that is none of ours', { type: 'string', pattern: '\\bx', maxLength: 2 }, ['s/pattern'],
      ['"ab"'], ['"abc"']],
    ['inside', { type: 'object', properties: { 'a/b': { not: { properties: {} }, type: 'string' } } },
      ['s/properties/a/b/not'], ['{"a/b":""}'], ['{"a/b":1}']],
    ['alternatives that overlap', { oneOf: [{ type: 'integer' }, { type: 'number' }] }, ['s/oneOf'],
      ['1', '1.5'], ['"x"']],
    ['alternatives that do not', { oneOf: [{ type: 'integer' }, { type: 'string' }] }, [], ['1', '"x"'],
      ['null']],
    ['annotations',
      { type: 'string', title: 'T', default: 'x', format: 'unheard', discriminator: {}, 'x-y': 1 }, [],
      ['"x"'], ['1']],
    ['a small fraction', { type: 'number', multipleOf: 1e-20 }, ['s/multipleOf'], ['1.5'], ['"x"']],
    ['names by a pattern', { type: 'object', patternProperties: { '\\B': { type: 'null' } } },
      ['s/patternProperties'], ['{}'], ['1']]
  ]
  for (const [name, schema, left, good, bad] of cases) {
    t.same(unenforced(schema, 's'), left, name)
    for (const text of good) t.ok(takes(schema, text), `${name}: ${text}`)
    for (const text of bad) t.notOk(takes(schema, text), `${name}: not ${text}`)
    if (left.length > 0) {
      t.throws(() => compileSchema(schema, 's', common), REFUSED, `${name}, strict`)
    }
  }
})

t.test('what is no schema is refused all the same', async (t) => {
  const refused: unknown[] = [7, { type: 'text' }, { type: 'string', minLength: -1 }, { required: 'a' },
    { $ref: 'https://example.org/x' }, { anyOf: [] }, { properties: 3 },
    { type: 'integer', minimum: 3, maximum: 2 }]
  for (const schema of refused) {
    t.throws(() => compileSchema(schema, 's', common, { strict: false }), REFUSED)
  }
})

t.test('finding it takes a bounded time', async (t) => {
  const many = { oneOf: Array.from({ length: 4000 }, (_, i) => ({ const: i })) }
  t.same(unenforced(many, 's'), ['s/oneOf'], 'what takes too much to tell apart is told')
  t.ok(takes({ oneOf: [{ type: 'integer' }, { type: 'string' }] }, '1'))
})

t.test('all schemas of a request have one budget, and few places are named', (t) => {
  const properties = Object.fromEntries(Array.from({ length: 6 }, (_, i) =>
    [`k${i}`, { type: 'string', pattern: '^(a|b){1,200}$' }]))
  const schemas = Array.from({ length: 128 }, (_, i) =>
    ({ path: `tools.${i}`, schema: { type: 'object', properties } }))
  const { places, count } = unenforcedIn(schemas)
  t.ok(count > 0.9 * 128 * 6, `${count} of ${128 * 6} were not looked at any more`)
  t.equal(places.length, 8)
  const few = { properties: { a: properties['k0'], b: properties['k1'] } }
  t.same(unenforcedIn([{ path: 's', schema: few }]), { places: [], count: 0 }, 'few of them are enforced')
  const long = unenforcedIn([{ path: 's', schema: { properties: { ['x'.repeat(10_000)]: { if: {} } } } }])
  t.equal(long.places[0]?.length, 200)
  t.end()
})
