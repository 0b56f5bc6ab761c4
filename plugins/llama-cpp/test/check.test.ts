import t from 'tap'
import type { AnswerChunk } from '../../runners/language/chunks.js'
import { withSchemaCheck } from '../../runners/language/check.js'

const format = (schema: object): object =>
  ({ response_format: { type: 'json_schema', json_schema: { schema } } })
const parameters = { type: 'object', properties: { a: { type: 'integer', multipleOf: 2 } } }
const tools = [{ type: 'function', function: { name: 'f', parameters } }]
const call = (text: string): AnswerChunk => ({ choices: [
  { index: 0, delta: { tool_calls: [{ index: 0, id: 'x', function: { name: 'f', arguments: text } }] } }
] })

async function read (payload: object, chunks: readonly AnswerChunk[], finish: 'stop' | 'length' = 'stop') {
  const seen: AnswerChunk[] = []
  const all = async function * (): AsyncGenerator<AnswerChunk> {
    yield * chunks
    yield { choices: [{ index: 0, delta: {}, finish_reason: finish }] }
  }
  try {
    for await (const chunk of withSchemaCheck(all(), payload as Record<string, unknown>)) seen.push(chunk)
  } catch (error) {
    return { seen, error }
  }
  return { seen, error: null }
}

t.test('an answer ends if its JSON fulfils the schema', async (t) => {
  const pattern = '^(a|a)*b$'
  const rows: [schema: object, text: string, error: object | null][] = [
    [{ type: 'integer', multipleOf: 2 }, '4', null],
    [{ properties: { a: { multipleOf: 2 } } }, '{"a":3}', {
      reason: 'invalid_result', message: /the answer, at .a: must be multiple of 2 .multipleOf of response_/,
      details: { path: '/a', keyword: 'multipleOf' }
    }],
    [{}, '{"a"', { reason: 'invalid_result', message: /is not JSON/ }],
    [{ pattern }, '"aab"', null],
    [{ pattern }, `"${'a'.repeat(60)}c"`, { message: /more than 250 ms/, details: { keyword: 'pattern' } }],
    [{ items: { pattern: '^y' } }, '["x"]',
      { message: /at \/0/ }],
    [{ items: [{ multipleOf: 2 }] }, '[3]', { message: /at \/0/ }],
    [{ $ref: 'https://example.org/x' }, '1', null]
  ]
  for (const [schema, text, wanted] of rows) {
    const chunks = [...text].map((c): AnswerChunk => ({ choices: [{ index: 0, delta: { content: c } }] }))
    const { seen, error } = await read(format(schema), chunks)
    if (wanted === null) t.equal(error, null, text)
    else t.match(error, wanted, text)
    t.equal(seen.length, chunks.length + (wanted === null ? 1 : 0), 'no end of an invalid answer')
    t.equal((await read(format(schema), chunks, 'length')).error, null, 'a cut answer is as it is')
  }
})

t.test('calls fulfil the parameters of their function', async (t) => {
  t.equal((await read({ tools }, [call('{"a":4}')])).error, null)
  t.match((await read({ tools }, [call('{"a":'), call('3}')])).error,
    { reason: 'invalid_result', message: /call of f, at \/a.* tools.0.function.parameters/ })
  t.equal((await read({ tools }, [])).error, null, 'an offer')
  t.match((await read({ tools, tool_choice: 'required' }, [])).error, { reason: 'tool_call_unreadable' })
})
