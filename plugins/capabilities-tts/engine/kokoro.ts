/**
 * Kokoro-82M v1.0 (24 kHz). A unit cannot be decoded in pieces, because the graph's norms span all of it.
 * Style packs are float32 [510][256], one row per length of the phoneme string (style-packs.ts).
 */
import { Tensor, type InferenceSession } from 'onnxruntime-node'
import { EngineError, type CardVoice } from '../../../kernel/api/engine.js'
import type { Family, SpeechRequest, SpeechUnit } from './family.js'
import {
  capSymbols, englishFront, espeakFront, pauseAfter, phonemizerMissing, plainFront, type Espeak,
  type UnitSource
} from './phonemes.js'
import { isEnglish, KOKORO_LANGUAGES, languageCode } from '../languages.js'
import { STYLE_WIDTH } from '../style-packs.js'
import { warmUp } from '../text/front-end.js'
import { float32, floats, int64, type Feeds, type Sessions } from './sessions.js'

/** Maximum number of tokens per run, and the sampling rate in Hz. */
const MAX_TOKENS = 510
const KOKORO_RATE = 24_000

// Units above about 450 tokens sound rushed. The first unit is short, because sound starts only when a unit
// is complete.
const SIZES = { maxSymbols: 400, firstSymbols: 100 }

export interface KokoroParts {
  session: InferenceSession
  /** Values for the graph's seeded noise inputs, if it has any. */
  noise: (request: SpeechRequest, unit: SpeechUnit) => Feeds
  seeded: boolean
  vocab: Map<string, number>
  packs: Map<string, Float32Array>
  voices: CardVoice[], defaultVoice: string, espeak: Espeak | undefined
  /** Whether this plugin's front end reads English; false if the card demands espeak. */
  builtin: boolean
  modelId: string
}

/** The style row for a phoneme string of `length` symbols, averaged over the mixed voices. */
export function styleRow (packs: Float32Array[], length: number): Float32Array {
  const row = new Float32Array(STYLE_WIDTH)
  for (const pack of packs) {
    const at = Math.min(Math.max(length - 1, 0), pack.length / STYLE_WIDTH - 1) * STYLE_WIDTH
    row.forEach((sum, i) => { row[i] = sum + (pack[at + i] as number) / packs.length })
  }
  return row
}

/** The front end for a language. @throws EngineError phonemizer_missing, language_unsupported */
function frontOf (parts: KokoroParts, code: string): UnitSource {
  const espeak = Object.values(KOKORO_LANGUAGES).find((language) => language.code === code)?.espeak
  if (espeak === undefined) return plainFront
  if (parts.builtin && isEnglish(code)) return englishFront(code)
  if (parts.espeak === undefined) throw phonemizerMissing(parts.modelId, code)
  return espeakFront(parts.espeak, espeak)
}

/** Detects the token input's name and the type of `speed`, in which public exports differ. */
function signatureOf (session: InferenceSession): { tokens: string, integerSpeed: boolean } {
  const tokens = ['input_ids', 'tokens'].find((name) => session.inputNames.includes(name))
  if (tokens === undefined) {
    const names = session.inputNames.join(', ')
    throw new EngineError('model_invalid',
      `a Kokoro graph has the input input_ids or tokens, but this has ${names}`)
  }
  const speed = session.inputMetadata.find((input) => input.name === 'speed')
  return { tokens, integerSpeed: speed?.isTensor === true && speed.type === 'int32' }
}

/** @throws EngineError model_invalid */
export function kokoroFamily (parts: KokoroParts, sessions: Sessions): Family {
  const { tokens, integerSpeed } = signatureOf(parts.session)
  const offered = Object.values(KOKORO_LANGUAGES).filter((l) => l.espeak !== undefined).map((l) => l.code)
  const known = (id: string): boolean => id.split(',').every((name) => parts.packs.has(name.trim()))
  return {
    sampleRate: KOKORO_RATE, voices: parts.voices, defaultVoice: parts.defaultVoice,
    limits: {
      speed: integerSpeed ? { min: 1, max: 2, integer: true } : { min: 0.5, max: 2 },
      temperature: undefined
    },
    seeded: parts.seeded,
    streams: false,
    findVoice: (id) => known(id) ? id.split(',').map((name) => name.trim()).join(',') : undefined,
    findLanguage: (code, voice) => findLanguage(code ?? voice.slice(0, 1), offered),
    languages: () => [...offered, 'ipa'],
    prepare: (text, request) => prepare(parts, text, request),
    synth: (unit, request, signal) => synth(unit, request, signal),
    warmFront: () => { if (parts.builtin) warmUp() },
    close: async () => await sessions.close()
  }

  async function * synth (
    unit: SpeechUnit, request: SpeechRequest, signal: AbortSignal
  ): AsyncGenerator<Float32Array> {
    if (signal.aborted) return
    const packs = request.voice.split(',').map((name) => parts.packs.get(name) as Float32Array)
    const feeds: Feeds = {
      [tokens]: int64(unit.ids, [1, unit.ids.length]),
      style: float32(styleRow(packs, unit.symbols), [1, STYLE_WIDTH]),
      speed: integerSpeed
        ? new Tensor('int32', Int32Array.of(request.speed), [1])
        : float32([request.speed], [1]),
      ...parts.noise(request, unit)
    }
    const out = await sessions.run(parts.session, feeds, 'tokens', unit.ids.length)
    const name = ['waveform', 'audio'].find((n) => out[n] !== undefined) ?? parts.session.outputNames[0] ?? ''
    yield floats(out[name], name)
  }
}

function findLanguage (code: string, offered: string[]): string | undefined {
  const wanted = KOKORO_LANGUAGES[code]?.code ?? languageCode(code)
  if (wanted === 'ipa') return wanted
  return offered.find((c) => c === wanted) ?? offered.find((c) => c.split('-')[0] === wanted)
}

function * prepare (parts: KokoroParts, text: string, request: SpeechRequest): Generator<SpeechUnit> {
  const front = frontOf(parts, request.language)
  let index = 0
  for (const unit of capSymbols(front(text, SIZES), request.maxSymbols)) {
    const symbols = [...kokoroPhonemes(unit.phonemes, request.language)]
    const ids = symbols.map((symbol) => parts.vocab.get(symbol)).filter((id) => id !== undefined)
    const sized = { ids: [0, ...ids.slice(0, MAX_TOKENS), 0], symbols: symbols.length }
    yield { ...sized, pauseSeconds: pauseAfter(unit), index: index++ }
  }
}

type Rule = readonly [RegExp, string]

/**
 * Sound pairs that Kokoro writes as one symbol in every language. This and the following tables are those of
 * Kokoro's front end misaki (hexgrad/misaki, `espeak.py` and `EN_PHONES.md`). espeak marks the letters of one
 * sound with ties for misaki, but not for piper-phonemize, so here two-letter rules also match letters of
 * separate sounds.
 */
const LETTERS: readonly Rule[] = [
  [/dʒ/g, 'ʤ'], [/tʃ/g, 'ʧ'], [/aɪ/g, 'I'], [/aʊ/g, 'W'], [/eɪ/g, 'A'], [/ɔɪ/g, 'Y']
]

/** Removes espeak's marks that English does not use. A syllabic consonant gets a small schwa before it. */
const ENGLISH: readonly Rule[] = [
  [/ʔˌ?n\u0329/g, 'tn'], [/(\S)\u0329/g, 'ᵊ$1'], [/[\u0303ʲ]/g, ''],
  [/ɐ/g, 'ə'], [/r/g, 'ɹ'], [/[xç]/g, 'k'], [/ɬ/g, 'l'], [/ʔ/g, 't'], [/ɾ/g, 'T'],
  // Applies to the l in "little", not to that in "hello", which a vowel or stress mark follows.
  [/əl(?![ˈˌaeiouæɑɐɒəɚɛɜɪɔʊʌAIOQWYɹj])/g, 'ᵊl']
]

const AMERICAN: readonly Rule[] = [
  [/oʊ/g, 'O'], ...LETTERS, ...ENGLISH, [/ɚɹ?/g, 'əɹ'], [/ɜːɹ?/g, 'ɜɹ'], [/ɪə/g, 'iə'], [/e/g, 'A'],
  [/ː/g, ''], [/o/g, 'ɔ']
]
const BRITISH: readonly Rule[] = [
  [/əʊ/g, 'Q'], [/eə/g, 'ɛː'], ...LETTERS, ...ENGLISH, [/ɚ/g, 'ə'], [/iə/g, 'ɪə'], [/e/g, 'A'], [/o/g, 'ɔ'],
  [/æ/g, 'a']
]

/** Rules for other languages. Hyphens are espeak's liaison marks. */
const OTHERS: readonly Rule[] = [
  [/oʊ/g, 'O'], [/əʊ/g, 'Q'], ...LETTERS, [/dz/g, 'ʣ'], [/ts/g, 'ʦ'], [/-/g, '']
]

/** Rules by language code; Italian also has one symbol for a long s. */
const RULES: Readonly<Record<string, readonly Rule[]>> = {
  'en-us': AMERICAN,
  'en-gb': BRITISH,
  it: [...OTHERS, [/ss/g, 'S']],
  es: OTHERS, 'fr-fr': OTHERS, hi: OTHERS, 'pt-br': OTHERS
}

/** Converts a language's IPA to Kokoro's symbols; text in language `ipa` has Kokoro's symbols already. */
export function kokoroPhonemes (ipa: string, language: string): string {
  // Decompose, because Kokoro has two symbols for nasal vowels, but keep ç, for which it has one.
  const apart = ipa.normalize('NFD').replace(/c\u0327/g, 'ç').replaceAll('\u0361', '')
  const rules = Object.hasOwn(RULES, language) ? RULES[language]! : []
  return rules.reduce((text, [from, to]) => text.replace(from, to), apart)
}
