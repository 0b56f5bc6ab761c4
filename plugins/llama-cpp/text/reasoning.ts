/** Reasoning formats. To support a new format, add a row to `ROWS`. */
import { HARMONY_MARKERS } from './tools/harmony.js'

export interface Reasoning {
  /** Texts in the template or among the vocabulary's added tokens, one of which identifies the format. */
  shows: readonly string[]
  /** Marker that begins reasoning; the prompt may already contain it. */
  opens: string
  closes: string
  /** Markers around the answer, which are removed from it. */
  around?: readonly string[]
  /** Marker that begins a tool call inside reasoning. */
  calls?: string
  /** Set if the whole output is a sequence of messages in channels (tools/harmony.ts). */
  channels?: true
}

const ROWS = {
  /** gpt-oss, which reasons in the channel `analysis`. */
  harmony: {
    shows: ['<|channel|>analysis', '<|channel|>final'],
    opens: '<|channel|>analysis<|message|>', closes: '<|end|>', channels: true
  },
  /** Granite 3.2. */
  granite_text: {
    shows: ['Here is my thought process:'], opens: 'Here is my thought process:',
    closes: 'Here is my response:'
  },
  /** Granite 3.3. */
  granite: {
    shows: ['<response></response>'], opens: '<think>', closes: '</think>',
    around: ['<response>', '</response>']
  },
  /** Magistral and Ministral. */
  mistral: { shows: ['[THINK]', '[/THINK]'], opens: '[THINK]', closes: '[/THINK]' },
  /** Command A and R7B. */
  command: {
    shows: ['<|START_THINKING|>'], opens: '<|START_THINKING|>', closes: '<|END_THINKING|>',
    around: ['<|START_RESPONSE|>', '<|END_RESPONSE|>', '<|START_TEXT|>', '<|END_TEXT|>']
  },
  /** Apertus; it calls tools while it reasons. */
  apertus: {
    shows: ['<|inner_prefix|>'], opens: '<|inner_prefix|>', closes: '<|inner_suffix|>',
    around: ['<|inner_suffix|>'], calls: '<|tools_prefix|>'
  },
  seed: { shows: ['<seed:think>'], opens: '<seed:think>', closes: '</seed:think>' },
  /** Gemma 4. */
  gemma: { shows: ['<|channel>thought'], opens: '<|channel>thought', closes: '<channel|>' },
  /** Qwen, DeepSeek, GLM, SmolLM3, Nemotron and many more. */
  think: { shows: ['<think>', '</think>'], opens: '<think>', closes: '</think>' }
} as const satisfies Record<string, Reasoning>

export type ReasoningName = keyof typeof ROWS
export const reasonings: Readonly<Record<ReasoningName, Reasoning>> = ROWS

/** Special tokens that the text stream must pass on for this format. */
export const reasoningMarkers = ({ opens, closes, around = [], channels }: Reasoning): readonly string[] =>
  channels === true ? HARMONY_MARKERS : [opens, closes, ...around]

/** Detects the reasoning format from template and vocabulary; null for none. */
export function reasoningOf (template: string, added: Iterable<string>): ReasoningName | null {
  const text = [template, ...added].join('\n')
  const names = Object.keys(ROWS) as ReasoningName[]
  return names.find((name) => reasonings[name].shows.some((shown) => text.includes(shown))) ?? null
}

/** Where a prompt ends: inside reasoning, after reasoning, or where reasoning may begin. */
export type ReasoningState = 'inside' | 'over' | 'may'

export function reasoningStateAfter (prompt: string, { opens, closes }: Reasoning): ReasoningState {
  const end = prompt.trimEnd()
  return end.endsWith(opens) ? 'inside' : end.endsWith(closes) ? 'over' : 'may'
}
