import t from 'tap'
import { parseFields } from '../cli/fields.js'
import { CliError } from '../cli/errors.js'

const schema = {
  type: 'object',
  additionalProperties: false,
  properties: {
    text: { type: 'string' },
    speed: { type: 'number', exclusiveMinimum: 0 },
    top_k: { type: 'integer' },
    loud: { type: 'boolean' },
    format: { const: 'mp3' },
    level: { enum: [1, 2, 3] },
    tags: { type: 'array', items: { type: 'string' } },
    sizes: { type: 'array', items: { type: 'integer' } },
    extra: { type: 'object' },
    seed: { type: ['integer', 'null'] },
    either: { anyOf: [{ type: 'number' }, { type: 'string' }] },
    anything: {}
  }
} as const

t.test('values are read by the type of their field', async (t) => {
  const check = (words: string[], expected: object): void => {
    t.same(parseFields(words, schema), expected, words.join(' '))
  }
  check([], {})
  check(['--text', 'hello there'], { text: 'hello there' })
  check(['--text=a=b'], { text: 'a=b' })
  check(['--text', '12'], { text: '12' })
  check(['--text', '-5 degrees'], { text: '-5 degrees' })
  check(['--text='], { text: '' })
  check(['--speed', '1.5'], { speed: 1.5 })
  check(['--speed=-2e3'], { speed: -2000 })
  check(['--top_k', '7'], { top_k: 7 })
  check(['--top-k', '7'], { top_k: 7 })
  check(['--loud', '--text', 'x'], { loud: true, text: 'x' })
  check(['--loud', 'false'], { loud: false })
  check(['--loud=true'], { loud: true })
  check(['--format', 'mp3'], { format: 'mp3' })
  check(['--level', '2'], { level: 2 })
  check(['--tags', 'a', '--tags', 'b'], { tags: ['a', 'b'] })
  check(['--tags', '["a","b"]'], { tags: ['a', 'b'] })
  check(['--sizes', '1', '--sizes=2'], { sizes: [1, 2] })
  check(['--extra', '{"a":1}'], { extra: { a: 1 } })
  check(['--seed', 'null'], { seed: null })
  check(['--seed', '3'], { seed: 3 })
  check(['--either', '3'], { either: 3 })
  check(['--either', 'three'], { either: 'three' })
  check(['--anything', '[1]'], { anything: [1] })
  check(['--anything', 'word'], { anything: 'word' })
})

t.test('what does not fit is wrong usage and names the field', async (t) => {
  const check = (words: string[], message: RegExp): void => {
    try {
      parseFields(words, schema)
      t.fail(`${words.join(' ')} was accepted`)
    } catch (error) {
      t.match(error, { exitCode: 2, message }, words.join(' '))
      t.ok(error instanceof CliError)
    }
  }
  check(['--txt', 'x'], /no field "txt"; did you mean --text\?\n {2}its fields: text, speed/)
  check(['word'], /"word" is not a field/)
  check(['--text'], /--text needs a value/)
  check(['--text', 'a', '--text', 'b'], /--text is given twice/)
  check(['--speed', 'fast'], /--speed must be a number above 0, not "fast"/)
  check(['--speed', ''], /--speed must be/)
  check(['--speed', 'Infinity'], /--speed must be/)
  check(['--top_k', '1.5'], /--top_k must be a whole number, not "1.5"/)
  check(['--loud=maybe'], /--loud must be true or false/)
  check(['--extra', '[1]'], /--extra must be/)
  check(['--extra', '{'], /--extra must be/)
  check(['--sizes', 'x'], /--sizes must be a whole number/)
})

t.test('without additionalProperties false an unknown field is taken as JSON or text', async (t) => {
  t.same(parseFields(['--a-b', '1', '--c', 'x'], { type: 'object' }), { 'a-b': 1, c: 'x' })
})
