/** Warnings about text that a voice drops or mispronounces, from what is cheap and certain. */
import { isEnglish } from '../languages.js'
import { skippedScripts } from '../text/fold.js'
import type { SpeechRequest } from './family.js'

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
