/** Models with the chat templates of every format of tool calls. */
import { readFileSync } from 'node:fs'
import { loadText } from '../text/index.js'
import type { LoadedText } from '../text/index.js'
import { OutputReader, type OutputOptions, type ToolCallDelta } from '../text/parse/output.js'
import type { ReasoningName } from '../text/reasoning.js'
import type { ToolFormatName } from '../text/tools/index.js'
import { byteLevelTokenizer, modelFolder } from './text-kit.js'

/** A recorded template. */
export const recorded = (name: string): string =>
  readFileSync(new URL(`./fixtures/templates/${name}.jinja`, import.meta.url), 'utf8')

/** A template of our own: how a family writes messages and calls, by its public documentation. */
const own = (tools: string, call: string, begin = '<|assistant|>', end = '<|end|>'): string =>
  `{%- if tools %}{{ '<|system|>${tools}' + tools | tojson + '${end}' }}{% endif %}` +
  '{%- for m in messages %}{{ "<|" + m.role + "|>" + m.content }}' +
  `{%- if m.tool_calls %}${call}{% endif %}{{ '${end}' }}{% endfor %}` +
  `{%- if add_generation_prompt %}{{ '${begin}' }}{% endif %}`
const each = (inner: string, between: string): string =>
  `{%- for c in m.tool_calls %}${inner}{% if not loop.last %}{{ '${between}' }}{% endif %}{% endfor %}`
const python = each('{{ c.function.name }}({% for k, v in c.function.arguments | items %}{{ k }}=' +
  '{% if v is string %}"{{ v }}"{% else %}{{ v | tojson }}{% endif %}' +
  '{% if not loop.last %}, {% endif %}{% endfor %})', ', ')
const object = (key: string): string =>
  `{{ {"name": c.function.name, "${key}": c.function.arguments} | tojson }}`

/** A template, and what is to be found in it. */
export interface Known { template: string, format: ToolFormatName | null, reasoning: ReasoningName | null }

/** Templates by the family that they are of. */
export const KNOWN: Record<string, Known> = {
  qwen3: { template: recorded('qwen3'), format: 'hermes', reasoning: 'think' },
  qwen3_coder: { template: recorded('qwen3-coder'), format: 'qwen_coder', reasoning: null },
  glm: { template: recorded('glm-4.6'), format: 'glm', reasoning: 'think' },
  mistral_nemo: { template: recorded('mistral-nemo'), format: 'mistral', reasoning: null },
  mistral_small: { template: recorded('mistral-small-3.2'), format: 'mistral_named', reasoning: null },
  granite: { template: recorded('granite-3.3'), format: 'granite', reasoning: 'granite' },
  gpt_oss: { template: recorded('gpt-oss'), format: 'harmony', reasoning: 'harmony' },
  deepseek_r1: { template: recorded('deepseek-r1'), format: 'deepseek', reasoning: 'think' },
  phi: {
    template: own('<|tool|>', `{{ "<|tool_call|>[" }}${each(object('arguments'), ', ')}` +
    '{{ "]<|/tool_call|>" }}'),
    format: 'phi', reasoning: null
  },
  llama: { template: own('Functions: ', each(object('parameters'), '; ')), format: 'llama', reasoning: null },
  pythonic: { template: own('Functions: ', `[${python}]`), format: 'pythonic', reasoning: null },
  lfm: {
    template: own('List of tools: ', `<|tool_call_start|>[${python}]<|tool_call_end|>`), format: 'lfm',
    reasoning: null
  }
}

/** Special tokens of the families above, as their vocabularies have them. */
const SPECIAL = ['<|start|>', '<|channel|>', '<|message|>', '<|constrain|>', '<|call|>', '<|return|>',
  '<|tool_call|>', '<|/tool_call|>', '<|tool_call_start|>', '<|tool_call_end|>', '[TOOL_CALLS]', '[ARGS]',
  '[CALL_ID]', '<｜tool▁calls▁begin｜>', '<｜tool▁call▁begin｜>', '<｜tool▁sep｜>', '<｜tool▁call▁end｜>',
  '<｜tool▁calls▁end｜>']

const learned = byteLevelTokenizer(60)

/** A small vocabulary with those tokens; messages of channels end with one that others have as text. */
export function vocabulary (template: string): Record<string, unknown> {
  const made = learned
  const { vocab } = made['model'] as { vocab: Record<string, number> }
  const own = template.includes('<|channel|>') ? ['<|end|>', ...SPECIAL] : SPECIAL
  const first = Object.keys(vocab).length + 4
  const added = own.map((content, i) => ({ id: first + i, content, special: true, normalized: false,
    single_word: false, lstrip: false, rstrip: false }))
  const [end, , tag] = made['added_tokens'] as { content: string }[]
  return { ...made, added_tokens: [{ ...end, content: '<eos>' }, tag, ...added] }
}

/** The text side of a model with a template. */
export const modelWith = async (root: string, template: string): Promise<LoadedText> =>
  await loadText(await modelFolder(root, {
    'tokenizer.json': vocabulary(template),
    'tokenizer_config.json': { eos_token: '<eos>', bos_token: '<s>', chat_template: template }
  }))

/** A call as a client sees it. */
export interface Call { name: string, arguments: string }
/** An answer as a client sees it. */
export interface Whole { content: string, reasoning: string, calls: Call[] }

/** What is read from an output that comes in these pieces. */
export function read (parts: readonly string[], options: Omit<OutputOptions, 'newId'>): Whole {
  let ids = 0
  const reader = new OutputReader({ ...options, newId: () => `call_${ids++}` })
  const whole: Whole = { content: '', reasoning: '', calls: [] }
  const take = (delta: ToolCallDelta): void => {
    if (delta.id !== undefined) {
      if (whole.calls.push({ name: delta.name ?? '', arguments: '' }) - 1 !== delta.index) {
        throw new Error(`call ${delta.index} came as another one`)
      }
    }
    const call = whole.calls[delta.index]
    if (call === undefined) throw new Error('arguments before the name')
    call.arguments += delta.arguments ?? ''
  }
  for (const piece of [...parts.map((p) => reader.push(p)), reader.end()]) {
    whole.content += piece.content
    whole.reasoning += piece.reasoning
    const numbers = piece.toolCalls.map(({ index }) => index)
    if (new Set(numbers).size < numbers.length) throw new Error('two pieces of one call at once')
    piece.toolCalls.forEach(take)
  }
  if (reader.calls !== whole.calls.length) throw new Error('other calls were counted')
  return whole
}
