/** Languages that Kokoro's voices speak; the first letter of a voice id selects one. */
export interface KokoroLanguage { code: string, espeak?: string }

/** Kokoro's languages by letter. English needs no espeak, because this plugin's front end reads it. */
export const KOKORO_LANGUAGES: Readonly<Record<string, KokoroLanguage>> = {
  a: { code: 'en-us', espeak: 'en-us' }, b: { code: 'en-gb', espeak: 'en-gb' },
  e: { code: 'es', espeak: 'es' }, f: { code: 'fr-fr', espeak: 'fr' }, h: { code: 'hi', espeak: 'hi' },
  i: { code: 'it', espeak: 'it' }, p: { code: 'pt-br', espeak: 'pt-br' }, j: { code: 'ja' }, z: { code: 'zh' }
}

/** The language of a Kokoro voice id; American English for `af_heart`. */
export function kokoroLanguage (voice: string): KokoroLanguage | undefined {
  const letter = /^([a-z])[fm]_/.exec(voice)?.[1] ?? ''
  return Object.hasOwn(KOKORO_LANGUAGES, letter) ? KOKORO_LANGUAGES[letter] : undefined
}

/** Normalises to lower case and hyphens: en_US becomes en-us. */
export const languageCode = (code: string): string => code.toLowerCase().replaceAll('_', '-')

/** Whether this plugin's front end reads the language without espeak. */
export const isEnglish = (code: string): boolean => /^en(-|$)/.test(languageCode(code))

/** Whether svc reads the language of a Kokoro voice under no circumstances: Japanese and Chinese. */
export const isUnread = (code: string): boolean =>
  Object.values(KOKORO_LANGUAGES).some((each) => each.code === code && each.espeak === undefined)

/** The optional package (GPL-3.0) for languages other than English. */
export const PHONEMIZER = 'piper-phonemize'
export const PHONEMIZER_COMMAND = `npm install ${PHONEMIZER}`

export const PHONEME_TYPES: readonly string[] = ['espeak', 'text']
