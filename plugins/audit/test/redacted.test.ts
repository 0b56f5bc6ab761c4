import t from 'tap'
import { HIDDEN, type JsonSchema } from '../../../kernel/index.js'
import { redacted, redactedDetails, redactedParts } from '../redacted.js'

t.test('of values is kept what their schema describes', async (t) => {
  const check = (schema: JsonSchema | null, value: unknown, expected: unknown): void => {
    const about = `${JSON.stringify(schema)} ${JSON.stringify(value).slice(0, 80)}`
    t.same(redacted(schema, value), expected, about)
  }
  const text = { type: 'string' }
  check(text, 'a', 'a')
  check({}, 'a', HIDDEN)
  check({}, 1, HIDDEN)
  check({ description: 'anything' }, { a: { b: 1 } }, { a: { b: HIDDEN } })
  check({ ...text, writeOnly: true }, 'secret', HIDDEN)
  check({ ...text, 'x-secret': true }, 'secret', HIDDEN)
  check({ type: 'object', writeOnly: true }, { key: 'secret' }, HIDDEN)
  const named = { type: 'object', properties: { id: text, key: { ...text, writeOnly: true } } }
  check(named, { id: 'x', key: 'secret', more: 'secret' }, { id: 'x', key: HIDDEN, more: HIDDEN })
  check({ type: 'object', additionalProperties: text }, { a: 'b' }, { a: 'b' })
  check({ type: 'object', properties: {} }, { constructor: 'x' }, { constructor: HIDDEN })
  check({ type: 'array', items: text }, ['a', 'b'], ['a', 'b'])
  check({ type: 'array' }, ['secret'], [HIDDEN])
  check({ type: 'array', items: { type: 'integer' } }, Array.from({ length: 20 }, (_, i) => i),
    [...Array.from({ length: 16 }, (_, i) => i), 'and 4 more'])
  check(text, 'https://me:secret@example.org/a@b', `https://${HIDDEN}@example.org/a@b`)
  check(text, 'see https://example.org/in?key=secret now', `see https://example.org/in?${HIDDEN} now`)
  check(text, 'x'.repeat(1000), `${'x'.repeat(255)}…`)
  check(text, 'a\ud800b', 'a\ufffdb')
  check(text, `${'x'.repeat(254)}😀😀`, `${'x'.repeat(254)}…`)
  check({ type: ['boolean', 'null'] }, null, null)
  check(null, { any: ['thing', 1, true] }, { any: ['thing', 1, true] })
  const schema = { type: 'object', additionalProperties: { type: 'string' } }
  const large = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`k${i}`, 'x'.repeat(200)]))
  const body = ['body', schema, { a: 'b' }] as const
  const parts = [['params', undefined, { a: 1 }], ['query', schema, {}], body] as const
  t.same(redactedParts(parts), { body: { a: 'b' } })
  t.match(redactedParts([['params', schema, { id: '1' }], ['body', schema, large]]),
    { params: { id: '1' }, body: /^\d+ bytes, not kept$/ })
  t.match(redactedDetails({ list: large }), { note: /not kept/ })
})
