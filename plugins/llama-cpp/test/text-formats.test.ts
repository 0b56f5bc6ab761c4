/** Parsing of complete, split and broken outputs in every tool call and reasoning format. */
import t from 'tap'
import { OutputReader, type OutputOptions } from '../text/parse/output.js'
import { dice, read, type Whole } from './text-format-kit.js'

type Options = Omit<OutputOptions, 'newId'>
const call = (name: string, args: string): Whole['calls'][number] => ({ name, arguments: args })
const said = (content: string, ...calls: Whole['calls']): Whole => ({ content, reasoning: '', calls })
const PARAMETERS = {
  type: 'object',
  properties: {
    city: { type: 'string' }, days: { type: 'integer' }, exact: { type: 'boolean' },
    zip: { $ref: '#/$defs/zip' }, list: { type: 'array' },
    maybe: { anyOf: [{ type: 'string' }, { type: 'null' }] },
    kind: { enum: ['1', '2'] }
  },
  $defs: { zip: { type: 'string' } }
}
const parameters = (name: string): unknown => name === 'f' ? PARAMETERS : undefined

const TYPED = '{"city": "5", "days": 5, "exact": true, "zip": "01", "list": [1, "a"], "maybe": null, ' +
  '"kind": "2", "other": {"a": 1}, "free": "word"}'
const fields = (write: (key: string, value: string) => string): string => Object.entries({
  city: '5', days: '5', exact: 'True', zip: '01', list: '[1, "a"]', maybe: 'null', kind: '2',
  other: '{"a": 1}', free: 'word'
}).map(([key, value]) => write(key, value)).join('\n')

const cases: [string, Options, string, Whole][] = [
  ['plain text', { tools: 'hermes' }, ' Hello, <b>world</b> {1}. \n', said(' Hello, <b>world</b> {1}. \n')],
  ['thinking', { tools: null }, '<think>\nwell, a<b\n</think>\n\nYes.',
    { ...said('Yes.'), reasoning: 'well, a<b' }],
  ['thinking from the prompt', { tools: null, startsInReasoning: true }, 'hm </thin </think> Yes',
    { ...said('Yes'), reasoning: 'hm </thin' }],
  ['thinking that does not end', { tools: null }, '<think>on and on',
    { ...said(''), reasoning: 'on and on' }],
  ['no thinking of a model that does not reason', { tools: null, reasoning: null },
    '<think>x</think>\n{"a": "<think>b</think>"}', said('<think>x</think>\n{"a": "<think>b</think>"}')],
  ['no thinking of such a model beside calls', { tools: 'hermes', reasoning: null },
    '<think> <tool_call>{"name":"a","arguments":{}}</tool_call>', said('<think>', call('a', '{}'))],
  ['no thinking behind content', { tools: null }, '{"a": "<think>b</think>"}',
    said('{"a": "<think>b</think>"}')],
  ['no second thinking behind content', { tools: null, reasoning: 'mistral' },
    '[THINK]a[/THINK] [THINK]b[/THINK]c [THINK]d[/THINK]',
    { ...said('c [THINK]d[/THINK]'), reasoning: 'ab' }],
  ['markers without tools', { tools: null }, '<tool_call>{}</tool_call>', said('<tool_call>{}</tool_call>')],
  ['one Hermes call', { tools: 'hermes' }, 'Let me see.\n<tool_call>\n{"name": "weather", ' +
  '"arguments": {"city": "K}\\"öln", "n": [1, {"a": 2}]}}\n</tool_call>',
  said('Let me see.', call('weather', '{"city": "K}\\"öln", "n": [1, {"a": 2}]}'))],
  ['two Hermes calls after thinking', { tools: 'hermes' },
    '<think>both</think><tool_call>{"name":"a","arguments":{}}</tool_call>\n' +
    '<tool_call>{"arguments": {"x": 1}, "name": "b"}</tool_call>',
    { ...said('', call('a', '{}'), call('b', '{"x": 1}')), reasoning: 'both' }],
  ['arguments as a text', { tools: 'hermes' },
    '<tool_call>{"name":"a","arguments":"{\\"x\\": 1}"}</tool_call>', said('', call('a', '{"x": 1}'))],
  ['no arguments', { tools: 'hermes' }, '<tool_call>{"name":"a","arguments": null}</tool_call> done',
    said('done', call('a', '{}'))],
  ['no call between the tags', { tools: 'hermes' }, '<tool_call>what < is</tool_call> this',
    said('what < isthis')],
  ['nothing between the tags', { tools: 'hermes' }, 'What <tool_call> </tool_call> is this',
    said('Whatis this')],
  ['a call that breaks off', { tools: 'hermes' }, '<tool_call>{"name": "a", "argu',
    said('{"name": "a", "argu')],
  ['Mistral', { tools: 'mistral' },
    '[TOOL_CALLS] [{"name": "a", "arguments": {"x": [1]}}, {"name": "b", "arguments": {}}]',
    said('', call('a', '{"x": [1]}'), call('b', '{}'))],
  ['Mistral with text around', { tools: 'mistral' },
    'Sure [TOOL] [TOOL_CALLS][{"name":"a","arguments":{}}] bye', said('Sure [TOOL]bye', call('a', '{}'))],
  ['Mistral with a list in the list', { tools: 'mistral' }, '[TOOL_CALLS] [ [{"name":"a","arguments":{}}]]',
    said('[ [{"name":"a","arguments":{}}]]')],
  ['Llama', { tools: 'llama' }, '{"name": "a", "parameters": {"x": "1"}}', said('', call('a', '{"x": "1"}'))],
  ['Llama with type and tag', { tools: 'llama' },
    '\n<|python_tag|>{"type": "function", "name": "a", "parameters": {}}; {"name":"b","parameters":{}}',
    said('', call('a', '{}'), call('b', '{}'))],
  ['Llama with other JSON', { tools: 'llama' }, ' {"answer": {"name": "x"}} ok',
    said(' {"answer": {"name": "x"}} ok')],
  ['Llama with other JSON after thinking', { tools: 'llama' }, '<think>a</think>\n{"x": 1}',
    { ...said('{"x": 1}'), reasoning: 'a' }],
  ['Llama with an object that only begins like a call', { tools: 'llama' }, '{"name": "x"}',
    said('{"name": "x"}')],
  ['Llama with JSON later', { tools: 'llama' }, 'as {"name": "a", "parameters": {}}',
    said('as {"name": "a", "parameters": {}}')],
  ['hermes: a list in one tag', { tools: 'hermes' },
    '<tool_call>\n[{"name": "a", "arguments": {}}, {"name": "b", "arguments": {"x": 1}}]\n</tool_call>',
    said('', call('a', '{}'), call('b', '{"x": 1}'))],
  ['hermes: objects in lines of one tag', { tools: 'hermes' },
    '<tool_call>\n{"name": "a", "arguments": {}}\n{"name": "b", "arguments": {}}\n</tool_call>',
    said('', call('a', '{}'), call('b', '{}'))],
  ['hermes: a brace that is missing', { tools: 'hermes' },
    '<tool_call>{"name": "a", "arguments": {"x": 1}\n</tool_call> so', said('so', call('a', '{"x": 1}'))],
  ['hermes: a function inside', { tools: 'hermes' },
    '<tool_call>{"type": "function", "function": {"name": "a", "arguments": {"x": {"name": "y"}}}, ' +
    '"id": "1"}</tool_call>', said('', call('a', '{"x": {"name": "y"}}'))],
  ['hermes: single quotes are no JSON', { tools: 'hermes' }, '<tool_call>{\'name\': \'a\'}</tool_call>!',
    said('{\'name\': \'a\'}!')],
  ['hermes: tags that only look like it', { tools: 'hermes' }, 'a <tool_cal> b <tool_calls> c',
    said('a <tool_cal> b <tool_calls> c')],
  ['llama: more than one', { tools: 'llama' },
    '{"name": "a", "parameters": {"q": "x; {y}"}}; {"name": "b", "parameters": {}}',
    said('', call('a', '{"q": "x; {y}"}'), call('b', '{}'))],
  ['mistral: by names', { tools: 'mistral_named' },
    '[TOOL_CALLS]a[ARGS]{"x": "[ARGS]"}[TOOL_CALLS]b-c[ARGS]{}',
    said('', call('a', '{"x": "[ARGS]"}'), call('b-c', '{}'))],
  ['mistral: by names and ids', { tools: 'mistral_named' },
    'Sure.[TOOL_CALLS]a[CALL_ID]abcdefghi[ARGS]{"x": [1, {"y": 2}]}',
    said('Sure.', call('a', '{"x": [1, {"y": 2}]}'))],
  ['mistral: a list where names were expected', { tools: 'mistral_named' },
    '[TOOL_CALLS][{"name": "a", "arguments": {}, "id": "abcdefghi"}]', said('', call('a', '{}'))],
  ['mistral: neither', { tools: 'mistral' }, '[TOOL_CALLS] well then', said('well then')],
  ['granite', { tools: 'granite' }, '<|tool_call|>[{"name": "a", "arguments": {"x": 1}}]',
    said('', call('a', '{"x": 1}'))],
  ['glm', { tools: 'glm', parameters },
    `\n<think>Which?</think>\nI see.\n<tool_call>f\n${fields((k, v) =>
      `<arg_key>${k}</arg_key>\n<arg_value>${v}</arg_value>`)}\n</tool_call>`,
    { ...said('I see.', call('f', TYPED)), reasoning: 'Which?' }],
  ['glm: in one line, twice, without arguments', { tools: 'glm' },
    '<tool_call>a<arg_key>k</arg_key><arg_value>1</arg_value></tool_call><tool_call>b</tool_call>',
    said('', call('a', '{"k": 1}'), call('b', '{}'))],
  ['glm: no name', { tools: 'glm' }, '<tool_call>what is this?</tool_call> x', said('what is this?x')],
  ['qwen coder', { tools: 'qwen_coder', parameters },
    `Let me.\n<tool_call>\n<function=f>\n${fields((k, v) => `<parameter=${k}>\n${v}\n</parameter>`)}\n` +
    '</function>\n</tool_call>', said('Let me.', call('f', TYPED))],
  ['qwen coder: lines and marks in a text', { tools: 'qwen_coder', parameters },
    '<tool_call>\n<function=f>\n<parameter=city>\n\nif a < b:\n\t"x"\n\n</parameter>\n</function>\n' +
    '</tool_call>', said('', call('f', '{"city": "\\nif a < b:\\n\\t\\"x\\"\\n"}'))],
  ['qwen coder: without the outer tag, and with an end forgotten', { tools: 'qwen_coder', parameters },
    '<function=f>\n<parameter=city>\nx\n</function>\n</tool_call> and',
    said('and', call('f', '{"city": "x"}'))],
  ['qwen coder: no arguments, two calls', { tools: 'qwen_coder' },
    ['a', 'b'].map((name) => `<tool_call>\n<function=${name}>\n</function>\n</tool_call>\n`).join(''),
    said('', call('a', '{}'), call('b', '{}'))],
  ['lfm: literals', { tools: 'lfm' },
    '<|tool_call_start|> [a(city="S\\"o", n=-1.5, ok=True, no=None, l=[1, \'x\', (2,)], ' +
    'd={"k": {"z": False}}), b.c()]<|tool_call_end|>',
    said('', call('a', '{"city": "S\\"o", "n": -1.5, "ok": true, "no": null, "l": [1, "x", [2]], ' +
    '"d": {"k": {"z": false}}}'), call('b.c', '{}'))],
  ['lfm', { tools: 'lfm' }, '<|tool_call_start|>[a(x="1"), b(y=2)]<|tool_call_end|>I look.',
    said('I look.', call('a', '{"x": "1"}'), call('b', '{"y": 2}'))],
  ['lfm: as JSON', { tools: 'lfm' }, '<|tool_call_start|>[{"name": "a", "arguments": {}}]<|tool_call_end|>',
    said('', call('a', '{}'))],
  ['harmony: reasoning, a call', { tools: 'harmony', reasoning: 'harmony' },
    '<|channel|>analysis<|message|>Need weather.<|end|><|start|>assistant' +
    '<|channel|>commentary to=functions.a <|constrain|>json<|message|>{"x": "<"}<|call|>',
    { ...said('', call('a', '{"x": "<"}')), reasoning: 'Need weather.' }],
  ['harmony: the name in front of the channel', { tools: 'harmony', reasoning: 'harmony' },
    ' to=functions.a<|channel|>commentary json<|message|>{}<|call|>', said('', call('a', '{}'))],
  ['harmony: words, a call, then an answer', { tools: 'harmony', reasoning: 'harmony' },
    '<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.a' +
    '<|message|>{}<|call|>', said('I look.', call('a', '{}'))],
  ['harmony: an answer', { tools: null, reasoning: 'harmony' },
    '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>2 < 3<|return|>',
    { ...said('2 < 3'), reasoning: 'Hm.' }],
  ['harmony: no channels at all', { tools: null, reasoning: 'harmony' }, 'Just words', said('Just words')],
  ['harmony: cut in the reasoning', { tools: null, reasoning: 'harmony' },
    '<|channel|>analysis<|message|>on and', { ...said(''), reasoning: 'on and' }],
  ['command', { tools: 'command', reasoning: 'command' },
    '<|START_THINKING|>I will look.<|END_THINKING|><|START_ACTION|>[\n    {"tool_call_id": "0", ' +
    '"tool_name": "a", "parameters": {"x": 1}},\n    {"tool_call_id": "1", "tool_name": "b", ' +
    '"parameters": {}}\n]<|END_ACTION|>',
    { ...said('', call('a', '{"x": 1}'), call('b', '{}')), reasoning: 'I will look.' }],
  ['nemotron', { tools: 'nemotron' },
    '<think>\nHm.\n</think>\n\n<TOOLCALL>[{"name": "a", "arguments": {"x": 1}}, {"name": "b", ' +
    '"arguments": {}}]</TOOLCALL>',
    { ...said('', call('a', '{"x": 1}'), call('b', '{}')), reasoning: 'Hm.' }],
  ['nemotron: no call', { tools: 'nemotron' }, '<TOOLCALL>[]</TOOLCALL>!', said('[]!')],
  ['gemma', { tools: 'gemma', reasoning: 'gemma' },
    '<|channel>thought\nHm.<channel|><|tool_call>call:a{city:<|"|>São "x", {y}<|"|>,d:{k:<|"|>v<|"|>,n:},' +
    'l:[1,<|"|>b<|"|>,[]],ok:true}<tool_call|><|tool_call>call:b{}<tool_call|>',
    { ...said('', call('a', '{"city": "São \\"x\\", {y}", "d": {"k": "v", "n": null}, "l": [1, "b", []], ' +
    '"ok": true}'), call('b', '{}')), reasoning: 'Hm.' }],
  ['gemma: quoted names', { tools: 'gemma' },
    '<|tool_call>call:a{<|"|>k<|"|>:{"l:m": "\\"}\\u00e9\\\\"}}<tool_call|>.',
    said('.', call('a', '{"k": {"l:m": "\\"}é\\\\"}}'))],
  ['command answers', { tools: null, reasoning: 'command' },
    '<|START_THINKING|>so<|END_THINKING|><|START_TEXT|>Yes.<|END_TEXT|>',
    { ...said('Yes.'), reasoning: 'so' }],
  ['mistral thinks', { tools: 'mistral_named', reasoning: 'mistral' },
    '[THINK]so[/THINK]Yes.[TOOL_CALLS]a[ARGS]{}', { ...said('Yes.', call('a', '{}')), reasoning: 'so' }],
  ['granite 3.3 thinks', { tools: null, reasoning: 'granite' },
    '<think>so</think>\n<response>Yes.</response>', { ...said('Yes.'), reasoning: 'so' }],
  ['granite 3.2 thinks', { tools: null, reasoning: 'granite_text' },
    'Here is my thought process:\nso\nHere is my response:\nYes.', { ...said('Yes.'), reasoning: 'so' }],
  ['command thinks', { tools: null, reasoning: 'command' },
    '<|START_THINKING|>so<|END_THINKING|><|START_RESPONSE|>Yes.<|END_RESPONSE|>',
    { ...said('Yes.'), reasoning: 'so' }],
  ['seed thinks', { tools: null, reasoning: 'seed', startsInReasoning: true }, 'so</seed:think>Yes.',
    { ...said('Yes.'), reasoning: 'so' }],
  ['gemma thinks', { tools: null, reasoning: 'gemma' }, '<|channel>thought\nso<channel|>Yes.',
    { ...said('Yes.'), reasoning: 'so' }]
]

t.test('outputs are taken apart the same however they are cut', async (t) => {
  const d = dice(7)
  for (const [name, options, text, wanted] of cases) {
    t.strictSame(read([text], options), wanted, name)
    const check = (parts: string[]): void => {
      const got = read(parts, options)
      if (JSON.stringify(got) === JSON.stringify(wanted)) return
      t.strictSame(got, wanted, `${name}: ${JSON.stringify(parts)}`)
    }
    check(text.split(''))
    for (let i = 1; i < text.length; i++) check([text.slice(0, i), text.slice(i)])
    for (let round = 0; round < 10; round++) {
      const parts: string[] = []
      for (let at = 0; at < text.length; at += parts.at(-1)!.length) {
        parts.push(text.slice(at, at + 1 + d.below(9)))
      }
      check(parts)
    }
    for (const { arguments: given } of wanted.calls) t.doesNotThrow(() => JSON.parse(given), `${name}: JSON`)
  }
})

t.test('whatever an output is, it is read, and the same however it is cut', async (t) => {
  const d = dice(11)
  const marks = [...new Set(cases.flatMap(([, , text]) => text.match(/<[^<>\s]{2,24}>|\[[A-Z_/]+\]/g) ?? []))]
  const odd = ['{', '}', '[', ']', '"', '\\', '{"name": "a", ', '"arguments": {', 'a(', 'x=', ')', '\n',
    ' ', 'f', '```json']
  for (const [name, options] of cases) {
    for (let round = 0; round < 12; round++) {
      const pieces = Array.from({ length: 1 + d.below(14) }, () => d.of(d.below(2) === 0 ? marks : odd))
      const text = pieces.join('')
      const whole = read([text], options)
      const cut = read(text.split(''), options)
      if (JSON.stringify(whole) === JSON.stringify(cut)) continue
      t.strictSame(cut, whole, `${name}: ${JSON.stringify(text)}`)
    }
  }
})

t.test('a call that is cut has no arguments that could be taken for whole ones', async (t) => {
  t.strictSame(read(['<|tool_call>call:a{k:<|"|>v'], { tools: 'gemma' }).calls, [call('a', '{')])
  const broken = '<tool_call>{"name": "a", "arguments": {"x": "y'
  t.strictSame(read(broken.split(''), { tools: 'hermes' }).calls, [call('a', '{"x": "y')])
})

t.test('a text comes while it is written, not at its end', async (t) => {
  const reader = new OutputReader({ tools: 'qwen_coder', parameters, newId: () => 'id' })
  const args = (text: string): string =>
    (reader.push(text).tool_calls ?? []).map((each) => each.function.arguments ?? '').join('')
  t.equal(args('<tool_call>\n<function=f>\n<parameter=city>\nab'), '{"city": "ab')
  t.equal(args('c "d'), 'c \\"d')
  t.equal(args('\n</para'), '', 'what may be the end is held back')
  t.equal(args('graph>'), '\\n</paragraph>')
})

t.test('arguments come before the call is over', async (t) => {
  const reader = new OutputReader({ tools: 'hermes', newId: () => 'id' })
  t.strictSame(reader.push('<tool_call>{"name": "a", "arguments": {"x').tool_calls?.map((d) =>
    d.function.arguments ?? '').join(''), '{"x')
  t.strictSame(reader.push('": 1').tool_calls?.map((d) => d.function.arguments).join(''), '": 1')
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
