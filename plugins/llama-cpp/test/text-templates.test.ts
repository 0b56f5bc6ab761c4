/** What chat templates do with tools and reasoning, by rendering them. */
import t from 'tap'
import { ChatTemplate } from '../text/template.js'
import { thoughtsAfter, reasonings } from '../text/reasoning.js'
import { KNOWN, read, recorded } from './text-format-kit.js'

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
/** Templates that show no calls of earlier turns. */
const SHOWS_NONE = new Set(['granite'])

t.test('a call that a template renders is read back from it', async (t) => {
  for (const [family, { template, format, reasoning }] of Object.entries(KNOWN)) {
    const model = made(template)
    t.match(model.tools, { way: 'tools', format }, family)
    t.equal(model.reasoning, reasoning, family)
    const prompt = model.render([user], { tools, addGenerationPrompt: true })
    t.match(prompt, /weather[^]*clock/, `${family} shows the tools`)
    if (SHOWS_NONE.has(family)) continue
    // Quotes in Python's texts are left to the table of its reader.
    const given = ['pythonic', 'lfm'].includes(family) ? { ...GIVEN, city: 'São Paulo', exact: 1 } : GIVEN
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
  const refused = { reason: 'invalid_request', message: /shows it no tools/,
    details: { issues: [{ path: 'tools' }] } }
  t.throws(() => none.render([user], { tools, addGenerationPrompt: true }), refused)
  t.equal(none.render([user], { addGenerationPrompt: true }), 'user: hi\n')
  const deepseek = made(recorded('deepseek-v3.1'))
  t.match(deepseek.tools, { way: null, format: 'deepseek_named' }, 'shows calls, and no tools')
  t.throws(() => deepseek.render([user], { tools, addGenerationPrompt: true }), refused)
  // The name of a format in a text is no place for tools.
  const deceiving = made(`${plain}{# tools #}<tool_call>{{ "tools" }}`)
  t.throws(() => deceiving.render([user], { tools, addGenerationPrompt: true }), refused)
  const failing = made(`{% if tools %}{{ raise_exception('not these') }}{% endif %}${plain}`)
  t.throws(() => failing.render([user], { tools, addGenerationPrompt: true }),
    { reason: 'invalid_request', message: /not these, with tools/, details: { issues: [{ path: 'tools' }] } })
  const foreign = made(`{% if tools %}{{ tools | tojson }}{% endif %}${plain}` +
    '{% for m in messages %}{% if m.tool_calls %}@@{{ m.tool_calls[0].function.name }}{% endif %}' +
    '{% endfor %}<tool_call>')
  t.match(foreign.tools, { way: 'tools', format: null })
  t.throws(() => foreign.render([user], { tools, addGenerationPrompt: true }),
    { reason: 'invalid_request', message: /not known here/ })
  const inside = made('{% for m in messages %}{{ m.role }}' +
    '{% if m.tools %}<|tool|>{{ m.tools }}<|/tool|>{% endif %}{{ m.content }}\n{% endfor %}')
  t.match(inside.tools, { way: 'system', format: 'phi' })
  t.match(inside.render([user], { tools, addGenerationPrompt: true }), /^system<\|tool\|>\[{"name":"weather"/)
  t.match(inside.render([{ role: 'system', content: 'Be kind' }, user], { tools, addGenerationPrompt: true }),
    /^system<\|tool\|>.*<\|\/tool\|>Be kind\nuserhi\n$/)
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
    return thoughtsAfter(prompt, reasonings[model.reasoning ?? 'think'])
  }
  t.equal(begins('qwen3'), 'may')
  t.equal(begins('qwen3', { enable_thinking: false }), 'over')
  t.equal(begins('glm'), 'may')
  t.equal(begins('deepseek_r1'), 'inside')
  t.equal(thoughtsAfter('what does <think> mean? <|assistant|>', reasonings.think), 'may')
})
