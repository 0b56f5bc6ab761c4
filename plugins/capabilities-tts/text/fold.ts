/**
 * Unicode to the characters the rules of the normaliser read: ASCII plus a few signs (° £ € ¥ ± × ÷ µ ...).
 * Accents go, typographic punctuation becomes ASCII, letters of other scripts become spaces.
 */
const VULGAR: Record<string, string> = {
  '½': '1/2', '⅓': '1/3', '⅔': '2/3', '¼': '1/4', '¾': '3/4', '⅕': '1/5', '⅖': '2/5', '⅗': '3/5', '⅘': '4/5',
  '⅙': '1/6', '⅚': '5/6', '⅛': '1/8', '⅜': '3/8', '⅝': '5/8', '⅞': '7/8'
}

const LATIN: Record<string, string> = {
  ß: 'ss', ẞ: 'SS', æ: 'ae', Æ: 'Ae',
  œ: 'oe', Œ: 'Oe', ø: 'o', Ø: 'O', đ: 'd', Đ: 'D', ł: 'l', Ł: 'L', þ: 'th',
  Þ: 'Th', ð: 'th', Ð: 'Th', ı: 'i', ħ: 'h', Ħ: 'H', ŋ: 'ng', Ŋ: 'Ng', ə: 'e', ſ: 's', ĸ: 'k', ŧ: 't', Ŧ: 'T'
}

const MARKS: Record<string, string> = {
  '’': "'", '‘': "'", 'ʼ': "'", '′': "'", '`': "'", '´': "'", '“': '"', '”': '"', '„': '"', '«': '"',
  '»': '"', '″': '"',
  '‐': '-', '‑': '-', '‒': '-', '−': '-', '–': '–', '—': '—', '―': '—', '⁄': '/', '∕': '/', '。': '. ',
  '、': ',', '·': ' ',
  '،': ',', '؛': ';', '؟': '?', '۔': '.', '।': '.', '¿': ' ', '¡': ' ', '「': '"', '」': '"', '《': '"',
  '》': '"',
  '•': ',', '‣': ',', '▪': ',', '…': '...', '→': ' to ', '⇒': ' to ', '™': ' ', '®': ' ', '©': ' copyright '
}

const GREEK = ['alpha', 'beta', 'gamma', 'delta', 'epsilon', 'zeta', 'eta', 'theta', 'iota', 'kappa',
  'lambda', 'mu',
  'nu', 'xi', 'omicron', 'pi', 'rho', 'sigma', 'sigma', 'tau', 'upsilon', 'phi', 'chi', 'psi', 'omega']

/** first digit of blocks of ten digits outside ASCII that are read as numbers */
const ZEROS = [
  0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xbe6, 0xc66, 0xce6, 0xd66, 0xe50, 0xed0, 0xf20
]

/**
 * letters of scripts without Latin forms; dropped first, since some grow to 18 letters when made compatible
 */
const FOREIGN = /[^\P{L}\p{Script=Latin}\p{Script=Common}\p{Script=Greek}]/gu
const before = new RegExp(`[${Object.keys(VULGAR).join('')}²³™®©…]`, 'gu')
const after = new RegExp(`[${Object.keys(LATIN).join('')}${Object.keys(MARKS).join('')}]`, 'gu')

/** what must be spelled out before compatibility forms melt into plain digits and letters ("2½", "m²") */
function early (c: string): string {
  if (VULGAR[c]) return ` ${VULGAR[c]}`
  if (c === '²') return ' squared'
  if (c === '³') return ' cubed'
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

/** Folds one window of text; the result is at most a small factor longer than the input. */
export function fold (text: string): string {
  if (/^[\n\x20-\x5f\x61-\x7e]*$/.test(text)) return text
  return text.replace(FOREIGN, ' ').replace(before, early).normalize('NFKC')
    .replace(/\r\n?/g, '\n').replace(/[\p{Z}\t\v\f]/gu, ' ').replace(/[\u00ad\u200b-\u200f\u2060\ufeff]/g, '')
    .normalize('NFD').replace(/\p{M}+/gu, '').normalize('NFC')
    .replace(after, (c) => LATIN[c] ?? MARKS[c]!)
    .replace(/[^\P{Nd}0-9]/gu, digit)
    .replace(/μ(?=[msgl]\b)/g, 'µ')
    .replace(/(?<!\p{Script=Greek})[α-ωΑ-Ω](?!\p{Script=Greek})/gu, greek)
    .replace(/[^\n\x20-\x7e°µ£€¥₹₩±×÷≈≤≥≠∞√–—§]/gu, ' ')
}
