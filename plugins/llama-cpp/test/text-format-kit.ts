/** Chat templates for every tool call format. */
import { readFileSync } from 'node:fs'
import { OutputReader, type OutputDelta, type OutputOptions } from '../text/parse/output.js'
import type { ReasoningName } from '../text/reasoning.js'
import type { ToolFormatName } from '../text/tools/index.js'
import { seededRandom } from './random.js'

export const recorded = (name: string): string =>
  readFileSync(new URL(`./fixtures/templates/${name}.jinja`, import.meta.url), 'utf8')

/** Makes a chat template in a family's format, written from the family's public documentation. */
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

const gemma = (open: string, end: string, quote: string): string =>
  each(`${open}call:{{ c.function.name }}{{ "{" }}{% for k, v in c.function.arguments | items %}{{ k }}:` +
    `{% if v is string %}${quote}{{ v }}${quote}{% elif v is boolean or v is number %}{{ v | tojson }}` +
    `{% else %}[{% for x in v %}${quote}{{ x }}${quote}{% if not loop.last %},{% endif %}{% endfor %}]` +
    `{% endif %}{% if not loop.last %},{% endif %}{% endfor %}{{ "}" }}${end}`, '')

/** A chat template, and the tool call and reasoning formats that svc must detect in it. */
export interface Known { template: string, format: ToolFormatName | null, reasoning: ReasoningName | null }

/** Chat templates by model family. */
export const KNOWN: Record<string, Known> = {
  qwen3: { template: recorded('qwen3'), format: 'hermes', reasoning: 'think' },
  qwen3_coder: { template: recorded('qwen3-coder'), format: 'qwen_coder', reasoning: null },
  glm: { template: recorded('glm-4.6'), format: 'glm', reasoning: 'think' },
  mistral_nemo: { template: recorded('mistral-nemo'), format: 'mistral', reasoning: null },
  mistral_small: { template: recorded('mistral-small-3.2'), format: 'mistral_named', reasoning: null },
  granite: { template: recorded('granite-3.3'), format: 'granite', reasoning: 'granite' },
  gpt_oss: { template: recorded('gpt-oss'), format: 'harmony', reasoning: 'harmony' },
  llama: { template: own('Functions: ', each(object('parameters'), '; ')), format: 'llama', reasoning: null },
  lfm: {
    template: own('List of tools: ', `<|tool_call_start|>[${python}]<|tool_call_end|>`), format: 'lfm',
    reasoning: null
  },
  command: {
    template: own('tools: ', '<|START_ACTION|>[' + each('{"tool_call_id": "{{ loop.index0 }}", ' +
      '"tool_name": "{{ c.function.name }}", "parameters": {{ c.function.arguments | tojson }}}', ', ') +
      ']<|END_ACTION|>{# <|START_THINKING|> #}'),
    format: 'command', reasoning: 'command'
  },
  nemotron: {
    template: own('tools: ', `<TOOLCALL>[${each(object('arguments'), ', ')}]</TOOLCALL>`),
    format: 'nemotron', reasoning: null
  },
  gemma: {
    template: own('tools: ', gemma('<|tool_call>', '<tool_call|>', '<|"|>')), format: 'gemma', reasoning: null
  }
}

/** A pseudorandom source of floats, integers below n, and list items. */
export interface Dice { next (): number, below (n: number): number, of<T> (list: readonly T[]): T }

export function dice (seed: number): Dice {
  const next = seededRandom(seed)
  const below = (n: number): number => Math.floor(next() * n)
  return { next, below, of: (list) => list[below(list.length)] as (typeof list)[number] }
}

export interface Call { name: string, arguments: string }
/** A parsed model output, with the pieces of each field joined. */
export interface Whole { content: string, reasoning: string, calls: Call[] }

/** Parses a model output that arrives in the given parts. */
export function read (parts: readonly string[], options: Omit<OutputOptions, 'newId'>): Whole {
  let ids = 0
  const reader = new OutputReader({ ...options, newId: () => `call_${ids++}` })
  const whole: Whole = { content: '', reasoning: '', calls: [] }
  const take = (delta: NonNullable<OutputDelta['tool_calls']>[number]): void => {
    if (delta.id !== undefined) {
      if (whole.calls.push({ name: delta.function.name ?? '', arguments: '' }) - 1 !== delta.index) {
        throw new Error(`call ${delta.index} came as another one`)
      }
    }
    const call = whole.calls[delta.index]
    if (call === undefined) throw new Error('arguments before the name')
    call.arguments += delta.function.arguments ?? ''
  }
  for (const piece of [...parts.map((p) => reader.push(p)), reader.end()]) {
    const { content = '', reasoning_content: reasoning = '', tool_calls: calls = [] } = piece
    whole.content += content
    whole.reasoning += reasoning
    const numbers = calls.map(({ index }) => index)
    if (new Set(numbers).size < numbers.length) throw new Error('two pieces of one call at once')
    calls.forEach(take)
  }
  if (reader.calls !== whole.calls.length) throw new Error('other calls were counted')
  return whole
}
