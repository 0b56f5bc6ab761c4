import { cardinal, decimal, fraction, ordinal, pluralNumber, year, digits } from './numbers.js'
import { CURRENCY_SIGNS, money, MONEY_SCALE } from './money.js'
import type { Rule } from './rules.js'
import { UNIT, unitName } from './units.js'

/** a number without sign: 1,234.5 or .5 */
const NUMBER = '(?:\\d{1,3}(?:,\\d{3})+(?:\\.\\d+)?|\\d+(?:\\.\\d+)?|\\.\\d+)'
/** a minus sign, not the hyphen of a word or range */
const SIGN = '(?<![\\w.)])-'

function mixed (all: string, whole: string | undefined, above: string, below: string): string {
  const part = fraction(above, below)
  if (part === undefined) return all
  if (!whole) return part
  return `${cardinal(whole)} and ${part.replace(/^one (half|quarter)$/, 'a $1')}`
}

function isYear (text: string): boolean {
  return /^(?:1[1-9]|20)\d\d$/.test(text)
}

/** "1990" -> "nineteen nineties", "90" -> "nineties" */
function decade (long: string | undefined, short: string | undefined): string {
  return pluralNumber(long ? year(long) : cardinal(short!))
}

function rangeEnd (text: string): string {
  return isYear(text) ? year(text) : decimal(text)
}

function version (all: string, prefix: string, numbers: string): string {
  if (/^\d{1,2}\.\d{1,2}\.\d{4}$/.test(all)) return all
  if (!prefix && /^[1-9]\d{0,2}(?:\.\d{3}){2,}$/.test(numbers)) return cardinal(numbers.replaceAll('.', ''))
  return (prefix ? 'version ' : '') + numbers.split('.').map((each) => cardinal(each)).join(' point ')
}

function phoneNumber (all: string): string {
  const plus = all.startsWith('+') ? 'plus ' : ''
  return plus + all.split(/\D+/).filter(Boolean).map(digits).join(', ')
}

/** Telephone numbers and versions; before dates and ranges, which look alike. */
export const CODES: readonly Rule[] = [
  [/(?<![\w-])(?:\+\d{1,3}[ .-]?)?\(?\b\d{3}\)?[ .-]\d{3}[ .-]\d{4}\b(?!-\d)/g, phoneNumber],
  [/(?<![\w.])\+\d[\d -]{7,16}\d\b/g, phoneNumber],
  [/(?<![\w-])\d{3}-\d{4}\b(?![-\d])/g, phoneNumber],
  [/\b([vV]\.? ?)(\d+(?:\.\d+)*)\b/g, version],
  [/(?<![\w.,])()(\d+(?:\.\d+){2,})\b/g, version]
]

const PER = 'second|minute|hour|day|week|month|year|night|person|user|token|page'
/** "1990s" anywhere; "90s" only where it cannot be ninety seconds */
const DECADE =
  /(?<![\w.])'?((?:1[1-9]|20)\d0)'?s\b|(?<=\b(?:the|early|late|mid|his|her|their)[ -])'?(\d0)s\b|'(\d0)s\b/g

/** Money, percent, units, ranges, fractions, ordinals, years and whatever digits remain. */
export const QUANTITIES: readonly Rule[] = [
  [/(?<![\w.])\d{1,3}(?:[ .]\d{3}){2,}(?![\w.]*\d)/g, (all) => cardinal(all.replace(/\D/g, ''))],
  [/(?<!\S)> ?(?=\d)/g, ' greater than '], [/(?<!\S)< ?(?=\d)/g, ' less than '],
  [new RegExp(`(\\d[\\d,.]*(?:[kKMB]|bn)?|[%€])/(?=(?:${PER})\\b)`, 'g'), '$1 per '],
  [DECADE, (_, long?: string, short?: string, quoted?: string) => decade(long, short ?? quoted)],
  [new RegExp(`(${SIGN})?(?:US)?([${CURRENCY_SIGNS}]) ?(${NUMBER})${MONEY_SCALE}`, 'g'),
    (_, minus: string, sign: string, amount: string, word?: string, letter?: string) =>
      ` ${money(minus, sign, amount, word ?? letter)} `],
  [new RegExp(`(${SIGN})?\\b(${NUMBER}) ?([${CURRENCY_SIGNS}])`, 'g'),
    (_, minus: string, amount: string, sign: string) => ` ${money(minus, sign, amount)} `],
  [new RegExp(`(?<![\\w.-])(${NUMBER}) ?[-–] ?(${NUMBER})(?: ?(${UNIT})(?![\\w/]))?(?![-–\\w]*\\d)`, 'g'),
    (_, a: string, b: string, unit?: string) =>
      unit ? `${decimal(a)} to ${decimal(b)} ${unitName(unit, false)}` : `${rangeEnd(a)} to ${rangeEnd(b)}`],
  [/\b(?:(\d{1,3}) )?(\d{1,3})\/(\d{1,3})\b(?!\/)/g, mixed],
  [/\b(\d+)[x×](\d+)\b/g, '$1 by $2'], [/(\d) ?[×*] ?(?=\d)/g, '$1 times '],
  [new RegExp(`(${SIGN})?(?<![\\w.])(${NUMBER})( |-)?(${UNIT})(?![\\w/])`, 'g'),
    (_, minus: string, amount: string, gap: string, unit: string) =>
      `${minus ? 'minus ' : ''}${decimal(amount)} ${unitName(unit, amount === '1' || gap === '-')}`],
  [/(?<![\w.])(\d+(?:\.\d+)?)[eE]([-+]?\d{1,3})\b/g, (_, a: string, e: string) =>
    `${decimal(a)} times ten to the ${decimal(e.replace('+', ''))}`],
  [/\b(\d{1,3}(?:,\d{3})+|\d+)(?:st|nd|rd|th)\b/g, (_, n: string) => ordinal(n)],
  [/(?<![\w.,$-])((?:1[1-9]|20)\d\d)(?![\w]|[.,]\d)/g, (_, n: string) => year(n)],
  [/(?<![\w.])(\d+(?:\.\d+)?) ?x\b(?! ?\d)/g, (_, n: string) => decimal(n) + ' times'],
  [/(?<![\w.])(\d+(?=k)|\d{2,}(?=K))[kK]\b/g, (_, n: string) => cardinal(n) + ' thousand'],
  [new RegExp(`(${SIGN})(?=${NUMBER})`, 'g'), ' minus '], [/(?<!\w)\+(?=\.?\d)/g, ' plus '],
  [/(?<!\w)~ ?(?=\d)/g, 'about '],
  [new RegExp(NUMBER, 'g'), (all) => ` ${decimal(all)} `]
]
