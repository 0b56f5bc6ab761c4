/** Scripts that are named when they are skipped; every other one is reported as "Other". */
const SCRIPTS = ['Han', 'Hiragana', 'Katakana', 'Hangul', 'Arabic', 'Hebrew', 'Cyrillic', 'Greek',
  'Devanagari',
  'Thai', 'Bengali', 'Tamil', 'Telugu', 'Gujarati', 'Gurmukhi', 'Kannada', 'Malayalam', 'Sinhala', 'Khmer',
  'Lao',
  'Myanmar', 'Georgian', 'Armenian', 'Ethiopic', 'Tibetan', 'Mongolian'] as const

const TESTS = SCRIPTS.map((name) => [name, new RegExp(`\\p{Script=${name}}`, 'u')] as const)
/** letters that English text front ends cannot read; Common covers modifier letters and the like */
const FOREIGN = /(?![\p{Script=Latin}\p{Script=Common}\p{Script=Inherited}])\p{L}/u
const OTHER = new RegExp(`(?![\\p{Script=Latin}\\p{Script=Common}\\p{Script=Inherited}${
  SCRIPTS.map((name) => `\\p{Script=${name}}`).join('')}])\\p{L}`, 'u')
/** Greek letters that stand alone are read as symbols (alpha, pi) */
const GREEK_WORD = /\p{Script=Greek}{2}/u

/** Names of the scripts in `text` whose letters are skipped, in a fixed order; empty for English. */
export function skippedScripts (text: string): string[] {
  const composed = text.normalize('NFC')
  if (!FOREIGN.test(composed)) return []
  const found: string[] = TESTS
    .filter(([name, test]) => name === 'Greek' ? GREEK_WORD.test(composed) : test.test(composed))
    .map(([name]) => name)
  return OTHER.test(composed) ? [...found, 'Other'] : found
}
