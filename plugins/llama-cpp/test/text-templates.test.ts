/** Detection of how chat templates handle tools and reasoning. */
import t from 'tap'
import { ChatTemplate, strftime } from '../text/template.js'
import { reasoningStateAfter, reasonings } from '../text/reasoning.js'
import { KNOWN, read } from './text-format-kit.js'

const made = (template: string): ChatTemplate =>
  new ChatTemplate(new Map([['default', template]]), { bos_token: '<s>', eos_token: '</s>' })
const PARAMETERS = {
  type: 'object', required: ['city'],
  properties: {
    city: { type: 'string', description: 'City' }, days: { type: 'integer', description: 'Days' },
    exact: { type: 'boolean', description: 'Exact' }, tags: { type: 'array', description: 'Tags' }
  }
}
const tools = ['weather', 'clock'].map((name) =>
  ({ type: 'function', function: { name, description: 'Looks it up', parameters: PARAMETERS } }))
const GIVEN = { city: 'São Paulo "SP"', days: 3, exact: true, tags: ['a', 'b'] }
const call = (name: string, id: string, given: object): object =>
  ({ id, type: 'function', function: { name, arguments: JSON.stringify(given) } })
const user = { role: 'user', content: 'hi' }
/** Families whose templates do not render the tool calls of earlier turns. */
const SHOWS_NONE = new Set(['granite'])

t.test('a call that a template renders is read back from it', async (t) => {
  for (const [family, { template, format, reasoning }] of Object.entries(KNOWN)) {
    const model = made(template)
    t.match(model.tools, { way: 'tools', format }, family)
    t.equal(model.reasoning, reasoning, family)
    const prompt = model.render([user], { tools, addGenerationPrompt: true })
    t.match(prompt, /weather[^]*clock/, `${family} shows the tools`)
    if (SHOWS_NONE.has(family)) continue
    // Avoid quotes in this family's strings; the tests of the Python reader cover quotes.
    const given = family === 'lfm' ? { ...GIVEN, city: 'São Paulo', exact: 1 } : GIVEN
    const calls = [call('weather', 'abcdefgh1', given)]
    const messages = [user, { role: 'assistant', content: null, tool_calls: calls }]
    const whole = model.render(messages, { tools, addGenerationPrompt: false })
    let same = 0
    while (same < prompt.length && prompt[same] === whole[same]) same++
    const got = read([whole.slice(same)], { tools: format, reasoning, parameters: () => PARAMETERS })
    t.equal(got.calls.length, 1, family)
    t.equal(got.calls[0]?.name, 'weather', family)
    t.same(JSON.parse(got.calls[0]?.arguments ?? 'null'), given, family)
  }
})

t.test('templates without a place for tools, and ways of their own to take them', async (t) => {
  const plain = '{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}'
  const none = made(plain)
  t.match(none.tools, { way: null, format: null })
  t.equal(none.render([user], { addGenerationPrompt: true }), 'user: hi\n')
  // Format markers in a comment or in text do not imply tool support.
  const deceiving = made(`${plain}{# tools #}<tool_call>{{ "tools" }}`)
  t.match(deceiving.tools, { way: null })
  const failing = made(`{% if tools %}{{ raise_exception('not these') }}{% endif %}${plain}`)
  t.match(failing.tools, { way: null, problem: /not these/ })
  const foreign = made(`{% if tools %}{{ tools | tojson }}{% endif %}${plain}` +
    '{% for m in messages %}{% if m.tool_calls %}@@{{ m.tool_calls[0].function.name }}{% endif %}' +
    '{% endfor %}<tool_call>')
  t.match(foreign.tools, { way: 'tools', format: null })
  const xml = made('{% if xml_tools %}{{ xml_tools | tojson }}<tool_call>{% endif %}' +
    '{{ messages[0].content }}')
  t.match(xml.tools, { way: 'xml_tools', format: 'hermes' })
  t.match(xml.render([user], { tools, addGenerationPrompt: true }), /"weather"/)
  const text = made('{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}' +
    '{% if m.tool_calls %}{% set f = m.tool_calls[0].function %}<tool_call>' +
    '{{ \'{"name": "\' + f.name + \'", "arguments": \' + f.arguments }}}</tool_call>' +
    '{% else %}{{ m.content }}{% endif %}{% endfor %}')
  t.match(text.tools, { format: 'hermes', form: 'text' }, 'arguments as text')
})

t.test('where an answer begins', async (t) => {
  const begins = (family: string, extra: Record<string, unknown> = {}): string => {
    const model = made(KNOWN[family]!.template)
    const prompt = model.render([user], { addGenerationPrompt: true, extra })
    return reasoningStateAfter(prompt, reasonings[model.reasoning ?? 'think'])
  }
  t.equal(begins('qwen3'), 'may')
  t.equal(begins('qwen3', { enable_thinking: false }), 'over')
  t.equal(begins('glm'), 'may')
  t.equal(reasoningStateAfter('<|Assistant|><think>\n', reasonings.think), 'inside')
  t.equal(reasoningStateAfter('what does <think> mean? <|assistant|>', reasonings.think), 'may')
})

t.test('what templates are given', async (t) => {
  const plain = { addGenerationPrompt: true }
  const of = (template: string): ChatTemplate => made(template)
  t.equal(of('{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m.content }}{{ eos_token }}{% endfor %}' +
    '{% if add_generation_prompt %}>{% endif %}').render([user, { role: 'user', content: null }], plain),
  '<s>user:hi</s>user:</s>>')
  t.equal(of('{{ tools is none }}{{ enable_thinking }}').render([user],
    { addGenerationPrompt: false, tools: [], extra: { enable_thinking: false } }), 'truefalse')
  const called = (given: string): { role: string, content: null, tool_calls: object[] } =>
    ({ role: 'assistant', content: null, tool_calls: [{ function: { name: 'f', arguments: given } }] })
  t.equal(of('{{ messages[0].tool_calls[0].function.arguments.x[0] }}').render([called('{"x": [1]}')], plain),
    '1', 'arguments are an object')
  t.equal(of('{{ messages[0].tool_calls[0].function.arguments }}').render([called('no')], plain), 'no')
  const named = new ChatTemplate(new Map([['default', 'D'],
    ['tool_use', 'T{{ tools | length }}{{ tools[0].function.name }}<tool_call>']]), {})
  t.equal(named.render([user], plain), 'D')
  t.equal(named.render([user], { ...plain, tools }), 'T2weather<tool_call>')
  t.throws(() => of('{% if %}').render([user], plain),
    { reason: 'invalid_request', message: /chat template fails.*CloseStatement/ })
})

t.test('templates that throw, loop or explode', async (t) => {
  const render = (template: string): string => made(template).render([user], { addGenerationPrompt: true })
  const loops = '{% for i in range(99999) %}{% for j in range(99999) %}{% set x = j %}' +
    '{% endfor %}{% endfor %}'
  // Templates that build values of millions of characters or items with few expressions.
  const grown = (begins: string): string => `{%- set x = ${begins} -%}${'{%- set x = x + x -%}'.repeat(20)}` +
    '{% for i in range(99999) %}{% set y = x | '
  const bad: [string, RegExp][] = [
    ['{{ raise_exception("roles must alternate") }}', /roles must alternate/], [loops, /steps/],
    [`${grown('"aaaaaaaa"')}upper %}{% endfor %}`, /steps/],
    [`${grown('[1, 2]')}length %}{% endfor %}`, /steps/],
    ['{% for i in range(1000000000) %}{% endfor %}', /range/],
    ['{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}', /./], ['{{ messages | nofilter }}', /./]
  ]
  for (const [template, message] of bad) {
    t.throws(() => render(template), { reason: 'invalid_request', message })
  }
  const long = made('{% for m in messages %}{{ m.content | trim }}{{ m["content"] }}{% endfor %}')
  const said = [{ role: 'user', content: 'x'.repeat(2 ** 20) }]
  t.equal(long.render(said, { addGenerationPrompt: true }).length, 2 * 2 ** 20)
})

t.test('time in templates', async (t) => {
  const date = new Date(2026, 8, 5, 7, 8, 9)
  t.equal(strftime(date, '%Y-%m-%d %H:%M:%S %B %b %A %a %y %-d %% %q'),
    '2026-09-05 07:08:09 September Sep Saturday Sat 26 5 % %q')
  const now = made('{{ strftime_now("%Y-%m-%dT%H:%M:%S") }}')
  const shown = Date.parse(now.render([], { addGenerationPrompt: true }))
  t.ok(Math.abs(Date.now() - shown) < 5000)
})
