/** Names that OpenAI's clients send for models and voices, and what speaks for them here. */
import type { ModelCard } from '../../kernel/index.js'

/** OpenAI's speech models, with their dated releases. */
const MODELS = /^(tts-1(-hd)?(-1106)?|gpt-4o-mini-tts(-\d{4}-\d{2}-\d{2})?)$/

const VOICES: ReadonlySet<string> = new Set([
  'alloy', 'ash', 'ballad', 'coral', 'echo', 'fable', 'nova', 'onyx', 'sage', 'shimmer', 'verse', 'marin',
  'cedar'
])

/** Settings: names of models and voices, and whether OpenAI's names map to placed voices. */
export interface Aliases {
  models: Readonly<Record<string, string>>
  voices: Readonly<Record<string, string>>
  openai: boolean
}

/** A model that is known in the cluster, and whether a ready runner serves it. */
export interface Speaker { card: ModelCard, ready: boolean }

/** The target of an alias, or the name itself. */
export function renamed (aliases: Readonly<Record<string, string>>, name: string): string {
  return Object.hasOwn(aliases, name) ? aliases[name]! : name
}

/** A voice that somebody placed comes before the one that ships; then by name, so that all nodes agree. */
const order = (a: Speaker, b: Speaker): number =>
  Number(b.ready) - Number(a.ready) ||
  Number(a.card.modelId.startsWith('svc/')) - Number(b.card.modelId.startsWith('svc/')) ||
  (a.card.modelId < b.card.modelId ? -1 : 1)

/** The model that a name means: its alias, a model of that name, or for OpenAI's the placed voice. */
export function modelFor (name: string, aliases: Aliases, speakers: readonly Speaker[]): string {
  const asked = renamed(aliases.models, name)
  const real = asked !== name || speakers.some(({ card }) => card.modelId === asked)
  if (real || !aliases.openai || !MODELS.test(asked)) return asked
  return [...speakers].sort(order)[0]?.card.modelId ?? asked
}

/**
 * The voice of a name in a model: its alias, that voice, or OpenAI's name in another scheme (`af_alloy`);
 * undefined: the model's default. Other names stay.
 */
export function voiceFor (name: string, aliases: Aliases, card: ModelCard | undefined): string | undefined {
  const asked = renamed(aliases.voices, name)
  if (asked !== name || !aliases.openai || !VOICES.has(asked)) return asked
  const ids = card?.voices.map(({ id }) => id) ?? []
  return ids.find((id) => id === asked) ?? ids.find((id) => id.endsWith(`_${asked}`))
}
