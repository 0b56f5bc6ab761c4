/** Maps OpenAI's model and voice names to the cluster's models and voices. */
import type { ModelCard } from '../../kernel/index.js'

/** Matches OpenAI's speech model names, including dated releases. */
const MODELS = /^(tts-1(-hd)?(-1106)?|gpt-4o-mini-tts(-\d{4}-\d{2}-\d{2})?)$/

const VOICES: ReadonlySet<string> = new Set([
  'alloy', 'ash', 'ballad', 'coral', 'echo', 'fable', 'nova', 'onyx', 'sage', 'shimmer', 'verse', 'marin',
  'cedar'
])

/** Aliases from the settings; `openai`: whether OpenAI's names map to models and voices here. */
export interface Aliases {
  models: Readonly<Record<string, string>>
  voices: Readonly<Record<string, string>>
  openai: boolean
}

/** A speech model, and whether a ready runner serves it. */
export interface Speaker { card: ModelCard, ready: boolean }

export function renamed (aliases: Readonly<Record<string, string>>, name: string): string {
  return Object.hasOwn(aliases, name) ? aliases[name]! : name
}

/** Resolves a name: an alias, an existing model, or OpenAI's name for the first of `speakers`. */
export function modelFor (name: string, aliases: Aliases, speakers: readonly Speaker[]): string {
  const asked = renamed(aliases.models, name)
  const real = asked !== name || speakers.some(({ card }) => card.modelId === asked)
  if (real || !aliases.openai || !MODELS.test(asked)) return asked
  return speakers[0]?.card.modelId ?? asked
}

/**
 * Resolves a voice name: an alias, the voice with that id, or the one whose id ends in OpenAI's (`af_alloy`).
 * OpenAI names without a match give undefined (the default voice); other names are returned unchanged.
 */
export function voiceFor (name: string, aliases: Aliases, card: ModelCard | undefined): string | undefined {
  const asked = renamed(aliases.voices, name)
  if (asked !== name || !aliases.openai || !VOICES.has(asked)) return asked
  const ids = card?.voices.map(({ id }) => id) ?? []
  return ids.find((id) => id === asked) ?? ids.find((id) => id.endsWith(`_${asked}`))
}
