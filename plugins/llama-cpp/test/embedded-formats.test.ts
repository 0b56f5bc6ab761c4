/** A grammar makes the model write each family's tool calls and reasoning, which become OpenAI deltas. */
import t from 'tap'
import { loadTiny } from './embedded-kit.js'
import { tinyModel } from './gguf-kit.js'
import { KNOWN } from './text-format-kit.js'

const PARAMETERS = { type: 'object', properties: { city: { type: 'string', description: 'City' } } }
const tools = [{ type: 'function', function: { name: 'look', description: 'Looks', parameters: PARAMETERS } }]

/** The same output in each family's format: the reasoning "so" and a call of `look` for the city Oslo. */
const WRITTEN: Record<string, string> = {
  qwen3: '<think>so</think><tool_call>\n{"name": "look", "arguments": {"city": "Oslo"}}\n</tool_call>',
  qwen3_coder: '<tool_call>\n<function=look>\n<parameter=city>\nOslo\n</parameter>\n</function>\n' +
    '</tool_call>',
  glm: '<think>so</think><tool_call>look\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n</tool_call>',
  mistral_nemo: '[TOOL_CALLS] [{"name": "look", "arguments": {"city": "Oslo"}, "id": "abcdefghi"}]',
  mistral_small: '[TOOL_CALLS]look[ARGS]{"city": "Oslo"}',
  granite: '<think>so</think><|tool_call|>[{"name": "look", "arguments": {"city": "Oslo"}}]',
  gpt_oss: '<|channel|>analysis<|message|>so<|end|><|start|>assistant<|channel|>commentary ' +
    'to=functions.look <|constrain|>json<|message|>{"city": "Oslo"}<|call|>',
  llama: '{"name": "look", "parameters": {"city": "Oslo"}}',
  lfm: '<|tool_call_start|>[look(city="Oslo")]<|tool_call_end|>',
  command: '<|START_THINKING|>so<|END_THINKING|><|START_ACTION|>[{"tool_call_id": "0", ' +
    '"tool_name": "look", "parameters": {"city": "Oslo"}}]<|END_ACTION|>',
  nemotron: '<TOOLCALL>[{"name": "look", "arguments": {"city": "Oslo"}}]</TOOLCALL>',
  gemma: '<|tool_call>call:look{city:<|"|>Oslo<|"|>}<tool_call|>'
}

for (const [family, written] of Object.entries(WRITTEN)) {
  t.test(family, async (t) => {
    const { template } = KNOWN[family]!
    const special = [...new Set(written.match(/<\|[^<>\s]+\|?>|<\/?[a-z_:]+>|\[[A-Z_]+\]/g) ?? [])]
      .filter((token) => !/^<\/?(tool_call)>$/.test(token))
    const { ask } = await loadTiny(t, { file: tinyModel({ template, special }), spec: { contextLength: 4096 },
      card: { contextLength: 4096 } })
    const { text, reasoning, calls, finish } = await ask({
      tools, grammar: `root ::= ${JSON.stringify(written)}`, temperature: 0
    })
    t.same(calls.map((call) => [call.name, JSON.parse(call.arguments)]), [['look', { city: 'Oslo' }]])
    t.match({ text, reasoning, finish },
      { text: '', reasoning: written.includes('so<') ? 'so' : '', finish: 'tool_calls' })
  })
}
