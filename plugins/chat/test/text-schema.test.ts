import t from 'tap'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { commonRules } from '../text/grammar/builder.js'
import { compileSchema } from '../text/grammar/compile.js'
import { configOf, endFrame, stepBytes } from '../text/grammar/machine.js'

const common = commonRules(false)
const ajv = new Ajv2020({ strict: false, multipleOfPrecision: 9, discriminator: false, logger: false })

/** Whether the grammar of a schema takes a text as a whole. */
function takes (schema: unknown, text: string): boolean {
  const start = configOf(compileSchema(schema, 'schema', common).start(endFrame()))
  return start !== null && (stepBytes(start, Buffer.from(text))?.final ?? false)
}

const deep = (levels: number): object => levels === 1 ? { type: 'string' }
  : { type: 'array', items: deep(levels - 1) }
const list = (n: number): string[] => Array.from({ length: n }, (_, i) => `v${i}`)

t.test('what cannot be enforced is refused with keyword and path', async (t) => {
  const cases: [string, unknown, RegExp][] = [
    ['no schema', 7, /^schema is not a schema/],
    ['a general not', { not: { properties: { a: {} } } }, /^schema\/not: this cannot be enforced/],
    ['not of a number', { type: 'number', not: { const: 1 } }, /schema\/not/],
    ['not of integers', { not: { type: 'integer' } }, /schema\/not/],
    ['not at all', { not: {} }, /no value/],
    ['if', { type: 'object', properties: { a: { if: {} } } }, /^schema\/properties\/a\/if/],
    ['a misspelt keyword', { type: 'string', maxLenght: 3 }, /maxLenght/],
    ['unique items', { type: 'array', uniqueItems: true }, /uniqueItems/],
    ['contains', { type: 'array', items: { contains: {} } }, /schema\/items\/contains/],
    ['a pattern of names that is none', { patternProperties: { '(a': {} } },
      /schema\/patternProperties: the pattern/],
    ['a required name that is not allowed', { type: 'object', required: ['b'],
      propertyNames: { enum: ['a'] } }, /no value/],
    ['a dependency', { type: 'object', dependentRequired: { a: ['b'] } }, /dependentRequired/],
    ['an unknown type', { type: 'text' }, /schema\/type: "text"/],
    ['a very small multipleOf', { type: 'number', multipleOf: 1e-20 }, /multipleOf: only 14 digits/],
    ['multiples of nothing', { type: 'number', multipleOf: 0 }, /multipleOf is not a number above 0/],
    ['a negative length', { type: 'string', minLength: -1 }, /minLength/],
    ['a bound that is text', { type: 'number', minimum: '1' }, /minimum is not a number/],
    ['look ahead that never holds', { type: 'string', pattern: '^(?=a)b' }, /no value/],
    ['look ahead in the middle', { type: 'string', pattern: '^((?=a)a|b)c$' }, /something follows/],
    ['look behind', { type: 'string', pattern: '(?<=a)b' }, /schema\/pattern: the pattern has a group with/],
    ['a property of Unicode', { type: 'string', pattern: '\\p{L}' }, /"\\p"/],
    ['a back reference', { type: 'string', pattern: '(a)\\1' }, /"\\1"/],
    ['a word border', { type: 'string', pattern: '\\bx' }, /"\\b"/],
    ['an anchor inside', { type: 'string', pattern: 'a(^b)c' }, /inside/],
    ['an open group', { type: 'string', pattern: '(a' }, /without "\)"/],
    ['an open class', { type: 'string', pattern: '[a' }, /without "\]"/],
    ['many repetitions', { type: 'string', pattern: 'a{2000}' }, /more than 1000/],
    ['repetitions of repetitions', { type: 'string', pattern: '^((a{900}){900})$' }, /too large/],
    ['an explosion of states', { type: 'string', pattern: '(a|b)*a(a|b){14}$' }, /steps of work/],
    ['a reference to elsewhere', { $ref: 'https://example.org/x' }, /\$ref: only references inside/],
    ['a reference to nothing', { $ref: '#/$defs/none' }, /there is no "#\/\$defs\/none"/],
    ['a reference to a prototype', { $ref: '#/constructor' }, /there is no/],
    ['a reference to itself', { $ref: '#' }, /refers to itself/],
    ['references in a circle', { $ref: '#/$defs/a',
      $defs: { a: { allOf: [{ $ref: '#/$defs/b' }] }, b: { $ref: '#/$defs/a' } } }, /refers to itself/],
    ['a union of nothing but itself', { $ref: '#/$defs/a', $defs: { a: { anyOf: [{ $ref: '#/$defs/a' }] } } },
      /no value/],
    ['alternatives that overlap', { oneOf: [{ type: 'integer' }, { type: 'number' }] },
      /oneOf: alternatives 0 and 1/],
    ['overlapping objects', { oneOf: [{ type: 'object', required: ['a'] },
      { type: 'object', required: ['b'] }] }, /oneOf/],
    ['an endless object', { type: 'object', properties: { a: { $ref: '#' } }, required: ['a'] },
      /no value of finite size/],
    ['types that exclude each other', { allOf: [{ type: 'string' }, { type: 'number' }] }, /no value/],
    ['bounds that exclude each other', { type: 'integer', minimum: 3, maximum: 2 }, /no value/],
    ['no integer between', { type: 'integer', exclusiveMinimum: 3, exclusiveMaximum: 4 }, /no value/],
    ['a pattern that is too short', { type: 'string', pattern: '^ab$', minLength: 3 }, /no value/],
    ['a required property that is forbidden', { type: 'object', required: ['a'],
      additionalProperties: false }, /no value/],
    ['false', false, /no value/],
    ['enum of other types', { type: 'string', enum: [1, 2] }, /no value/],
    ['too many values', { enum: list(1001) }, /enum has 1001 values/],
    ['100,000 levels', JSON.parse('[{"anyOf":'.repeat(900) + '[]' + '}]'.repeat(900)),
      /is not a schema/],
    ['many combinations', { allOf: [1, 2, 3].map(() =>
      ({ anyOf: list(5).map((c) => ({ enum: [c, 'x', 'y'] })) })) }, /combinations/],
    ['many different names', { type: 'object', minProperties: 3 }, /minProperties/],
    ['very many items', { type: 'array', minItems: 5000 }, /minItems/],
    ['enum of objects with rules', { enum: [{ a: 1 }], properties: { a: { type: 'integer' } } },
      /enum or const/]
  ]
  for (const [name, schema, message] of cases) {
    t.throws(() => compileSchema(schema, 'schema', common), { reason: 'invalid_request', message }, name)
  }
})

t.test('limits themselves are taken', async (t) => {
  t.ok(takes(deep(32), '['.repeat(31) + ']'.repeat(31)))
  t.ok(takes({ enum: list(1000) }, '"v999"'))
  t.ok(takes({ type: 'string', pattern: '^a{1000}$' }, `"${'a'.repeat(1000)}"`))
  t.ok(takes({ type: 'object', properties: Object.fromEntries(list(1500).map((n) => [n, { type: 'null' }])),
    required: list(1500) },
  JSON.stringify(Object.fromEntries(list(1500).map((n) => [n, null])))), 'many required properties')
})

t.test('valid texts are taken and others are not', async (t) => {
  const cases: [unknown, string[], string[]][] = [
    [true, ['1', '"a"', '[1,{"a":[]}]', 'null', '-0.5e+10'],
      ['01', '[1,]', '{"a"}', "'a'", '+1', '.5', '1.', '1e', '1e400', 'nul', '', '"\u0001"', '"\\x"',
        '"\\ud800"', '"\\udc00"', '[1 ', '"a" ']],
    [{ type: 'string' }, ['""', '"\\u0041\\n\\/"', '"\\ud83d\\ude00"', '"日本😀\u0301"'],
      ['"', '"\\ud83d\\u0041"', '"a""']],
    [{ type: 'string', minLength: 2, maxLength: 2 }, ['"日本"', '"😀a"', '"\\ud83d\\ude00a"', '"\\n\\""'],
      ['"a"', '"abc"', '"😀"']],
    [{ type: 'integer' }, ['0', '-7', '123456789012345'], ['1.0', '1e3', '--1', '-', '00']],
    [{ type: 'integer', minimum: -5, maximum: 12 }, ['-5', '0', '12', '-0', '7'],
      ['-6', '13', '120', '01', '-', '1.0']],
    [{ type: 'number', exclusiveMinimum: 0, maximum: 1.5 }, ['0.1', '1', '1.5', '1.50', '0.00000000000001'],
      ['0', '0.0', '1.51', '1.500001', '-1', '2', '1e0', '-0.1']],
    [{ type: 'number', minimum: 1e-7, maximum: 2e-7 }, ['0.0000001', '0.00000015'],
      ['0.00000009', '0.0000002000001', '0']],
    [{ type: 'integer', multipleOf: 7, minimum: 10, maximum: 30 }, ['14', '21', '28'], ['7', '15', '35']],
    [{ type: 'integer', minimum: 99999 }, ['99999', '100000'], ['99998', '9999']],
    [{ type: 'object', properties: { a: { type: 'integer' }, b: {} }, required: ['b'] },
      ['{"b":1}', '{"a":1,"b":[]}', '{ "a" : 1 ,\n  "b" : 2 }'],
      ['{}', '{"a":1}', '{"b":1,"a":1}', '{"b":1,"c":1}', '{"a":"x","b":1}', '{"b":1,}', '{,"b":1}',
        '{"b":1,"b":2}']],
    [{ type: 'object', properties: { a: { type: 'integer' } }, additionalProperties: { type: 'boolean' } },
      ['{"a":1,"x":true}', '{"x":true,"y":false}', '{"ab":true}', '{}'],
      ['{"x":1}', '{"x":true,"a":1}', '{"a":true}', '{"x":true,"a":true}', '{"\\u0061":true}']],
    [{ type: 'object' }, ['{}', '{"a":{"b":[1]}}'], ['[]', '{"a":}']],
    [{ type: 'object', additionalProperties: false }, ['{}', '{ }'], ['{"a":1}']],
    [{ type: 'object', properties: { a: {}, b: {}, c: {} }, minProperties: 1, maxProperties: 2 },
      ['{"a":1}', '{"b":1,"c":2}'], ['{}', '{"a":1,"b":1,"c":1}']],
    [{ type: 'array', items: { type: 'integer' }, minItems: 1, maxItems: 2 }, ['[1]', '[1, 2]'],
      ['[]', '[1,2,3]', '[true]']],
    [{ type: 'array', prefixItems: [{ type: 'integer' }, { type: 'string' }], items: { type: 'null' } },
      ['[]', '[1]', '[1,"a"]', '[1,"a",null,null]'], ['["a"]', '[1,2]', '[1,"a",3]']],
    [{ enum: ['a', 'ab', 1, 12, { k: [1] }] }, ['"a"', '"ab"', '1', '12', '{"k":[1]}'],
      ['"b"', '2', '{"k": [1]}', '"a']],
    [{ const: 'ü"' }, ['"ü\\""'], ['"ü"']],
    [{ type: ['string', 'null'], nullable: true, maxLength: 1 }, ['null', '"a"'], ['"ab"']],
    [{ anyOf: [{ type: 'string', pattern: '^a' }, { type: 'integer', minimum: 5 }], description: 'x' },
      ['"ab"', '5'], ['"b"', '4']],
    [{ $ref: '#/$defs/a~1b%25', $defs: { 'a/b%': { type: 'boolean' } } }, ['true'], ['1']],
    [{ type: 'array', items: { $ref: '#' } }, ['[]', '[[],[[]]]'], ['[1]']],
    [{ properties: { a: { $ref: '#/definitions/x', minimum: 3 } },
      definitions: { x: { type: 'integer', maximum: 4 } }, required: ['a'] }, ['{"a":3}', '{"a":4}'],
    ['{"a":2}', '{"a":5}']],
    [{ minLength: 2 }, ['"ab"'], ['"a"', '1']],
    [{ type: 'string', pattern: 'b+$' }, ['"b"', '"abb"'], ['"ba"', '""']],
    [{ type: 'string', pattern: '^(?:\\d{3}|[x-z]?)$' }, ['"123"', '"x"', '""'], ['"12"', '"a"']],
    [{ type: 'string', pattern: '^[^a\\d]\\s\\S.$' }, ['"b c\u0101"', '"\\t a-"', '"\\\\\\n\\"x"'],
      ['"a bc"', '"b  c"', '"b a\\n"']],
    [{ type: 'string', pattern: '^\\u{1F600}[\\u4e00-\\u9fff]$' }, ['"😀日"'], ['"😁日"', '"😀a"']],
    [{ type: 'string', pattern: '^a', maxLength: 2 }, ['"a"', '"ab"'], ['"abc"', '"b"']],
    [{ type: 'string', format: 'date' }, ['"2024-02-28"', '"1999-12-31"'],
      ['"2024-02-30"', '"2024-13-01"', '"24-01-01"']],
    [{ type: 'string', format: 'uri' }, ['"anything"'], ['1']],
    [{ type: 'string', format: 'constructor' }, ['"anything"'], ['1']],
    [{ type: 'string', pattern: '^é😀$' }, ['"é😀"', '"\\u00e9\\ud83d\\ude00"'],
      ['"\\u00e8😀"', '"é\\ud83d"', '"é\\ud83d\\ude01"']],
    [{ type: 'string', pattern: '^(?:\\ud83d\\u0041|\\ud83d\\u{41}|\\ud83d\\ude00)$' }, ['"😀"'],
      ['"\u{11841}"', '"A"', '""']],
    [{ type: 'array', items: [{ type: 'integer' }], additionalItems: { type: 'null' } }, ['[]', '[1,null]'],
      ['[null]', '[1,2]']],
    [{ type: 'array', items: [{ type: 'integer' }], additionalItems: false, minItems: 1 }, ['[1]'],
      ['[1,2]']],
    [{ type: 'number', multipleOf: 0.01, minimum: 0, maximum: 1 }, ['0.07', '0.5', '1', '0.250'],
      ['0.005', '0.071', '1.01']],
    [{ type: 'integer', multipleOf: 1.5, minimum: 1, maximum: 7 }, ['3', '6'], ['1', '4.5', '7']],
    [{ allOf: [{ type: 'number', multipleOf: 0.4 }, { multipleOf: 0.6 }] }, ['1.2', '0', '-2.4'],
      ['0.4', '0.6']],
    [{ not: { type: ['object', 'array'] } }, ['1', '"a"', 'null', 'true'], ['[]', '{}']],
    [{ type: ['string', 'null'], not: { enum: ['', null] } }, ['"a"'], ['""', 'null']],
    [{ type: 'boolean', not: { const: true } }, ['false'], ['true']],
    [{ enum: [1, 2, 3], not: { enum: [2] } }, ['1', '3'], ['2']],
    [{ type: 'string', not: { pattern: '^a' }, maxLength: 3 }, ['"b"', '""'], ['"a"', '"abc"', '"bbbb"']],
    [{ type: 'object', properties: { a: {}, b: {} }, not: { required: ['a'] } }, ['{"b":1}', '{}'],
      ['{"a":1}']],
    [{ type: 'string', pattern: '^(?=.{3,5}$)[a-z]+(?:-[a-z]+)*$' }, ['"abc"', '"a-b"'],
      ['"ab"', '"a-b-cd"', '"a-"']],
    [{ type: 'string', pattern: '^(?!.*aa)[ab]+$' }, ['"abab"', '"b"'], ['"baab"', '""']],
    [{ type: 'string', pattern: '^P(?:\\d+W|(?!.*W)(?=\\d|T\\d)(?:\\d+D)?(?:T(?=\\d)(?:\\d+H)?)?)$' },
      ['"P3W"', '"P1D"', '"PT2H"', '"P1DT2H"'], ['"P"', '"P1DT"', '"P1DW"']],
    [{ type: 'string', pattern: '^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$' }, ['"1.5"', '"-0"', '".5"'],
      ['"-"', '"."', '""']],
    [{ type: 'object', propertyNames: { pattern: '^k\\d$' }, additionalProperties: { type: 'integer' } },
      ['{"k1":1}', '{}', '{"k1":1,"k2":2}'], ['{"a":1}', '{"k1":"x"}']],
    [{ type: 'object', propertyNames: { enum: ['a', 'b'] }, additionalProperties: { type: 'integer' } },
      ['{"a":1}', '{"b":2}', '{"a":1,"b":2}'], ['{"c":1}', '{"a":null}']],
    [{ type: 'object', propertyNames: { minLength: 2 }, properties: { a: {}, ab: { type: 'null' } } },
      ['{"ab":null}', '{}'], ['{"a":1}']],
    [{ type: 'object', patternProperties: { '^n_': { type: 'integer' }, '^s_': { type: 'string' } },
      properties: { n_0: { minimum: 5 }, t: { type: 'null' } }, additionalProperties: false },
    ['{"n_1":1,"s_":"x"}', '{"n_0":7,"t":null}'], ['{"n_1":"x"}', '{"n_0":4}', '{"x":1}']],
    [{ type: 'object', patternProperties: { '^n': { type: 'integer' } },
      additionalProperties: { type: 'string' } }, ['{"n":1,"a":"x"}'], ['{"a":1}', '{"n":"x"}']],
    [{ allOf: [{ type: 'object', patternProperties: { '^n': { type: 'integer' } } },
      { properties: { n: { minimum: 3 } }, required: ['n'] }] }, ['{"n":3}'], ['{"n":2}', '{"n":"x"}', '{}']],
    [{ $ref: '#/$defs/a', $defs: { a: { anyOf: [{ type: 'string' }, { $ref: '#/$defs/a' }] } } }, ['"x"'],
      ['1']],
    [{ $ref: '#/$defs/json', $defs: { json: { anyOf: [{ type: ['string', 'number', 'boolean', 'null'] },
      { type: 'array', items: { $ref: '#/$defs/json' } },
      { type: 'object', additionalProperties: { $ref: '#/$defs/json' } }] } } },
    ['1', '[[1,{"a":[]}],null]', '{"a":{"b":"c"}}'], ['[', 'x']],
    [{ discriminator: { propertyName: 'k', mapping: { a: '#/$defs/A' } }, $defs: {
      A: { type: 'object', properties: { k: { const: 'a' }, v: { type: 'integer' } }, required: ['k', 'v'] },
      B: { type: 'object', properties: { k: { const: 'b' } }, required: ['k'] } },
    oneOf: [{ $ref: '#/$defs/A' }, { $ref: '#/$defs/B' }] }, ['{"k":"a","v":1}', '{"k":"b"}'],
    ['{"k":"b","v":1}', '{"k":"a"}']],
    [{ type: 'object', properties: { 'a/items': { type: 'integer' },
      a: { type: 'array', items: { type: 'string' } } } }, ['{"a/items":1,"a":["x"]}'], ['{"a":[1]}']]
  ]
  for (const [schema, good, bad] of cases) {
    // The validator knows no tuples of draft 7, and does not end in a union that is its own part.
    const own = JSON.stringify(schema)
    const validate = (value: unknown): boolean => /"items":\[|\{"\$ref":"#\/\$defs\/a"\}\]/.test(own) ||
      ajv.validate(schema as object, value)
    for (const text of good) {
      t.ok(takes(schema, text), `${JSON.stringify(schema)} takes ${text}`)
      // Only what the schema allows is ever taken; formats are not checked by this validator.
      if (!JSON.stringify(schema).includes('format')) t.ok(validate(JSON.parse(text)))
    }
    for (const text of bad) t.notOk(takes(schema, text), `${JSON.stringify(schema)} does not take ${text}`)
  }
})

t.test('white space is bounded', async (t) => {
  t.ok(takes({ type: 'array' }, `[\n\n${' '.repeat(20)}]`))
  for (const space of ['  ', '\n\n\n', `\n${' '.repeat(21)}`, '\r', ' \n']) t.notOk(takes({ type: 'array' },
    `[${space}]`))
})

t.test('nesting where the schema says nothing ends at 32 levels', async (t) => {
  t.ok(takes(true, '['.repeat(32) + ']'.repeat(32)))
  t.notOk(takes(true, '['.repeat(33) + ']'.repeat(33)))
})
