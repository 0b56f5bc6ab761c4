/** Languages of Kokoro's voices, by the first letter of a voice's id. */
export interface KokoroLanguage {
  code: string
  espeak?: string
}

/** American and British English need no espeak: the front end of this package reads them. */
export const KOKORO_LANGUAGES: Readonly<Record<string, KokoroLanguage>> = {
  a: { code: 'en-us', espeak: 'en-us' },
  b: { code: 'en-gb', espeak: 'en-gb' },
  e: { code: 'es', espeak: 'es' },
  f: { code: 'fr-fr', espeak: 'fr' },
  h: { code: 'hi', espeak: 'hi' },
  i: { code: 'it', espeak: 'it' },
  j: { code: 'ja' },
  p: { code: 'pt-br', espeak: 'pt-br' },
  z: { code: 'zh' }
}

/** The language in the id of a Kokoro voice (`af_heart`: American English). */
export function kokoroLanguage (voice: string): KokoroLanguage | undefined {
  const letter = /^([a-z])[fm]_/.exec(voice)?.[1] ?? ''
  return Object.hasOwn(KOKORO_LANGUAGES, letter) ? KOKORO_LANGUAGES[letter] : undefined
}

/** Language codes compare in lower case and with hyphens: en_US is en-us. */
export const languageCode = (code: string): string => code.toLowerCase().replaceAll('_', '-')

/** Whether the front end of this package reads the language, without espeak. */
export const isEnglish = (code: string): boolean => /^en(-|$)/.test(languageCode(code))

/** The optional package that reads languages other than English; GPL-3.0. */
export const PHONEMIZER = 'piper-phonemize'
export const PHONEMIZER_COMMAND = `npm install ${PHONEMIZER}`

export const PHONEME_TYPES: readonly string[] = ['espeak', 'text']
