import t from 'tap'
import { canonicalJson } from '../../../kernel/index.js'
import { descriptorOf, revisionOf } from '../registry.js'
import { declaration } from './kit.js'
import type { CapabilityDecl } from '../../../kernel/api/plugin.js'

const vector: CapabilityDecl = {
  id: 'probe',
  version: '1.0.0',
  title: 'Probe',
  description: 'Répond "ok".',
  io_mode: 'unary',
  input_schema: { type: 'object', properties: { n: { type: 'integer', minimum: 0 } } },
  annotations: { stability: 'stable' }
}

t.test('the published test vector', async (t) => {
  t.equal(revisionOf(descriptorOf(vector)), 'ab6b9e82aaa93b3e')
  t.equal(revisionOf(descriptorOf({ ...vector, media_type: 'audio/mpeg' })), 'ab6b9e82aaa93b3e',
    'only the ten fields count')
})

t.test('canonical JSON has one spelling', async (t) => {
  const check = (value: unknown,
    expected: string): void => { t.equal(canonicalJson(value), expected, expected) }
  check({ b: 1, a: { d: [2, { z: 0, y: null }], c: true } },
    '{"a":{"c":true,"d":[2,{"y":null,"z":0}]},"b":1}')
  check('é\u{1F600}\u2028', '"\\u00e9\\ud83d\\ude00\\u2028"')
  check({ é: 1, z: 2, '\u{1F600}': 3, '\uff5e': 4 }, '{"z":2,"\\u00e9":1,"\\ud83d\\ude00":3,"\\uff5e":4}')
  check('a"\\\n\u0001', '"a\\"\\\\\\n\\u0001"')
  check([0.1, 1e21, -0, 1.5e-7], '[0.1,1e+21,0,1.5e-7]')
  check({ a: undefined, b: [] }, '{"b":[]}')
  for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, 1n, () => {}]) t.throws(() =>
    canonicalJson([bad]), TypeError)
})

t.test('every field changes the revision', async (t) => {
  const base = declaration('bidirectional')
  const check = (change: Partial<CapabilityDecl>): void => {
    t.not(revisionOf(descriptorOf({ ...base, ...change })), revisionOf(descriptorOf(base)),
      Object.keys(change).join())
  }
  check({ id: 'x' })
  check({ version: '1.0.1' })
  check({ title: 'x' })
  check({ description: 'x' })
  check({ input_schema: {} })
  check({ output_schema: {} })
  check({ io_mode: 'unary' })
  check({ input_chunk_schema: {} })
  check({ output_chunk_schema: {} })
  check({ annotations: {} })
})
