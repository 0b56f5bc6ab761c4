/** Outputs of every format of tool calls and reasoning, as models write them, whole, cut and broken. */
import t from 'tap'
import type { OutputOptions } from '../text/parse/output.js'
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
    '"id": "1"}</tool_call>',
    said('', call('a', '{"x": {"name": "y"}}'))],
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
  ['deepseek: V3 and R1', { tools: 'deepseek' },
    '<think>hm</think>I look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>a\n' +
    '```json\n{"x": "```"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>b\n' +
    '```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    { ...said('I look.', call('a', '{"x": "```"}'), call('b', '{}')), reasoning: 'hm' }],
  ['deepseek: V3.1', { tools: 'deepseek_named' },
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>a<｜tool▁sep｜>{"x": 1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>b' +
    '<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>', said('', call('a', '{"x": 1}'), call('b', '{}'))],
  ['deepseek: without the outer marks', { tools: 'deepseek_named' },
    'So <｜tool▁call▁begin｜>a<｜tool▁sep｜>{"x": 1}<｜tool▁call▁end｜>', said('So', call('a', '{"x": 1}'))],
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
    '</tool_call>',
    said('', call('f', '{"city": "\\nif a < b:\\n\\t\\"x\\"\\n"}'))],
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
  ['lfm: as JSON', { tools: 'lfm' },
    '<|tool_call_start|>[{"name": "a", "arguments": {}}]<|tool_call_end|>',
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
  ['kimi', { tools: 'kimi' },
    'I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.a:0<|tool_call_argument_begin|>' +
    '{"x": 1}<|tool_call_end|><|tool_call_begin|>functions.b.c:1<|tool_call_argument_begin|>{}' +
    '<|tool_call_end|><|tool_calls_section_end|>', said('I look.', call('a', '{"x": 1}'), call('b.c', '{}'))],
  ['kimi: no arguments', { tools: 'kimi' },
    '<|tool_calls_section_begin|><|tool_call_begin|>functions.a:0<|tool_call_argument_begin|>' +
    '<|tool_call_end|><|tool_calls_section_end|>', said('', call('a', '{}'))],
  ['solar', { tools: 'solar' },
    '<|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>a<|tool_call:args|>{"x": "<"}' +
    '<|tool_call:end|><|tool_call:begin|>f1b2c3d4e5<|tool_call:name|>b<|tool_call:args|>{}' +
    '<|tool_call:end|><|calls|>', said('', call('a', '{"x": "<"}'), call('b', '{}'))],
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
  ['minimax M1', { tools: 'minimax' },
    '<tool_calls>\n{"name": "a", "arguments": {"x": 1}}\n{"name": "b", "arguments": {}}\n</tool_calls>',
    said('', call('a', '{"x": 1}'), call('b', '{}'))],
  ['minimax M2', { tools: 'minimax_invoke', parameters },
    `I see.\n<minimax:tool_call>\n<invoke name="f">\n${fields((k, v) =>
      `<parameter name="${k}">${v}</parameter>`)}\n</invoke>\n<invoke name="b">\n</invoke>\n` +
      '</minimax:tool_call>', said('I see.', call('f', TYPED), call('b', '{}'))],
  ['minimax M2: an end forgotten', { tools: 'minimax_invoke', parameters },
    '<minimax:tool_call>\n<invoke name="f">\n<parameter name="city">a\n"b" <c></parameter>\n' +
    '</minimax:tool_call> so', said('so', call('f', '{"city": "a\\n\\"b\\" <c>"}'))],
  ['deepseek: V3.2', { tools: 'deepseek_invoke' },
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="a">\n<｜DSML｜parameter name="x" string="true">5' +
    '</｜DSML｜parameter>\n<｜DSML｜parameter name="n" string="false">[5, null]</｜DSML｜parameter>\n' +
    '</｜DSML｜invoke>\n</｜DSML｜function_calls>', said('', call('a', '{"x": "5", "n": [5, null]}'))],
  ['deepseek: V4, twice', { tools: 'deepseek_invoke4', parameters },
    `Well.<｜DSML｜tool_calls>${['1', 'x'].map((city) => '\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter ' +
      `name="city" string="false">${city}</｜DSML｜parameter>\n</｜DSML｜invoke>`).join('')}\n` +
      '</｜DSML｜tool_calls>', said('Well.', call('f', '{"city": "1"}'), call('f', '{"city": "x"}'))],
  ['gemma', { tools: 'gemma', reasoning: 'gemma' },
    '<|channel>thought\nHm.<channel|><|tool_call>call:a{city:<|"|>São "x", {y}<|"|>,d:{k:<|"|>v<|"|>,n:},' +
    'l:[1,<|"|>b<|"|>,[]],ok:true}<tool_call|><|tool_call>call:b{}<tool_call|>',
    { ...said('', call('a', '{"city": "São \\"x\\", {y}", "d": {"k": "v", "n": null}, "l": [1, "b", []], ' +
    '"ok": true}'), call('b', '{}')), reasoning: 'Hm.' }],
  ['gemma: quoted names', { tools: 'gemma' },
    '<|tool_call>call:a{<|"|>k<|"|>:{"l:m": "\\"}\\u00e9\\\\"}}<tool_call|>.',
    said('.', call('a', '{"k": {"l:m": "\\"}é\\\\"}}'))],
  ['apertus', { tools: 'apertus', reasoning: 'apertus' },
    '<|inner_prefix|>I look.<|tools_prefix|>[{"a": {"x": 1}}, {"b": {}}]<|tools_suffix|><|inner_suffix|>So.',
    { ...said('So.', call('a', '{"x": 1}'), call('b', '{}')), reasoning: 'I look.' }],
  ['functionary', { tools: 'functionary' },
    'Sure. <function=a>{"x": "</function>"}</function><function=b>{}</function>',
    said('Sure.', call('a', '{"x": "</function>"}'), call('b', '{}'))],
  ['functionary: no name', { tools: 'functionary' }, 'write <function= f>', said('write<function= f>')],
  ['minimax M3 thinks', { tools: null, reasoning: 'minimax' }, '<mm:think>so</mm:think>Yes.',
    { ...said('Yes.'), reasoning: 'so' }],
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
  t.strictSame(read(['<|tool_call_begin|>'], { tools: 'kimi' }).calls, [])
  const kimi = '<|tool_calls_section_begin|><|tool_call_begin|>functions.a:0' +
    '<|tool_call_argument_begin|>{"x": 1'
  t.strictSame(read([kimi], { tools: 'kimi' }).calls, [call('a', '{"x": 1')])
})

t.test('a text comes while it is written, not at its end', async (t) => {
  const { OutputReader } = await import('../text/parse/output.js')
  const reader = new OutputReader({ tools: 'qwen_coder', parameters, newId: () => 'id' })
  const args = (text: string): string =>
    reader.push(text).toolCalls.map((each) => each.arguments ?? '').join('')
  t.equal(args('<tool_call>\n<function=f>\n<parameter=city>\nab'), '{"city": "ab')
  t.equal(args('c "d'), 'c \\"d')
  t.equal(args('\n</para'), '', 'what may be the end is held back')
  t.equal(args('graph>'), '\\n</paragraph>')
})
