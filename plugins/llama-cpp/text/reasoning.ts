/** How models write their reasoning. Another writing is a row of `REASONING`. */
import { HARMONY_MARKERS } from './tools/harmony.js'

export interface Reasoning {
  /** Texts of which a template, or the added tokens of a vocabulary, has one in this writing. */
  shows: readonly string[]
  /** Begins reasoning; the prompt may have begun it already. */
  opens: string
  closes: string
  /** Marks around the answer, which are dropped. */
  around?: readonly string[]
  /** Begins a call inside of reasoning, which counts as one. */
  calls?: string
  /** The whole output is a sequence of messages in channels (see tools/harmony.ts). */
  channels?: true
}

const ROWS = {
  /** gpt-oss: the channel `analysis`. */
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
  /** Apertus, which calls tools while it deliberates. */
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

/** Special tokens that a text stream has to pass on for the reader of a writing. */
export const reasoningMarkers = ({ opens, closes, around = [], channels }: Reasoning): readonly string[] =>
  channels === true ? HARMONY_MARKERS : [opens, closes, ...around]

/** The writing that a template, or a vocabulary, speaks of; null for none. */
export function reasoningOf (template: string, added: Iterable<string>): ReasoningName | null {
  const text = [template, ...added].join('\n')
  const names = Object.keys(ROWS) as ReasoningName[]
  return names.find((name) => reasonings[name].shows.some((shown) => text.includes(shown))) ?? null
}

/**
 * Where an answer begins, by the end of its prompt: inside reasoning, behind one that is closed already, or
 * where the model may begin one.
 */
export type ReasoningState = 'inside' | 'over' | 'may'

export function reasoningStateAfter (prompt: string, { opens, closes }: Reasoning): ReasoningState {
  const end = prompt.trimEnd()
  return end.endsWith(opens) ? 'inside' : end.endsWith(closes) ? 'over' : 'may'
}
