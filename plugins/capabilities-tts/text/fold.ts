/**
 * Maps Unicode to the characters that the text rules cover: ASCII and a few signs (° £ € ¥ ± ÷ ...). Removes
 * accents, replaces typographic punctuation, and turns letters of other scripts into spaces.
 */
const FRACTIONS: Record<string, string> = {
  '½': '1/2', '⅓': '1/3', '⅔': '2/3', '¼': '1/4', '¾': '3/4', '⅕': '1/5', '⅖': '2/5', '⅗': '3/5', '⅘': '4/5',
  '⅙': '1/6', '⅚': '5/6', '⅛': '1/8', '⅜': '3/8', '⅝': '5/8', '⅞': '7/8'
}

const LATIN: Record<string, string> = {
  ß: 'ss', ẞ: 'SS', æ: 'ae', Æ: 'Ae', œ: 'oe', Œ: 'Oe', ø: 'o', Ø: 'O', đ: 'd', Đ: 'D', ł: 'l', Ł: 'L',
  þ: 'th', Þ: 'Th', ð: 'th', Ð: 'Th', ı: 'i', ħ: 'h', Ħ: 'H', ŋ: 'ng', Ŋ: 'Ng', ə: 'e', ſ: 's', ĸ: 'k',
  ŧ: 't', Ŧ: 'T'
}

const MARKS: Record<string, string> = {
  '’': "'", '‘': "'", 'ʼ': "'", 'ʻ': "'", '′': "'", '`': "'", '´': "'", '“': '"', '”': '"', '„': '"',
  '«': '"', '»': '"', '″': '"', '‐': '-', '‑': '-', '‒': '-', '−': '-', '–': '–', '—': '—', '―': '—',
  '⁄': '/', '∕': '/', '。': '. ', '、': ',', '·': ' ', '،': ',', '؛': ';', '؟': '?', '۔': '.', '।': '.',
  '¿': ' ', '¡': ' ', '「': '"', '」': '"', '《': '"', '》': '"', '№': 'No. ', 'º': '°', '˚': '°',
  '•': ',', '‣': ',', '▪': ',', '…': '...', '→': ' to ', '⇒': ' to ', '™': ' ', '®': ' ', '©': ' copyright '
}

const GREEK = ['alpha', 'beta', 'gamma', 'delta', 'epsilon', 'zeta', 'eta', 'theta', 'iota', 'kappa',
  'lambda', 'mu', 'nu', 'xi', 'omicron', 'pi', 'rho', 'sigma', 'sigma', 'tau', 'upsilon', 'phi',
  'chi', 'psi', 'omega']

/** Code points of the digit zero in supported scripts; the other nine digits follow it. */
const ZEROS = [
  0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xbe6, 0xc66, 0xce6, 0xd66, 0xe50, 0xed0, 0xf20
]

/** Letters in unsupported scripts, removed first because NFKC expands some to up to 18 letters. */
const FOREIGN = /[^\P{L}\p{Script=Latin}\p{Script=Common}\p{Script=Greek}]/gu
const RAISED = '⁰¹²³⁴-⁹⁻'
const BEFORE_NFKC = new RegExp(
  `[${RAISED}]{2,9}|[${Object.keys(FRACTIONS).join('')}${RAISED}™®©…№´º˚]`, 'gu')
const AFTER_NFKC = new RegExp(`[${Object.keys(LATIN).join('')}${Object.keys(MARKS).join('')}]`, 'gu')

/** Replaces characters that NFKC would merge with adjacent digits or letters ("2½", "m²"). */
function early (c: string): string {
  if (FRACTIONS[c]) return ` ${FRACTIONS[c]}`
  if (c === '²') return ' squared'
  if (c === '³') return ' cubed'
  if (/^[⁰¹²³⁴-⁹⁻]/.test(c)) return '^' + c.replace('⁻', '-')
  return MARKS[c]!
}

function digit (c: string): string {
  const code = c.codePointAt(0)!
  const zero = ZEROS.find((each) => code >= each && code < each + 10)
  return zero === undefined ? ' ' : String(code - zero)
}

function greek (c: string): string {
  const name = GREEK[c.toLowerCase().charCodeAt(0) - 0x3b1]
  return name ? ` ${name} ` : ' '
}

/** Folds one window of text. The result may be longer, but only by a small factor. */
export function fold (text: string): string {
  if (/^[\n\x20-\x5f\x61-\x7e]*$/.test(text)) return text
  return text.replace(FOREIGN, ' ').replace(BEFORE_NFKC, early).normalize('NFKC')
    .replace(/\r\n?/g, '\n').replace(/[\p{Z}\t\v\f]/gu, ' ').replace(/[\u00ad\u200b-\u200f\u2060\ufeff]/g, '')
    .normalize('NFD').replace(/\p{M}+/gu, '').normalize('NFC')
    .replace(AFTER_NFKC, (c) => LATIN[c] ?? MARKS[c]!)
    .replace(/[^\P{Nd}0-9]/gu, digit).replace(/[❶-➓]/g, (c) => String((c.charCodeAt(0) - 0x2776) % 10 + 1))
    .replace(/μ(?=[msgl]\b)/g, 'µ')
    .replace(/(?<=\d ?)Ω/g, ' ohms ').replace(/(?<!\p{Script=Greek})[α-ωΑ-Ω](?!\p{Script=Greek})/gu, greek)
    .replace(/[^\n\x20-\x7e°µ£€¥₹₩±×÷≈≤≥≠∞√–—§]/gu, ' ')
}

/** Scripts that error messages name; all others are reported as "Other". */
const SCRIPTS = ['Han', 'Hiragana', 'Katakana', 'Hangul', 'Arabic', 'Hebrew', 'Cyrillic', 'Greek',
  'Devanagari', 'Thai', 'Bengali', 'Tamil', 'Telugu', 'Gujarati', 'Gurmukhi', 'Kannada', 'Malayalam',
  'Sinhala', 'Khmer', 'Lao', 'Myanmar', 'Georgian', 'Armenian', 'Ethiopic', 'Tibetan', 'Mongolian'] as const

const TESTS = SCRIPTS.map((name) => [name, new RegExp(`\\p{Script=${name}}`, 'u')] as const)
/** Matches a letter that is skipped. Common and Inherited letters are modifiers, not a language's letters. */
const SKIPPED = /(?![\p{Script=Latin}\p{Script=Common}\p{Script=Inherited}])\p{L}/u
const OTHER = new RegExp(`(?![\\p{Script=Latin}\\p{Script=Common}\\p{Script=Inherited}${
  SCRIPTS.map((name) => `\\p{Script=${name}}`).join('')}])\\p{L}`, 'u')
/** Two Greek letters in a row; a single one is not skipped but read by its name (alpha, pi). */
const GREEK_WORD = /\p{Script=Greek}{2}/u

/** The scripts in `text` whose letters are skipped, in a fixed order; empty for English. */
export function skippedScripts (text: string): string[] {
  const composed = text.normalize('NFC')
  if (!SKIPPED.test(composed)) return []
  const found: string[] = TESTS
    .filter(([name, test]) => name === 'Greek' ? GREEK_WORD.test(composed) : test.test(composed))
    .map(([name]) => name)
  return OTHER.test(composed) ? [...found, 'Other'] : found
}
