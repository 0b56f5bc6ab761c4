import { kernelError, type CardVoice, type ModelCard } from '../../kernel/index.js'
import { fieldOf } from './events.js'
import type { Listening } from '../capabilities-stt/service.js'
import type { Runners } from '../runners/service.js'

export interface Programs {
  listening: Listening
  runners: Pick<Runners, 'models'>
  /** Of svc. */
  version: string
}
type Known = readonly { card: ModelCard, ready: boolean }[]

const PART = { attribution: { name: 'svc', url: '' }, installed: true, version: null }

const voicesOf = ({ voices, title: name, languages: [language = 'en'] }: ModelCard): readonly CardVoice[] =>
  voices.length > 0 ? voices : [{ id: 'default', name, language }]

/** The answer to `describe`: the models that are placed. */
export function describe ({ listening, runners, version }: Programs): object {
  const program = { ...PART, name: 'svc', description: 'svc', version }
  const models = listening.models().map(({ card: { modelId: name, title, languages } }) =>
    ({ ...PART, name, description: title, languages }))
  const voices = runners.models('tts').flatMap(({ card }) => voicesOf(card).map((voice) => ({
    ...PART, name: nameOf(card, voice), description: `${card.title}: ${voice.name}`,
    languages: [voice.language], speakers: null
  })))
  return {
    asr: models.length === 0 ? [] : [{ ...program, models, supports_transcript_streaming: true }],
    tts: voices.length === 0 ? [] : [{ ...program, voices, supports_synthesize_streaming: true }]
  }
}

const nameOf = ({ modelId }: ModelCard, { id }: CardVoice): string => `${modelId}/${id}`

/** Model and voice for a `voice` of a client, by its name, else by its language, else the default. */
export function findVoice (known: Known, voice: unknown): { model: string, voice?: string } {
  const wanted = fieldOf({ voice }, 'voice', {})
  const name = fieldOf(wanted, 'name', '')
  const all = known.flatMap(({ card }) => voicesOf(card).map((one) => ({ card, one })))
  const code = fieldOf(wanted, 'language', '').slice(0, 2).toLowerCase()
  const found = name !== ''
    ? all.find(({ card, one }) => nameOf(card, one) === name)
    : all.find(({ one }) => code !== '' && one.language.toLowerCase().startsWith(code))
  if (found !== undefined) {
    const { card: { modelId: model, voices }, one: { id } } = found
    return voices.length > 0 ? { model, voice: id } : { model }
  }
  const [first] = known
  if (name !== '') throw kernelError('not_found', `There is no voice ${name}.`)
  if (first === undefined) throw kernelError('no_instance', 'No voice is placed.')
  return { model: first.card.modelId }
}
