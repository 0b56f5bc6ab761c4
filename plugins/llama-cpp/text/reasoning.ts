/** Reasoning formats. To support a new format, add a row to `ROWS`. */
import { HARMONY_MARKERS } from './tools/harmony.js'

export interface Reasoning {
  /** Texts that identify the format if any of them is in the template or among the added tokens. */
  shows: readonly string[]
  /** Marker that begins reasoning; the prompt may already contain it. */
  opens: string
  closes: string
  /** Markers around the answer, which are removed from it. */
  around?: readonly string[]
  /** Set if the whole output is a sequence of messages in channels (tools/harmony.ts). */
  channels?: true
}

const ROWS = {
  /** gpt-oss's format, with reasoning in the channel `analysis`. */
  harmony: {
    shows: ['<|channel|>analysis', '<|channel|>final'],
    opens: '<|channel|>analysis<|message|>', closes: '<|end|>', channels: true
  },
  /** Granite 3.2's format. */
  granite_text: {
    shows: ['Here is my thought process:'], opens: 'Here is my thought process:',
    closes: 'Here is my response:'
  },
  /** Granite 3.3's format. */
  granite: {
    shows: ['<response></response>'], opens: '<think>', closes: '</think>',
    around: ['<response>', '</response>']
  },
  /** The format of Magistral and Ministral. */
  mistral: { shows: ['[THINK]', '[/THINK]'], opens: '[THINK]', closes: '[/THINK]' },
  /** The format of Cohere's Command A and R7B. */
  command: {
    shows: ['<|START_THINKING|>'], opens: '<|START_THINKING|>', closes: '<|END_THINKING|>',
    around: ['<|START_RESPONSE|>', '<|END_RESPONSE|>', '<|START_TEXT|>', '<|END_TEXT|>']
  },
  seed: { shows: ['<seed:think>'], opens: '<seed:think>', closes: '</seed:think>' },
  /** Gemma 4's format. */
  gemma: { shows: ['<|channel>thought'], opens: '<|channel>thought', closes: '<channel|>' },
  /** The format of Qwen, DeepSeek, GLM, SmolLM3, Nemotron and many more. */
  think: { shows: ['<think>', '</think>'], opens: '<think>', closes: '</think>' }
} as const satisfies Record<string, Reasoning>

export type ReasoningName = keyof typeof ROWS
export const reasonings: Readonly<Record<ReasoningName, Reasoning>> = ROWS

/** Special tokens of this format, which the text stream must pass on as text. */
export const reasoningMarkers = ({ opens, closes, around = [], channels }: Reasoning): readonly string[] =>
  channels === true ? HARMONY_MARKERS : [opens, closes, ...around]

/** Detects the reasoning format from template and vocabulary; null for none. */
export function reasoningOf (template: string, added: Iterable<string>): ReasoningName | null {
  const text = [template, ...added].join('\n')
  const names = Object.keys(ROWS) as ReasoningName[]
  return names.find((name) => reasonings[name].shows.some((shown) => text.includes(shown))) ?? null
}

/** How the prompt ends: inside reasoning, after it (`over`), or where reasoning may still begin. */
export type ReasoningState = 'inside' | 'over' | 'may'

export function reasoningStateAfter (prompt: string, { opens, closes }: Reasoning): ReasoningState {
  const end = prompt.trimEnd()
  return end.endsWith(opens) ? 'inside' : end.endsWith(closes) ? 'over' : 'may'
}
