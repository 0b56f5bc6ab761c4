import { cardinal, decimal, digits, fraction, ordinal, pluralNumber, year } from './numbers.js'
import type { Rule } from './normalise.js'

/** Symbol and name; the plural takes an s. */
const REGULAR = `
  kB kilobyte, KB kilobyte, MB megabyte, GB gigabyte, TB terabyte, PB petabyte, KiB kibibyte, MiB mebibyte,
  GiB gibibyte, TiB tebibyte, Mb megabit, Gb gigabit,
  km kilometer, cm centimeter, mm millimeter, µm micrometer, nm nanometer, m meter, mi mile, yd yard,
  px pixel, kg kilogram, mg milligram, µg microgram, g gram, lb pound, oz ounce,
  ml milliliter, mL milliliter, µl microliter, L liter, l liter, gal gallon, ha hectare,
  ms millisecond, µs microsecond, ns nanosecond, s second, sec second, secs second, min minute, mins minute,
  h hour, hr hour, hrs hour, W watt, kW kilowatt, MW megawatt, kWh kilowatt hour, V volt, mA milliamp,
  mAh milliamp hour, dB decibel, J joule, kJ kilojoule, Pa pascal, kPa kilopascal, cal calorie,
  kcal kilocalorie, pt point, tok token`

/** Symbol, singular, plural. */
const IRREGULAR: ReadonlyArray<readonly [string, string, string]> = [
  ['km/h', 'kilometer per hour', 'kilometers per hour'], ['mph', 'mile per hour', 'miles per hour'],
  ['m/s', 'meter per second', 'meters per second'], ['fps', 'frame per second', 'frames per second'],
  ['tok/s', 'token per second', 'tokens per second'],
  ['rpm', 'revolution per minute', 'revolutions per minute'],
  ['dpi', 'dot per inch', 'dots per inch'], ['°F', 'degree fahrenheit', 'degrees fahrenheit'],
  ['°C', 'degree celsius', 'degrees celsius'], ['°', 'degree', 'degrees'], ['%', 'percent', 'percent'],
  ['Hz', 'hertz', 'hertz'], ['kHz', 'kilohertz', 'kilohertz'], ['MHz', 'megahertz', 'megahertz'],
  ['GHz', 'gigahertz', 'gigahertz'], ['ft', 'foot', 'feet'], ['lbs', 'pound', 'pounds']
]

const PREFIXES = [['k', 'kilo'], ['K', 'kilo'], ['M', 'mega'], ['G', 'giga'], ['T', 'tera']] as const
const RATES = [['B/s', 'byte'], ['bit/s', 'bit'], ['bps', 'bit']] as const

const UNITS = new Map<string, readonly [string, string]>()
for (const entry of REGULAR.trim().split(/,\s+/)) {
  const at = entry.indexOf(' ')
  UNITS.set(entry.slice(0, at), [entry.slice(at + 1), entry.slice(at + 1) + 's'])
}
for (const [symbol, one, many] of IRREGULAR) UNITS.set(symbol, [one, many])
for (const [short, long] of PREFIXES) {
  for (const [symbol, name] of RATES) {
    UNITS.set(short + symbol, [`${long}${name} per second`, `${long}${name}s per second`])
  }
}

/** The symbols as alternatives of a pattern, longer ones first. */
const UNIT = [...UNITS.keys()].sort((a, b) => b.length - a.length).join('|')

function unitName (symbol: string, singular: boolean): string {
  return UNITS.get(symbol)![singular ? 0 : 1]
}

/** One, many, and one and many of the hundredth part; '' where there is none. */
const CURRENCY: Record<string, readonly [string, string, string, string]> = {
  $: ['dollar', 'dollars', 'cent', 'cents'], '£': ['pound', 'pounds', 'penny', 'pence'],
  '€': ['euro', 'euros', 'cent', 'cents'], '¥': ['yen', 'yen', '', ''],
  '₹': ['rupee', 'rupees', 'paisa', 'paise'], '₩': ['won', 'won', '', '']
}
const SCALE: Record<string, string> = {
  k: 'thousand', K: 'thousand', m: 'million', M: 'million', mn: 'million', b: 'billion', B: 'billion',
  bn: 'billion', thousand: 'thousand', million: 'million', billion: 'billion', trillion: 'trillion',
  T: 'trillion'
}

/** An amount in words: sign, currency sign, digits, and a scale such as "million" or "k". */
function money (minus: string, sign: string, amount: string, scale?: string): string {
  const [one, many, cent, cents] = CURRENCY[sign]!
  const lead = minus ? 'minus ' : ''
  if (scale) return `${lead}${decimal(amount)} ${SCALE[scale]!} ${many}`
  const [whole = '0', part = ''] = amount.split('.')
  if (part.length !== 2 || cent === '') return `${lead}${decimal(amount)} ${amount === '1' ? one : many}`
  const change = Number(part) ? `${cardinal(String(Number(part)))} ${Number(part) === 1 ? cent : cents}` : ''
  const units = `${cardinal(whole || '0')} ${whole === '1' ? one : many}`
  if (!Number(whole.replaceAll(',', '')) && change) return lead + change
  return lead + units + (change ? ' and ' + change : '')
}

/** Groups: the scale as a word, the scale as letters. */
const MONEY_SCALE = '(?: ?(thousand|million|billion|trillion)\\b|(k|K|mn?|M|bn?|B|T)\\b)?'

const CURRENCY_SIGNS = Object.keys(CURRENCY).join('')

/** A number without sign: 1,234.5 or .5. */
const NUMBER = '(?:\\d{1,3}(?:,\\d{3})+(?:\\.\\d+)?|\\d+(?:\\.\\d+)?|\\.\\d+)'
/** A minus sign, not the hyphen of a word or range. */
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
