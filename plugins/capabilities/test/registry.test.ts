import t from 'tap'
import { schemaFaults } from '../../../kernel/plugins/load.js'
import { capabilityProblems, Registry } from '../registry.js'
import { declaration, like } from './kit.js'
import type { OffPlugin } from '../../../kernel/index.js'
import type { CapabilityDecl, IoMode } from '../../../kernel/api/plugin.js'

/** The problems found at registration, then those found when the kernel loads a third-party plugin. */
const problemsOf = (decl: CapabilityDecl): string[] => [
  ...capabilityProblems('demo', decl),
  ...schemaFaults({
    name: 'demo', version: '1.0.0', kernel: '^1.0.0', summary: 'x', capabilities: { x: decl }
  })
]

const nested = (depth: number): Record<string, unknown> => depth <= 1 ? {} : { not: nested(depth - 1) }
const cyclic: Record<string, unknown> = {}
cyclic['properties'] = { self: cyclic }

t.test('wrong declarations are refused with a sentence', async (t) => {
  const check = (io: IoMode, change: Record<string, unknown>, expected: RegExp): void => {
    const problems = problemsOf({ ...declaration(io), ...change })
    t.ok(problems.some((p) => expected.test(p)), `${expected} in ${JSON.stringify(problems)}`)
    t.ok(problems.every((p) => p.startsWith('plugin "demo", capability "')),
      'each names plugin and capability')
  }
  for (const id of ['', 'Tts', '-a', 'a b', 'a/b', 7]) check('unary', { id }, /id must match/)
  for (const version of ['1.0', 'v1.0.0', '1.0.0-rc', '', 1]) check('unary', { version },
    /version must look like/)
  check('unary', { io_mode: 'duplex' }, /io_mode must be one of/)
  check('unary', { title: '' }, /title/)
  check('unary', { description: 3 }, /description/)
  check('unary', { annotations: { a: 1 } }, /annotations/)
  check('unary', { media_type: 'Audio' }, /media_type/)
  for (const calls_at_once of [0, 1.5, '8']) check('unary', { calls_at_once }, /calls_at_once is/)
  check('unary', { input_schema: undefined }, /input_schema is required/)
  check('unary', { input_schema: true }, /must be a JSON Schema object/)
  check('unary', { input_schema: { type: 'strin' } }, /input_schema .*type/)
  check('unary', { input_schema: { tpye: 'string' } }, /input_schema .*unknown keyword: "tpye"/)
  check('unary', { input_schema: { type: 'string', format: 'color' } }, /unknown format "color"/)
  check('unary', { input_schema: { type: 'string', pattern: '(' } },
    /input_schema .*regular expression|pattern/i)
  check('unary', { input_schema: { $ref: 'https://example.org/a.json' } }, /points outside the schema/)
  check('unary', { input_schema: { properties: { a: { $dynamicRef: 'other#x' } } } },
    /points outside the schema/)
  check('unary', { input_schema: { $ref: '#/$defs/missing' } }, /input_schema .*missing/)
  check('unary', { input_schema: { $schema: 'http://json-schema.org/draft-07/schema#' } }, /2020-12/)
  check('unary', { input_schema: { $async: true } }, /\$async/)
  check('unary', { input_schema: { description: 'x'.repeat(64 * 1024) } }, /65554 bytes long; at most 65536/)
  check('unary', { input_schema: nested(17) }, /nested 17 deep; at most 16/)
  check('unary', { input_schema: cyclic }, /plain JSON/)
  check('unary', { output_schema: { type: 'x' } }, /output_schema /)
  check('unary', { output_chunk_schema: {} }, /output_chunk_schema must be null for unary/)
  check('unary', { input_chunk_schema: {} }, /input_chunk_schema must be null for unary/)
  check('server_streaming', { output_chunk_schema: null }, /output_chunk_schema is required/)
  check('client_streaming', { input_chunk_schema: null }, /input_chunk_schema is required/)
  check('client_streaming', { output_chunk_schema: {} }, /output_chunk_schema must be null/)
  check('bidirectional', { input_chunk_schema: null, output_chunk_schema: null },
    /output_chunk_schema is required/)
})

t.test('right declarations pass', async (t) => {
  const check = (io: IoMode, change: Partial<CapabilityDecl> = {}): void => {
    t.same(problemsOf({ ...declaration(io), ...change }), [])
  }
  check('unary')
  check('server_streaming')
  check('client_streaming')
  check('bidirectional')
  check('unary', { id: 'a.b_c:d-9', version: '10.20.30', output_schema: null })
  check('unary', { input_schema: { $schema: 'https://json-schema.org/draft/2020-12/schema', $id: 'urn:x',
    $ref: '#/$defs/a', $defs: { a: {} } } })
  check('unary', { input_schema: { type: 'object', properties: { $ref: { type: 'string' } } } })
  check('unary', { input_schema: nested(16) })
})

t.test('the same schema id may be used twice', async (t) => {
  const registry = new Registry('n')
  for (const version of ['1.0.0', '2.0.0']) {
    registry.register('demo', declaration('unary', { version, input_schema: { $id: 'urn:same' } }), () =>
      null)
  }
  t.equal(registry.list().capabilities.length, 2)
})

t.test('the plugin of a capability is off', async (t) => {
  const off = (id: string): OffPlugin | undefined => id === 'tts' ? { plugin: 'b', enable: 'a' } : undefined
  t.throws(() => new Registry('n', off).find('tts', '1.0.0', 'x'), like({
    reason: 'capability_not_found', message: /the plugin b, which provides it, is disabled\.$/,
    details: { remedy: 'Enable it: `svc plugin enable a`.' }
  }))
})

t.test('register, list, find, remove', async (t) => {
  const registry = new Registry('node-1')
  const undo = registry.register('one', declaration('unary', { id: 'b' }), () => null)
  registry.register('two', declaration('unary', { id: 'a', version: '2.0.0' }), () => null)
  t.throws(() => registry.register('three', declaration('unary', { id: 'b' }), () => null),
    { message: 'plugin "three", capability "b@1.0.0": already registered by plugin "one"' })
  t.throws(() => registry.register('four', { ...declaration('unary'), id: '?', version: 'x' }, () => null),
    /id must[^]*version must/)
  const list = registry.list()
  t.equal(registry.list(), list, 'made once')
  t.same(Object.keys(list.revisions), ['a@2.0.0', 'b@1.0.0'])
  t.same(Object.keys(list.capabilities[0]!),
    ['id', 'version', 'title', 'description', 'input_schema', 'output_schema', 'io_mode',
      'input_chunk_schema', 'output_chunk_schema', 'annotations', 'revision', 'node_id'])
  t.equal(list.node_id, 'node-1')
  const revision = list.revisions['b@1.0.0']!
  t.match(revision, /^[0-9a-f]{16}$/)
  t.equal(registry.find('b', '1.0.0', revision).owner, 'one')
  t.throws(() => registry.find('c', '1.0.0', revision), like({ reason: 'capability_not_found', status: 404 }))
  t.throws(() => registry.find('b', '1.0.1', 'wrong'),
    like({ reason: 'version_mismatch', status: 409, details: { versions: ['1.0.0'] } }))
  t.throws(() => registry.find('b', '1.0.0', 'wrong'),
    like({ reason: 'revision_mismatch', status: 409, details: { revision } }))
  undo()
  undo()
  t.same(Object.keys(registry.list().revisions), ['a@2.0.0'])
  t.throws(() => registry.find('b', '1.0.0', revision), like({ reason: 'capability_not_found' }))
})
