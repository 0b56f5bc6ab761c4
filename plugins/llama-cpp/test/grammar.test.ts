import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import t from 'tap'
import { HERMES } from '../embedded/formats.js'
import { compileSchema, compileTools } from '../grammar/json-schema-to-grammar.js'
import { admits, chance, generator, parseGbnf } from './grammar-kit.js'

const object = (properties: object, more: object = {}): object =>
  ({ type: 'object', properties, required: Object.keys(properties), additionalProperties: false, ...more })
const text = (more: object): object => ({ type: 'string', ...more })
const item = { type: 'object', properties: { a: { type: 'integer' }, b: text({}) }, required: ['a'] }
const shape = (kind: string, more: object): object => object({ kind: { const: kind }, ...more })

/** Schemas, values that their grammars must admit, and values and texts that their grammars must refuse. */
const TABLE: readonly [schema: unknown, admitted: readonly unknown[], refused: readonly unknown[]][] = [
  [true, [1, null, 'x', { a: [{}] }, [[]], -0.5, 1e9], []],
  [{ type: 'null' }, [null], [0, 'null']],
  [{ type: ['boolean', 'null'] }, [true, false, null], [0]],
  [{ type: 'string', nullable: true }, ['', null], [1]],
  [{ type: 'integer' }, [0, 7, -12, 123456], [1.5, '1']],
  [{ type: 'number' }, [0, -1.25, 12], ['1', null]],
  [{ type: 'integer', minimum: 3, maximum: 250 }, [3, 9, 10, 99, 249, 250], [2, 251, 1000, -3, 0]],
  [{ type: 'integer', minimum: -120, exclusiveMaximum: 5 }, [-120, -99, -1, 0, 4], [-121, 5, 10]],
  [{ type: 'integer', exclusiveMinimum: 0.5 }, [1, 100, 12345], [0, -1]],
  [{ type: 'integer', minimum: 0, maximum: 9223372036854775807 }, [0, 5, 123456789], [-1]],
  [{ type: 'number', minimum: 0, maximum: 1 }, [0, 0.5, 0.001, 1], [1.01, -0.1, 2]],
  [{ type: 'number', minimum: -3, maximum: -1 }, [-3, -1, -1.5, -2.99], [-3.01, -0.24, 0, 1]],
  [{ type: 'number', minimum: 7, maximum: 1204 }, [7, 7.5, 99.9, 1203.25, 1204], [6.9, 1204.1, 12040, -8]],
  [{ type: 'number', exclusiveMinimum: 0 }, [0.1, 1, 0.001, 12.5], [0, -1, -0.5]],
  [{ type: 'number', exclusiveMaximum: 0 }, [-0.1, -1, -12.5], [0, 1]],
  [{ type: 'number', minimum: 1.1, exclusiveMaximum: 30.25 },
    [1.15, 2.01, 29.999, 30.24], [1.09, 30.25, 31.01]],
  [{ type: 'number', minimum: -0.5, maximum: 0.5 }, [-0.5, 0.5, 0.1, -0.25], [0.51, -0.6, 1.1]],
  [{ type: 'number', exclusiveMinimum: 2, exclusiveMaximum: 3 }, [2.5, 2.001, 2.999], [2, 3]],
  [{ type: 'integer', multipleOf: 25 }, [0, -25, 50, 100, 1025, 12350], [1, 26, 110]],
  [{ enum: ['a', 'b"\n', 1, null] }, ['a', 'b"\n', 1, null], ['c', 2, {}]],
  [{ enum: ['ab', 'abc', 'ab', 'b', 'ac"'] }, ['ab', 'abc', 'b', 'ac"'], ['a', 'ac', '']],
  [{ enum: ['a', 1, 'abc'], type: 'string' }, ['a', 'abc'], [1]],
  [{ const: [1], type: ['array', 'object'] }, [], [[], [2]]],
  [text({ minLength: 2, maxLength: 4 }), ['ab', 'abcd', '😀é', 'a"'], ['a', 'abcde', '']],
  [text({ maxLength: 2500 }), ['', 'x'.repeat(999), 'x'.repeat(1750), 'x'.repeat(2500)], ['x'.repeat(2501)]],
  [text({ minLength: 2100 }), ['x'.repeat(2100), 'x'.repeat(2600)], ['x'.repeat(2099)]],
  [text({ pattern: '^[A-Z]{2}\\d+$' }), ['AB1', 'XY007'], ['A1', 'AB', 'xAB1', 'AB1 ']],
  [text({ pattern: 'foo|ba[rz]' }), ['foo', 'a foo b', 'baz!'], ['fo', 'bax']],
  [text({ pattern: '^(?:a|bc)*?d$|^e' }), ['d', 'abcd', 'e', 'ef'], ['bd', 'fe']],
  [text({ pattern: '^[A-Z]{2}\\d$', minLength: 2, maxLength: 3 }), ['AB1'], ['AB', 'AB12']],
  [text({ pattern: '^[^"\\\\\\s]\\.\\u0041\\x42\\n$' }), ['x.AB\n'], ['".AB\n', ' .AB\n', 'xxAB\n']],
  [text({ pattern: '^.{2}$' }), ['ab', '😀x'], ['a', 'abc', 'a\n']],
  [text({ format: 'date' }), ['2024-02-29', '2023-12-31', '2000-02-29'],
    ['2023-02-29', '2023-13-01', '2023-04-31']],
  [text({ format: 'date-time' }), ['2024-05-06T07:08:09Z', '2024-05-06T07:08:09.5+02:00'],
    ['2024-05-06 07:08:09']],
  [text({ format: 'time' }), ['23:59:59Z'], ['24:00:00Z', '23:59:59']],
  [text({ format: 'duration' }), ['P1Y2M3D', 'PT1H2M', 'P3W'], ['P', 'P1Y2D', 'PT', '1D']],
  [text({ format: 'uuid' }), ['123e4567-e89b-12d3-a456-426614174000'], ['123e4567e89b12d3a456426614174000']],
  [text({ format: 'ipv4' }), ['127.0.0.1', '255.255.255.255'], ['256.1.1.1', '1.2.3', '01.1.1.1']],
  [text({ format: 'ipv6' }), ['::1', '::', 'fe80::1:2', '1:2:3:4:5:6:7:8'],
    [':1', '1::2::3', '1:2:3:4:5:6:7:8:9']],
  [text({ format: 'email' }), ['ada.l@example.org'], ['ada', '@x.org', 'a@b@c.org']],
  [text({ format: 'hostname' }), ['example.org', 'a-b.c'], ['-a.b', 'a..b', 'a_b']],
  [text({ format: 'uri' }), ['https://example.org/a?b=c#d', 'urn:isbn:1'], ['example.org', 'http://']],
  [text({ format: 'idn-hostname' }), ['example.org'], ['-a.b', '']],
  [text({ format: 'idn-email' }), ['ada@example.org'], ['2962']],
  [text({ format: 'iri' }), ['https://example.org/a'], ['/abc', '']],
  [text({ format: 'iri-reference' }), ['https://example.org/a'], ['\\\\WINDOWS\\a']],
  [text({ format: 'uri-template' }), ['https://example.org/a'], ['http://a/{term']],
  [text({ format: 'relative-json-pointer' }), ['0', '1#', '12/a/b~0'], ['', '/a', '-1/a', '01#', '0##']],
  [text({ format: 'regex' }), ['^[a-z]+(?:x|\\d{2})*$', '\\.a?'], ['^(abc]', '\\a', 'a**', '[]', 'a)']],
  [text({ format: 'of-our-own' }), ['x'], [1]],
  [{ type: 'array', items: { type: 'integer' } }, [[], [1], [1, 2, 3]], [['a'], {}]],
  [{ type: 'array', items: { type: 'null' }, minItems: 2, maxItems: 3 }, [[null, null], [null, null, null]],
    [[null], []]],
  [{ type: 'array', prefixItems: [{ type: 'integer' }, text({})], items: false }, [[1, 'a'], [1], []],
    [['a'], [1, 'a', 1]]],
  [{ type: 'array', prefixItems: [{ type: 'integer' }], items: text({}) }, [[1], []], [[1, 2]]],
  [{ type: 'array', items: false }, [[]], [[1]]],
  [{ type: 'object' }, [{}, { a: { b: [1] } }], [[], 1]],
  [object({ a: text({}), b: { type: 'integer' } }), [{ a: '', b: 1 }],
    [{ a: '' }, { a: '', b: 1, c: 1 }, {}]],
  [item, [{ a: 1 }, { a: 1, b: 'x' }], [{ b: 'x' }, { a: 'x' }]],
  [{ type: 'object', properties: { a: {}, b: {}, c: {} } }, [{}, { b: 1 }, { a: 1, c: [] }, { c: 1 }],
    [{ d: 1 }]],
  [{ type: 'object', additionalProperties: { type: 'null' } }, [{}, { c: null, ab: null }], [{ c: 1 }]],
  [{ ...item, additionalProperties: { type: 'null' } }, [{ a: 1 }], [{ a: 1, c: 1 }, { a: 1, b: null }]],
  [{ type: 'object', required: ['x'] }, [{ x: 1 }], [{}, { y: 1 }]],
  [{ type: 'object', properties: { a: {}, b: {}, c: {} }, minProperties: 1, maxProperties: 2 },
    [{ a: 1 }, { b: 1, c: 1 }], [{}, { a: 1, b: 1, c: 1 }]],
  [{ anyOf: [{ type: 'integer' }, item] }, [1, { a: 1 }], ['x', {}]],
  [{ type: 'object', properties: { a: {}, b: {} }, anyOf: [{ required: ['a'] }, { required: ['b'] }] },
    [{ a: 1 }, { b: 1 }, { a: 1, b: 1 }], [{}]],
  [{ allOf: [item, { properties: { c: text({}) }, required: ['c'] }] }, [{ a: 1, c: '' }],
    [{ a: 1 }, { c: '' }]],
  [{ allOf: [{ type: 'integer', minimum: 3 }, { maximum: 5 }, { type: 'number' }] }, [3, 5], [2, 6]],
  [{ allOf: [{ properties: { a: {} }, additionalProperties: false }, { properties: { a: {}, b: {} } }] },
    [{}, { a: 1 }], [{ b: 1 }]],
  [{ oneOf: [shape('cat', { lives: { type: 'integer' } }), shape('dog', { name: text({}) })] },
    [{ kind: 'cat', lives: 9 }, { kind: 'dog', name: 'Rex' }], [{ kind: 'cat', name: 'Rex' }]],
  [{ oneOf: [text({ maxLength: 3 }), { type: 'integer', minimum: 4 }, { type: 'null' }] }, [9, null], [3]],
  [{ $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b~1c' }, 'b/c': { type: 'null' } } }, [null], [1]],
  [object({ v: { type: 'integer' }, next: { anyOf: [{ $ref: '#' }, { type: 'null' }] } }),
    [{ v: 1, next: null }, { v: 1, next: { v: 2, next: null } }], [{ v: 1, next: 1 }]],
  [{ type: 'array', items: { $ref: '#' } }, [[], [[], [[]]]], [[1]]],
  [{ type: 'object', properties: { a: { $ref: '#' } }, additionalProperties: false }, [{}, { a: { a: {} } }],
    [{ a: 1 }]],
  [{ properties: { a: false, b: true } }, [{}, { b: 1 }], [{ a: 1 }]]
]

/** Schemas, and JSON pointers to the keywords that their grammars do not enforce. */
const LOST: readonly [schema: object, pointers: readonly string[]][] = [
  [{ type: 'number', multipleOf: 0.5 }, ['/multipleOf']],
  [object({ a: { type: 'array', uniqueItems: true } }), ['/properties/a/uniqueItems']],
  [{ type: 'array', contains: { type: 'null' } }, ['/contains']],
  [{ if: { type: 'null' }, then: false }, ['/if']],
  [{ not: { type: 'null' } }, ['/not']],
  [{ type: 'object', propertyNames: { minLength: 2 } }, ['/propertyNames']],
  [{ type: 'object', dependentRequired: { a: ['b'] } }, ['/dependentRequired']],
  [{ type: 'object', unevaluatedProperties: false }, ['/unevaluatedProperties']],
  [{ oneOf: [{ type: 'integer' }, { type: 'number', minimum: 1 }] }, ['/oneOf']],
  [text({ pattern: '(?=a)b' }), ['/pattern']],
  [text({ pattern: '(a)\\1' }), ['/pattern']],
  [text({ pattern: '\\bfoo' }), ['/pattern']],
  [text({ pattern: '(a*)*b' }), ['/pattern']],
  [text({ pattern: '\\p{L}' }), ['/pattern']],
  [text({ pattern: '^\\w+$', minLength: 3, maxLength: 5 }), ['/pattern']],
  [text({ pattern: '^a', format: 'email' }), ['/format']],
  [{ allOf: [text({ pattern: '^a' }), { pattern: 'b$' }] }, ['/allOf/1/pattern']],
  [{ type: 'number', minimum: 1e-7 }, ['/minimum']],
  [{ type: 'integer', multipleOf: 2, minimum: 0 }, ['/minimum', '/multipleOf']],
  [{ oneOf: [{ type: 'integer', maximum: 3 }, { type: 'integer', minimum: 4 }] }, ['/oneOf']],
  [{ enum: ['a', 'bc'], minLength: 2 }, ['/enum']],
  [{ type: 'object', patternProperties: { '^x-': { type: 'integer' } } }, ['/patternProperties']],
  [{ $ref: 'https://example.org/schema' }, ['/$ref']],
  [{ type: 'object', minProperties: 3 }, ['/minProperties']]
]

const REFUSED: readonly [schema: unknown, message: RegExp][] = [
  [1, /the schema must be object,boolean/],
  [{ type: 'text' }, /^\/type must be/],
  [object({ a: { minLength: -1 } }), /^\/properties\/a\/minLength must be >= 0/],
  [{ items: 1 }, /^\/items must be object/],
  [{ anyOf: [] }, /^\/anyOf must NOT have fewer/],
  [{ enum: [] }, /allows no value/],
  [{ allOf: [{ type: 'null' }, { type: 'string' }] }, /allows no value/],
  [object({ a: { $ref: '#' } }), /allows no value/],
  [{ $ref: '#' }, /refers to itself/],
  [{ anyOf: [{ type: 'null' }, { allOf: [{ $ref: '#' }] }] }, /refers to itself/],
  [Array.from({ length: 300 }).reduce<object>((inner) => ({ items: inner }), {}),
    /nested more than 200 levels/],
  [{ enum: Array.from({ length: 60_000 }, () => []) }, /more than 50000 objects/],
  [{ allOf: Array.from({ length: 40 }, () => ({ anyOf: [{ minLength: 1 }, { minLength: 2 }] })) },
    /more than 1000 alt/],
  [{ enum: [' '.repeat(2 ** 21)] }, /a grammar of more than 1048576 characters/]
]

function refusalOf (compile: () => unknown): unknown {
  try {
    return compile()
  } catch (error) {
    return error
  }
}

t.test('each keyword admits what it should and nothing else', (t) => {
  for (const [schema, admitted, refused] of TABLE) {
    const { grammar, unenforced } = compileSchema(schema, { strict: true })
    const gbnf = parseGbnf(grammar)
    const name = JSON.stringify(schema).slice(0, 100)
    t.same(unenforced, [], name)
    for (const value of admitted) {
      for (const indent of [0, 2]) t.ok(admits(gbnf, JSON.stringify(value, null, indent)),
        `${name}: ${JSON.stringify(value)}`)
    }
    for (const value of refused) t.notOk(admits(gbnf, JSON.stringify(value)),
      `${name}: not ${JSON.stringify(value)}`)
  }
  t.end()
})

t.test('tuples of draft 7 compile as those of 2020-12', (t) => {
  const [number, text] = [{ type: 'integer' }, { type: 'string' }]
  for (const [old, now] of [
    [{ items: [number, text], additionalItems: false }, { prefixItems: [number, text], items: false }],
    [{ items: [number], additionalItems: text }, { prefixItems: [number], items: text }],
    [{ items: [], additionalItems: text }, { items: text }],
    [{ items: text, additionalItems: false }, { items: text }],
    [object({ items: { items: [number] } }), object({ items: { prefixItems: [number] } })],
    [{ anyOf: [{ items: [{ items: [text] }] }] }, { anyOf: [{ prefixItems: [{ prefixItems: [text] }] }] }]
  ]) {
    const grammarOf = (schema: unknown): string => compileSchema(schema, { strict: true }).grammar
    t.equal(grammarOf(old), grammarOf(now), JSON.stringify(old))
    const callOf = (parameters: unknown): string => compileTools(
      [{ type: 'function', function: { name: 'f', parameters: object({ a: parameters }) } }], 'required',
      HERMES).grammar
    t.equal(callOf(old), callOf(now), `a call with ${JSON.stringify(old)}`)
  }
  const value = { const: { items: [1] } }
  t.match(compileSchema(value, { strict: true }).grammar, /items/, 'a value is no schema')
  t.notMatch(compileSchema(value, { strict: true }).grammar, /prefixItems/)
  t.end()
})

t.test('what a grammar makes is valid JSON that the schema allows', (t) => {
  const random = chance(1)
  for (const [schema] of TABLE) {
    const ajv = addFormats.default(new Ajv2020({ strict: false, logger: false }))
    const validate = ajv.compile(schema as object)
    const make = generator(parseGbnf(compileSchema(schema, { strict: true }).grammar), random)
    for (let i = 0; i < 60; i++) {
      const made = make()
      if (!validate(JSON.parse(made))) t.fail(`${JSON.stringify(schema)}: ${made}`)
    }
  }
  t.end()
})

t.test('texts that are no JSON, and more white space than is useful', (t) => {
  const gbnf = parseGbnf(compileSchema({}, { strict: true }).grammar)
  const admitted = ['{"a": 1}', '{\n  "a": [\n    1,\n    2\n  ]\n}', '"\\u00e9\\ud83d\\ude00\\/"', '1e-5',
    '-0.5E+10']
  const refused = ['{a: 1}', '{"a" 1}', '[1,]', '{,}', '01', '1.', '.5', '+1', 'NaN', "'a'", '"\n"', '"\\x"',
    '"\\ud800"',
    '"\\udc00"', '1 2', '', ' 1', '[  ]   ', '[   1]', `[\n${' '.repeat(30)}1]`]
  for (const text of admitted) t.ok(admits(gbnf, text), text)
  for (const text of refused) t.notOk(admits(gbnf, text), text)
  t.end()
})

t.test('keywords that no grammar expresses are listed, or refused if the schema is strict', (t) => {
  for (const [schema, pointers] of LOST) {
    const { grammar, unenforced } = compileSchema(schema, { strict: false })
    t.same(unenforced, pointers, JSON.stringify(schema))
    t.ok(parseGbnf(grammar))
    const strict = (): unknown => compileSchema(schema, { strict: true, path: 'schema' })
    if (pointers[0] === undefined) t.doesNotThrow(strict)
    else t.match(refusalOf(strict),
      { reason: 'invalid_request', details: { issues: [{ path: `schema${pointers[0]}` }] } })
  }
  t.end()
})

t.test('schemas that are wrong or too large are refused by name', (t) => {
  for (const [schema, message] of REFUSED) {
    t.match(refusalOf(() => compileSchema(schema, { strict: true })),
      { name: 'EngineError', reason: 'invalid_request', message })
  }
  t.end()
})

t.test('few stacks are open at once, however many properties and patterns there are', (t) => {
  const many = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`p${i}`, text({ pattern: `x${i}` })]))
  const gbnf = parseGbnf(compileSchema({ ...object(many), additionalProperties: {} },
    { strict: true }).grammar)
  const most = { stacks: 0 }
  t.ok(admits(gbnf, JSON.stringify(Object.fromEntries(Object.keys(many).map((name) =>
    [name, name.replace('p', 'x')]))), most))
  t.ok(most.stacks < 12, `${most.stacks}`)
  t.end()
})

t.test('calls of tools', (t) => {
  const tool = (name: string, parameters?: object, more: object = {}): object =>
    ({ type: 'function', function: { name, parameters, ...more } })
  const tools = [tool('now'), tool('add', object({ a: { type: 'integer' } })),
    tool('odd', { type: 'number', multipleOf: 7 })]
  const call = (name: string, given: string): string =>
    `<tool_call>\n{"name": "${name}", "arguments": ${given}}\n</tool_call>`
  const any = parseGbnf(compileTools(tools.slice(0, 2), 'required', HERMES).grammar)
  const named = { type: 'function', function: { name: 'add' } }
  const one = parseGbnf(compileTools(tools, named, HERMES).grammar)
  const single = parseGbnf(compileTools(tools.slice(0, 2), 'required', HERMES, false).grammar)
  const [now, add] = [call('now', '{"x": []}'), call('add', '{"a":1}')]
  for (const text of [now, add, `${add}\n${now}`]) t.ok(admits(any, text), text)
  for (const text of ['', 'hello', call('add', '{}'), call('sub', '{}'), call('now', '1'), `${now} x`]) {
    t.notOk(admits(any, text), text)
  }
  t.ok(admits(one, add))
  t.notOk(admits(one, now))
  t.notOk(admits(single, `${add}\n${now}`))
  const mistral = { begin: '[TOOL_CALLS]', call: '{{name}}[ARGS]{{arguments}}', separator: '[TOOL_CALLS]' }
  t.ok(admits(parseGbnf(compileTools(tools.slice(0, 2), 'required', mistral).grammar),
    '[TOOL_CALLS]add[ARGS]{"a": 5}'))
  const lenient = compileTools([tool('n', object({ n: { type: 'number', multipleOf: 7 } }))], 'required',
    HERMES)
  t.same(lenient.unenforced, ['tools.0.function.parameters/properties/n/multipleOf'])
  const refused = (list: object[], choice: unknown): unknown => compileTools(list, choice, HERMES)
  t.throws(() => refused(tools, { type: 'function', function: { name: 'none' } }),
    /names a function that is not among/)
  t.throws(() => refused([tool('n', { properties: { a: { not: { const: 1 } } } },
    { strict: true })], 'required'),
  /tools.0.function.parameters\/properties\/a\/not cannot be expressed/)
  t.throws(() => refused([{}], 'required'), /tools.0.function.name must be a string/)
  t.end()
})
