/** Front ends that convert text to phonemes: English, espeak (optional), characters, or phonemes as sent. */
import { EngineError } from '../../../kernel/api/engine.js'
import { skippedScripts } from '../text/fold.js'
import { prepareEnglish, type Unit, type UnitSizes } from '../text/front-end.js'
import { isEnglish, PHONEMIZER, PHONEMIZER_COMMAND } from '../languages.js'
import { american, british } from '../text/accents.js'
import { plainText } from '../text/markup.js'
import { normaliseSentence } from '../text/normalise.js'
import { sentences as englishSentences } from '../text/sentences.js'

/** Converts text to units, lazily so that a long text's phonemes are never all in memory. */
export type UnitSource = (text: string, sizes: UnitSizes) => Iterable<Unit>

/** One IPA string per sentence; null for a language that espeak lacks. */
export type Espeak = (text: string, voice: string) => string[] | null

// Maximum characters per espeak call; bounds memory for text without sentence ends.
const LONGEST_SENTENCE = 600

/** Removes markup and splits into sentences of at most LONGEST_SENTENCE characters. */
export function * sentences (text: string, language: string): Generator<string> {
  const locale = Intl.Segmenter.supportedLocalesOf([language]).length > 0 ? language : 'en'
  const segmenter = new Intl.Segmenter(locale, { granularity: 'sentence' })
  for (const { segment } of segmenter.segment(plainText(text))) {
    for (let rest = segment.trim(); rest !== '';) {
      const cut = rest.length <= LONGEST_SENTENCE ? rest.length : breakBefore(rest, LONGEST_SENTENCE)
      yield rest.slice(0, cut)
      rest = rest.slice(cut).trimStart()
    }
  }
}

function breakBefore (text: string, limit: number): number {
  const space = text.lastIndexOf(' ', limit)
  if (space > limit / 2) return space
  // Never split a surrogate pair.
  return (text.codePointAt(limit - 1) ?? 0) > 0xffff ? limit - 1 : limit
}

// Where to split a phoneme string, best first.
const BREAKS = [/[.!?…]/u, /[:;]/u, /[,—–]/u, /\s/u]

function splitPoint (symbols: string[], limit: number): number {
  for (const mark of BREAKS) {
    for (let i = Math.min(limit, symbols.length) - 1; i > 0; i--) {
      if (mark.test(symbols[i] as string)) return i + 1
    }
  }
  return limit
}

/** The end of the first clause that is long enough to speak alone, or undefined. */
function firstClause (symbols: string[], limit: number): number | undefined {
  if (symbols.length <= limit) return undefined
  const at = symbols.findIndex((symbol, i) => i >= 12 && /[,;:.!?—–…]/u.test(symbol))
  return at < 0 ? undefined : at + 1
}

/** Splits a phoneme string into parts of at most `maxSymbols`; `first` starts with a short clause. */
export function * splitPhonemes (phonemes: string, sizes: UnitSizes, first: boolean): Generator<string> {
  let symbols = [...phonemes.trim()]
  const clause = first ? firstClause(symbols, sizes.firstSymbols) : undefined
  if (clause !== undefined && clause <= sizes.maxSymbols) {
    yield symbols.slice(0, clause).join('')
    symbols = symbols.slice(clause)
  }
  while (symbols.length > sizes.maxSymbols) {
    const cut = splitPoint(symbols, sizes.maxSymbols)
    yield symbols.slice(0, cut).join('').trim()
    symbols = symbols.slice(cut)
  }
  if (symbols.length > 0) yield symbols.join('').trim()
}

function * unitsOf (spoken: Iterable<string>, sizes: UnitSizes): Generator<Unit> {
  let first = true
  for (const sentence of spoken) {
    const split = [...splitPhonemes(sentence, sizes, first)]
    const parts: string[] = split.filter((part) => /[\p{L}\p{N}]/u.test(part))
    for (const [i, phonemes] of parts.entries()) yield { phonemes, sentenceEnd: i === parts.length - 1 }
    first &&= parts.length === 0
  }
}

/** This plugin's English front end. @throws EngineError text_unspeakable */
export const builtinFront: UnitSource = function * (text, sizes) {
  let units = 0
  for (const unit of prepareEnglish(text, sizes)) {
    units++
    yield unit
  }
  if (units === 0) throw nothingToSpeak(skippedScripts(text))
}

/** The English front end with the accent for a language code: American for en-us and en, else British. */
export function englishFront (code: string): UnitSource {
  const accent = /^en(-us)?$/.test(code) ? american : british
  return function * (text, sizes) {
    for (const unit of builtinFront(text, sizes)) yield { ...unit, phonemes: accent(unit.phonemes) }
  }
}

/** Languages that the espeak package lists under another name. */
const ESPEAK_NAMES: Readonly<Record<string, string>> = { 'en-gb': 'en-gb-x-rp' }

/** espeak as front end; also tries `voice` minus its region. @throws EngineError language_unsupported */
export function espeakFront (espeak: Espeak, voice: string): UnitSource {
  const names = [voice, ESPEAK_NAMES[voice], voice.split('-')[0]].filter((name) => name !== undefined)
  const found = names.find((name) => name !== '' && espeak('a', name) !== null)
  if (found === undefined) {
    throw new EngineError('language_unsupported', `${PHONEMIZER} does not support "${voice}", the language ` +
      'of this voice. Place a voice of another language; `svc search piper` lists some')
  }
  return (text, sizes) => unitsOf(espeakSentences(espeak, found, text), sizes)
}

function * espeakSentences (espeak: Espeak, voice: string, text: string): Generator<string> {
  for (const sentence of isEnglish(voice) ? englishWords(text) : sentences(text, voice)) {
    // Remove marks such as (en), with which espeak reports a language change.
    for (const phonemes of espeak(sentence, voice) ?? []) yield phonemes.replace(/\([a-z-]+\)/g, '')
  }
}

// espeak reads "Dr. Smith" as two sentences and "$3.50" digit by digit, so English is normalised first.
function * englishWords (text: string): Generator<string> {
  for (const sentence of englishSentences(text)) yield normaliseSentence(sentence).trim()
}

/** Uses characters as symbols, for Piper's phoneme type `text` and for phonemes that clients send. */
export const plainFront: UnitSource = (text, sizes) => unitsOf(sentences(text, 'en'), sizes)

export function nothingToSpeak (scripts: string[] = []): EngineError {
  const why = scripts.length === 0 ? 'it has no words' : `it has words only in ${scripts.join(', ')}`
  return new EngineError('text_unspeakable', `this voice cannot speak the text: ${why}`,
    { skippedScripts: scripts })
}

/** Ends a stream of units after `max` symbols, even within a unit. */
export function * capSymbols (units: Iterable<Unit>, max: number): Generator<Unit> {
  let left = max
  for (const unit of units) {
    const symbols = [...unit.phonemes]
    yield symbols.length <= left ? unit : { ...unit, phonemes: symbols.slice(0, left).join('') }
    left -= symbols.length
    if (left <= 0) return
  }
}

/** Seconds of silence after a unit: the pause of its last mark, or none within a phrase. */
export function pauseAfter ({ phonemes, sentenceEnd }: Unit): number {
  if (sentenceEnd || /[.?!…]$/u.test(phonemes)) return 0.36
  return /[,;:—–]$/u.test(phonemes) ? 0.2 : 0
}

interface EspeakModule { phonemizeToString?: Espeak }

/** Loads the optional phonemizer; undefined if it is not installed. Tests replace `load`. */
export async function findEspeak (load: () => Promise<unknown> = importPackage): Promise<Espeak | undefined> {
  let found: unknown
  try {
    found = await load()
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
  const main = found as EspeakModule & { default?: EspeakModule }
  return main.phonemizeToString ?? main.default?.phonemizeToString
}

// Module loaders use different error codes, but all messages name the package.
function isMissing (error: unknown): boolean {
  const { code, message } = error as NodeJS.ErrnoException
  return code === 'ERR_MODULE_NOT_FOUND' || message.includes(`Cannot find package '${PHONEMIZER}'`)
}

// A non-literal name, so that the compiler does not resolve the optional peer dependency.
const importPackage = async (): Promise<unknown> => await import(PHONEMIZER as string)

export function phonemizerMissing (model: string, language: string): EngineError {
  const message = `${model} needs the package ${PHONEMIZER} to read ${language}, and it is not installed. ` +
    `Run "${PHONEMIZER_COMMAND}" (GPL-3.0) in the svc folder of this node and restart it`
  return new EngineError('phonemizer_missing', message, { command: PHONEMIZER_COMMAND, language })
}
