import t from 'tap'
import { OutputReader } from '../text/parse/output.js'
import type { OutputOptions, ToolCallDelta } from '../text/parse/output.js'

interface Whole { content: string, reasoning: string, calls: { name: string, arguments: string }[] }

function read (parts: readonly string[], options: Omit<OutputOptions, 'newId'>): Whole {
  let ids = 0
  const reader = new OutputReader({ ...options, newId: () => `call_${ids++}` })
  const whole: Whole = { content: '', reasoning: '', calls: [] }
  const take = (deltas: readonly ToolCallDelta[]): void => {
    for (const d of deltas) {
      if (d.id !== undefined) t.equal(d.index, whole.calls.push({ name: d.name ?? '', arguments: '' }) - 1)
      const call = whole.calls[d.index]
      if (call === undefined) throw new Error('arguments before the name')
      call.arguments += d.arguments ?? ''
    }
  }
  for (const piece of [...parts.map((p) => reader.push(p)), reader.end()]) {
    whole.content += piece.content
    whole.reasoning += piece.reasoning
    take(piece.toolCalls)
  }
  t.equal(reader.calls, whole.calls.length)
  return whole
}

const call = (name: string, args: string): { name: string, arguments: string } => ({ name, arguments: args })
const cases: [string, Omit<OutputOptions, 'newId'>, string, Whole][] = [
  ['plain text', { tools: 'hermes' }, ' Hello, <b>world</b> {1}. \n',
    { content: ' Hello, <b>world</b> {1}. \n', reasoning: '', calls: [] }],
  ['thinking', { tools: null }, '<think>\nwell, a<b\n</think>\n\nYes.',
    { content: 'Yes.', reasoning: 'well, a<b', calls: [] }],
  ['thinking from the prompt', { tools: null, startsInReasoning: true }, 'hm </thin </think> Yes',
    { content: 'Yes', reasoning: 'hm </thin', calls: [] }],
  ['thinking that does not end', { tools: null }, '<think>on and on',
    { content: '', reasoning: 'on and on', calls: [] }],
  ['no thinking of a model that does not reason', { tools: null, reasoning: null },
    '<think>x</think>\n{"a": "<think>b</think>"}',
    { content: '<think>x</think>\n{"a": "<think>b</think>"}', reasoning: '', calls: [] }],
  ['no thinking of such a model beside calls', { tools: 'hermes', reasoning: null },
    '<think> <tool_call>{"name":"a","arguments":{}}</tool_call>',
    { content: '<think>', reasoning: '', calls: [call('a', '{}')] }],
  ['no thinking behind content', { tools: null }, '{"a": "<think>b</think>"}',
    { content: '{"a": "<think>b</think>"}', reasoning: '', calls: [] }],
  ['no second thinking behind content', { tools: null, reasoning: 'mistral' },
    '[THINK]a[/THINK] [THINK]b[/THINK]c [THINK]d[/THINK]',
    { content: 'c [THINK]d[/THINK]', reasoning: 'ab', calls: [] }],
  ['markers without tools', { tools: null }, '<tool_call>{}</tool_call>',
    { content: '<tool_call>{}</tool_call>', reasoning: '', calls: [] }],
  ['one Hermes call', { tools: 'hermes' },
    'Let me see.\n<tool_call>\n{"name": "weather", ' +
    '"arguments": {"city": "K}\\"öln", "n": [1, {"a": 2}]}}\n</tool_call>',
    { content: 'Let me see.', reasoning: '', calls: [call('weather',
      '{"city": "K}\\"öln", "n": [1, {"a": 2}]}')] }],
  ['two Hermes calls after thinking', { tools: 'hermes' },
    '<think>both</think><tool_call>{"name":"a","arguments":{}}</tool_call>\n' +
    '<tool_call>{"arguments": {"x": 1}, "name": "b"}</tool_call>',
    { content: '', reasoning: 'both', calls: [call('a', '{}'), call('b', '{"x": 1}')] }],
  ['arguments as a text', { tools: 'hermes' },
    '<tool_call>{"name":"a","arguments":"{\\"x\\": 1}"}</tool_call>',
    { content: '', reasoning: '', calls: [call('a', '{"x": 1}')] }],
  ['no arguments', { tools: 'hermes' }, '<tool_call>{"name":"a","arguments": null}</tool_call> done',
    { content: 'done', reasoning: '', calls: [call('a', '{}')] }],
  ['no call between the tags', { tools: 'hermes' }, '<tool_call>what < is</tool_call> this',
    { content: 'what < isthis', reasoning: '', calls: [] }],
  ['nothing between the tags', { tools: 'hermes' }, 'What <tool_call> </tool_call> is this',
    { content: 'Whatis this', reasoning: '', calls: [] }],
  ['a call that breaks off', { tools: 'hermes' }, '<tool_call>{"name": "a", "argu',
    { content: '{"name": "a", "argu', reasoning: '', calls: [] }],
  ['arguments that break off', { tools: 'hermes' }, '<tool_call>{"name": "a", "arguments": {"x": "y',
    { content: '', reasoning: '', calls: [call('a', '{"x": "y')] }],
  ['Mistral', { tools: 'mistral' },
    '[TOOL_CALLS] [{"name": "a", "arguments": {"x": [1]}}, {"name": "b", "arguments": {}}]',
    { content: '', reasoning: '', calls: [call('a', '{"x": [1]}'), call('b', '{}')] }],
  ['Mistral with text around', { tools: 'mistral' },
    'Sure [TOOL] [TOOL_CALLS][{"name":"a","arguments":{}}] bye',
    { content: 'Sure [TOOL]bye', reasoning: '', calls: [call('a', '{}')] }],
  ['Mistral with a list in the list', { tools: 'mistral' }, '[TOOL_CALLS] [ [{"name":"a","arguments":{}}]]',
    { content: '[ [{"name":"a","arguments":{}}]]', reasoning: '', calls: [] }],
  ['Llama', { tools: 'llama' }, '{"name": "a", "parameters": {"x": "1"}}',
    { content: '', reasoning: '', calls: [call('a', '{"x": "1"}')] }],
  ['Llama with type and tag', { tools: 'llama' },
    '\n<|python_tag|>{"type": "function", "name": "a", "parameters": {}}; {"name":"b","parameters":{}}',
    { content: '', reasoning: '', calls: [call('a', '{}'), call('b', '{}')] }],
  ['Llama with other JSON', { tools: 'llama' }, ' {"answer": {"name": "x"}} ok',
    { content: ' {"answer": {"name": "x"}} ok', reasoning: '', calls: [] }],
  ['Llama with other JSON after thinking', { tools: 'llama' }, '<think>a</think>\n{"x": 1}',
    { content: '{"x": 1}', reasoning: 'a', calls: [] }],
  ['Llama with an object that only begins like a call', { tools: 'llama' }, '{"name": "x"}',
    { content: '{"name": "x"}', reasoning: '', calls: [] }],
  ['Llama with JSON later', { tools: 'llama' }, 'as {"name": "a", "parameters": {}}',
    { content: 'as {"name": "a", "parameters": {}}', reasoning: '', calls: [] }]
]

t.test('outputs are taken apart the same however they are cut', async (t) => {
  for (const [name, options, text, wanted] of cases) {
    t.strictSame(read([text], options), wanted, name)
    t.strictSame(read(text.split(''), options), wanted, `${name}, character by character`)
    for (let i = 1; i < text.length; i++) {
      const got = read([text.slice(0, i), text.slice(i)], options)
      if (JSON.stringify(got) !== JSON.stringify(wanted)) t.strictSame(got, wanted, `${name}, cut at ${i}`)
    }
  }
})

t.test('arguments come before the call is over', async (t) => {
  const reader = new OutputReader({ tools: 'hermes', newId: () => 'id' })
  t.strictSame(reader.push('<tool_call>{"name": "a", "arguments": {"x').toolCalls.map((d) =>
    d.arguments ?? '').join(''), '{"x')
  t.strictSame(reader.push('": 1').toolCalls.map((d) => d.arguments).join(''), '": 1')
})

t.test('the types of a value are looked for in so many places only', (t) => {
  const parts = Array.from({ length: 60 }, () => ({ $ref: '#/properties/x' }))
  const schema = { type: 'object', properties: { x: { anyOf: parts } } }
  const text = '<tool_call>f<arg_key>x</arg_key><arg_value>5</arg_value></tool_call>'
  const options = { tools: 'glm', parameters: () => schema } as const
  t.same(read([text], options).calls, [call('f', '{"x": 5}')], 'and not in 60 to the power of 8')
  t.end()
})

t.test('text that cannot begin a marker is not held back', async (t) => {
  const reader = new OutputReader({ tools: 'hermes', newId: () => 'id' })
  t.equal(reader.push('a <').content, 'a')
  t.equal(reader.push('b').content, ' <b')
})
