/** Maps OpenAI's names of models and voices to models and voices of the cluster. */
import type { ModelCard } from '../../kernel/index.js'

/** OpenAI's speech models, including dated releases. */
const MODELS = /^(tts-1(-hd)?(-1106)?|gpt-4o-mini-tts(-\d{4}-\d{2}-\d{2})?)$/

const VOICES: ReadonlySet<string> = new Set([
  'alloy', 'ash', 'ballad', 'coral', 'echo', 'fable', 'nova', 'onyx', 'sage', 'shimmer', 'verse', 'marin',
  'cedar'
])

/** Aliases from the settings; `openai` maps OpenAI's names to the placed voice. */
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

/** Placed voices come before the bundled one; then by name, so that all nodes agree. */
const order = (a: Speaker, b: Speaker): number =>
  Number(b.ready) - Number(a.ready) ||
  Number(a.card.modelId.startsWith('svc/')) - Number(b.card.modelId.startsWith('svc/')) ||
  (a.card.modelId < b.card.modelId ? -1 : 1)

/** Resolves a model name: an alias, an existing model, or OpenAI's name for the placed voice. */
export function modelFor (name: string, aliases: Aliases, speakers: readonly Speaker[]): string {
  const asked = renamed(aliases.models, name)
  const real = asked !== name || speakers.some(({ card }) => card.modelId === asked)
  if (real || !aliases.openai || !MODELS.test(asked)) return asked
  return [...speakers].sort(order)[0]?.card.modelId ?? asked
}

/**
 * Resolves a voice name: an alias, the voice with that id, or OpenAI's name in another scheme (`af_alloy`).
 * Unknown names of OpenAI give undefined (the default voice); other names stay.
 */
export function voiceFor (name: string, aliases: Aliases, card: ModelCard | undefined): string | undefined {
  const asked = renamed(aliases.voices, name)
  if (asked !== name || !aliases.openai || !VOICES.has(asked)) return asked
  const ids = card?.voices.map(({ id }) => id) ?? []
  return ids.find((id) => id === asked) ?? ids.find((id) => id.endsWith(`_${asked}`))
}
