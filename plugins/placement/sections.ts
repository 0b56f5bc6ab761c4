import { placement } from '../runners/service.js'
import type { SectionDecl } from '../../kernel/index.js'
import type { PlacementIntent } from '../runners/service.js'

/** An instance that is to be there and is not. Its key is the id of the one that was lost, or a new one. */
export type WaitingEntry = {
  modelId: string
  intent: PlacementIntent
  /** The entry or instance that the lost one had taken the place of. */
  replaces: string | null
  /** ISO-8601. */
  since: string
  /** Why it has no place now: a stable word, and a sentence. */
  reason: string
  message: string
}

/** A model that an operator stopped: it is not placed by itself. */
export type StoppedEntry = { since: string }

const text = { type: 'string' } as const

/** Document sections of this plugin. */
export const sections = {
  waiting: {
    writer: 'master',
    summary: 'Instances that are to be placed as soon as that is possible.',
    value: {
      type: 'object',
      additionalProperties: false,
      required: ['modelId', 'intent', 'replaces', 'since', 'reason', 'message'],
      properties: {
        modelId: text,
        intent: placement,
        replaces: { type: ['string', 'null'] },
        since: text,
        reason: text,
        message: { type: 'string', maxLength: 1000 }
      }
    }
  },
  stopped: {
    writer: 'master',
    summary: 'Models that an operator stopped, which are not placed by themselves any more.',
    value: { type: 'object', additionalProperties: false, required: ['since'], properties: { since: text } }
  }
} as const satisfies Record<string, SectionDecl>

/** Longest message an entry keeps, characters. */
export const MESSAGE_CHARS_MAX = 500
