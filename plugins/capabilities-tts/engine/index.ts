/** Engine `onnx-tts` on onnxruntime, in a runner process; see family.ts (voices) and speech.ts (answers). */
import {
  EngineError, type EngineEnv, type EngineModule, type EngineSession, type ModelSpec
} from '../../../kernel/api/engine.js'
import {
  DECODE_SECONDS, FIRST_PIECE_SECONDS, PieceLengths, type Family, type SpeechRequest
} from './family.js'
import { loadFamily } from './load.js'
import { LOUDNESS } from './loudness.js'
import { readRequest, type SpeechTask } from './request.js'
import { speak } from './speech.js'
import { isEnglish } from '../languages.js'
import { skippedScripts } from '../text/fold.js'

/** Text for the trial run: vowels, for which every IPA or character voice has symbols. */
const WARMUP = 'aaa eee ooo.'
const NEVER = new AbortController().signal

export function openSpeech (family: Family, { card }: ModelSpec): EngineSession {
  const { modelId } = card
  return {
    async warmup () {
      family.warmFront()
      const task: SpeechTask = {
        request: {
          text: WARMUP, voice: family.defaultVoice, language: 'ipa', speed: 1, temperature: 1,
          seed: undefined, maxSymbols: Infinity, pace: new PieceLengths(FIRST_PIECE_SECONDS, DECODE_SECONDS)
        },
        encoding: 'mp3', interval: 1, loudness: LOUDNESS
      }
      let bytes = 0
      try {
        // One trial run is enough; more would delay the start without making the first request faster.
        for await (const chunk of speak(family, task, modelId, NEVER)) bytes += chunk.media?.length ?? 0
      } catch (error) {
        if (error instanceof EngineError) throw error
        // Mismatched files cause this, e.g. a vocabulary with ids beyond the graph's embedding table.
        throw new EngineError('model_invalid', `${modelId} cannot run; its files do not match: ` +
          (error as Error).message.slice(0, 300))
      }
      if (bytes === 0) throw new EngineError('model_invalid', `${modelId} produced no audio in its first run`)
    },

    async * run ({ kind, payload, trace }, signal) {
      if (kind !== 'tts') throw new EngineError('invalid_payload', `engine onnx-tts serves tts, not ${kind}`)
      const task = readRequest(payload, family, card)
      const warnings = warningsFor(task.request)
      if (warnings.length > 0) yield { payload: { warnings } }
      try {
        yield * speak(family, task, modelId, signal, trace)
      } catch (error) {
        const { silence } = task
        if (silence === undefined || (error as EngineError).reason !== 'text_unspeakable') throw error
        yield { payload: { warnings: [`${silence} s of silence: ${(error as Error).message}`] } }
        yield * speak(silentFor(silence, family), { ...task, loudness: null }, modelId, signal, trace)
      }
    },

    info () {
      const { sampleRate, voices, streams, seeded, limits } = family
      return {
        family: card.family, sampleRate, voices, streams, seeded, limits, languages: family.languages()
      }
    },

    close: async () => { await family.close() }
  }
}

/** A voice that answers any text with silence. */
const silentFor = (seconds: number, family: Family): Family => ({
  ...family,
  prepare: (_text, request) => family.prepare('a', { ...request, language: 'ipa' }),
  async * synth () { yield new Float32Array(Math.round(seconds * family.sampleRate)) }
})

const engine: EngineModule = {
  load: async (spec: ModelSpec, env: EngineEnv) => openSpeech(await loadFamily(spec, env), spec)
}

export default engine

/** Function words, in lower case as within a sentence: names such as "La Jolla" do not count. */
const WORDS: Readonly<Record<string, string>> = {
  en: 'the of and to is in that it for was on with as be you are this by at from have not or we they a an ' +
    'he his my do can if but',
  de: 'der die das und ist nicht ein eine mit für auf den von zu im sich dem des ich sie wir es auch wie ' +
    'bei nach um',
  fr: 'le la les des une est et dans pour que qui sur pas avec ce il vous nous je du au sont cette un à de',
  es: 'el la los las que y en un una por con para es se del no lo su al como más de pero está',
  it: 'il la di che e un una per non con sono del della le si è i gli da ma come',
  pt: 'o a os as que e em um uma para com não do da no na se por mais de é',
  nl: 'de het een en van is dat niet op te met voor zijn die er aan ook ik in'
}
const LANGUAGES = Object.entries(WORDS).map(([code, words]) => [code, new Set(words.split(' '))] as const)
/** Characters of the text that are examined. */
const SAMPLE = 4000
const NAMES = new Intl.DisplayNames('en', { type: 'language' })

/** The language of a text if it differs evidently from `spoken`, a language code. */
export function foreignLanguage (text: string, spoken: string): string | undefined {
  const own = spoken.split('-')[0]!
  if (!Object.hasOwn(WORDS, own)) return undefined
  const all = text.slice(0, SAMPLE).match(/\p{L}+/gu) ?? []
  const hits = (words: ReadonlySet<string>): string[] => all.filter((word) => words.has(word))
  const counts = new Map(LANGUAGES.map(([code, words]) => [code, hits(words)]))
  const [best, found] = [...counts].reduce((most, each) => each[1].length > most[1].length ? each : most)
  const evident = new Set(found).size >= 3 && found.length >= all.length / 5 &&
    found.length > 4 * counts.get(own)!.length
  return evident ? best : undefined
}

/** Names parts of the text that the voice skips, and its language if the voice speaks another. */
export function warningsFor ({ text, language }: SpeechRequest): string[] {
  const scripts = isEnglish(language) ? skippedScripts(text) : []
  const foreign = foreignLanguage(text, language)
  return [
    ...scripts.length === 0 ? [] : [`words in ${scripts.join(', ')} are not spoken`],
    ...foreign === undefined ? [] : [`the text is ${NAMES.of(foreign)}, but is read as ${language}`]
  ]
}
