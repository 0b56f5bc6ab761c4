import { cardinal, decimal, digits, fraction, ordinal, pluralNumber, year } from './numbers.js'
import type { Rule } from './rule.js'

/** Units whose plural adds an s: symbol and name. */
const REGULAR = `
  kB kilobyte, KB kilobyte, MB megabyte, GB gigabyte, TB terabyte, PB petabyte, KiB kibibyte, MiB mebibyte,
  GiB gibibyte, TiB tebibyte, Mb megabit, Gb gigabit,
  km kilometer, cm centimeter, mm millimeter, µm micrometer, nm nanometer, m meter, mi mile, yd yard,
  px pixel, kg kilogram, KG kilogram, KM kilometer, mg milligram, µg microgram, g gram, lb pound, oz ounce,
  ml milliliter, mL milliliter, µl microliter, L liter, l liter, gal gallon, ha hectare,
  ms millisecond, µs microsecond, ns nanosecond, s second, sec second, secs second, min minute, mins minute,
  h hour, hr hour, hrs hour, W watt, kW kilowatt, MW megawatt, Wh watt hour, kWh kilowatt hour,
  MWh megawatt hour, GWh gigawatt hour, V volt, mA milliamp, mAh milliamp hour, dB decibel, J joule,
  kJ kilojoule, Pa pascal, hPa hectopascal, kPa kilopascal, cal calorie, kcal kilocalorie, pt point,
  tok token`

/** Units with another plural: symbol, singular, plural. */
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

const PREFIXES =
  [['k', 'kilo'], ['K', 'kilo'], ['m', 'mega'], ['M', 'mega'], ['G', 'giga'], ['T', 'tera']] as const
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

/** Pattern for the unit symbols, longest first so that "km" is not read as "k". */
export const UNIT = [...UNITS.keys()].sort((a, b) => b.length - a.length).join('|')

function unitName (symbol: string, singular: boolean): string {
  return UNITS.get(symbol)![singular ? 0 : 1]
}

/** Currencies: singular and plural of the unit, then of its hundredth ('' if it has none). */
const CURRENCY: Record<string, readonly [string, string, string, string]> = {
  $: ['dollar', 'dollars', 'cent', 'cents'], '£': ['pound', 'pounds', 'penny', 'pence'],
  '€': ['euro', 'euros', 'cent', 'cents'], '¥': ['yen', 'yen', '', ''],
  '₹': ['rupee', 'rupees', 'paisa', 'paise'], '₩': ['won', 'won', '', '']
}
const SCALE: Record<string, string> = {
  k: 'thousand', K: 'thousand', m: 'million', M: 'million', mn: 'million', mil: 'million', b: 'billion',
  B: 'billion', bn: 'billion', T: 'trillion'
}

/** Reads an amount of money; `sign` is the currency sign, `scale` for example "million" or "k". */
function money (minus: string, sign: string, amount: string, scale?: string): string {
  const [one, many, cent, cents] = CURRENCY[sign]!
  const lead = minus ? 'minus ' : ''
  if (scale) return `${lead}${decimal(amount)} ${SCALE[scale] ?? scale.toLowerCase()} ${many}`
  const [whole = '0', part = ''] = amount.split('.')
  if (part.length !== 2 || cent === '') return `${lead}${decimal(amount)} ${amount === '1' ? one : many}`
  const change = Number(part) ? `${cardinal(String(Number(part)))} ${Number(part) === 1 ? cent : cents}` : ''
  const units = `${cardinal(whole || '0')} ${whole === '1' ? one : many}`
  if (!Number(whole.replaceAll(',', '')) && change) return lead + change
  return lead + units + (change ? ' and ' + change : '')
}

/** Pattern for an optional scale, with a group for words ("million") and one for letters ("k"). */
const MONEY_SCALE = '(?: ?([Hh]undred|[Tt]housand|(?:[MmBbZz]|[Tt]r)illion)\\b|(k|K|mn|mil|[mM]|bn?|B|T)\\b)?'

export const CURRENCY_SIGNS = Object.keys(CURRENCY).join('')

/** Pattern for a number without a sign: 1,234.5 or .5. */
export const NUMBER = '(?:\\d{1,3}(?:,\\d{3}){1,9}(?:\\.\\d+)?|\\d+(?:\\.\\d+)?|\\.\\d+)'
/** Pattern for the start of a number, so that no match begins inside one. */
const START = '(?<![\\w.])(?:(?<!\\d,)|(?!\\d{3}))'
/** Pattern for a minus sign, not a hyphen in a word or range. */
const SIGN = '(?<![\\w.)])-'

function mixed (all: string, whole: string | undefined, above: string, below: string, unit?: string): string {
  const part = fraction(above, below)
  if (part === undefined) return all
  const name = unit ? ' ' + unitName(unit, !whole) : ''
  if (!whole) return part + name
  return `${cardinal(whole)} and ${part.replace(/^one (half|quarter)$/, 'a $1')}${name}`
}

export function isYear (text: string): boolean { return /^(?:1[1-9]|20)\d\d$/.test(text) }

function measure (all: string, minus: string | undefined, amount: string, scale: string | undefined,
  gap: string | undefined, unit: string): string {
  if (!UNITS.has(unit)) return all
  const name = unitName(unit, !scale && (amount === '1' || gap === '-'))
  return `${minus ? 'minus ' : ''}${decimal(amount)}${scale ?? ''} ${name}`
}

/** "1990" -> "nineteen nineties", "90" -> "nineties" */
function decade (long: string | undefined, short: string | undefined): string {
  return pluralNumber(long ? year(long) : cardinal(short!))
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

/** A quotation mark after a number means inches, unless an earlier one opens a quotation. */
function inches (all: string, n: string, word: string | undefined, at: number, text: string): string {
  return text.indexOf('"') < at ? all : `${n} inch${word ?? 'es'}`
}

const power = (exponent: string): string =>
  ({ 2: ' squared', 3: ' cubed' })[exponent] ?? ` to the power of ${exponent} `

/** Words before codes that are read digit by digit ("zip code 90210"). */
const CODE_NAMES = '[Dd]ial(?:l?ed|l?ing|s)?|(?:[Aa]rea|[Zz]ip|[Pp]ost(?:al)?|[Pp]in|[Ss]ecurity) code|' +
  'PIN|ZIP|[Ee]xtension|[Ee]xt\\.?'
/** Short telephone numbers of emergency and information services in many countries. */
const SERVICE = '(?:[2-9]11|000|10[15]|11[1-9]|988|999)(?![.,:/-]?\\d)'
const CALLS = '[Cc]all(?:ed|ing|s)?|[Pp]hon(?:ed?|es|ing)|[Rr](?:ing|ang)|[Tt]ext(?:ed|ing|s)?'
const CALLED = '(?:emergency )?(?:call|caller|operator|dispatch|dispatcher|service|center|centre|hotline)s?'

/** Rules for telephone numbers, versions, powers and sizes, which must come before dates and ranges. */
export const CODES: readonly Rule[] = [
  [/(?<![\w-])(?:\+\d{1,3}[ .-]?|1[ .-])?(?:\(\d{3}\)[ .-]?|\d{3}[ .-])\d{3}[ .-]\d{4}\b(?!-\d)/g,
    phoneNumber],
  [new RegExp(`(?<=\\b(?:${CODE_NAMES})(?: is|:)? )\\d{1,10}\\b(?![.,:/-]?\\d| ?%)`, 'g'), digits],
  [new RegExp(`(?<=\\b(?:${CALLS}) (?:\\d{3} or )?)${SERVICE}\\b|` +
    `(?<![\\w.,$-])${SERVICE}(?= ${CALLED}\\b)`, 'g'), digits],
  [/\b1-(8\d\d)[- ](?=[A-Za-z])/g, (_, n: string) => `one, ${digits(n)}, `],
  [/(?<=\b(?:GMT|UTC) ?)[-–](?=\d)/g, ' minus '], [/(?<=\d) ?fl\.? ?oz\b/g, ' fluid ounces'],
  [/(?<=\d) ?yo\b/g, ' year old'],
  [/(?<![\w.])\+\d[\d -]{7,16}\d\b/g, phoneNumber],
  [/(?<![\w.-])(?:0\d{2,3}-\d{3,4}|(?:0\d{1,4}|1[38]00)(?: \d{3,4}){2,3})\b(?!-)/g, phoneNumber],
  [/(?<![\w$€£¥₹₩-])\d{3}-\d{4}\b(?![-\d])(?! ?[%€£])/g, phoneNumber],
  [/\b\d{1,3}(?:['_]\d{3}){1,9}\b/g, (all) => all.replace(/\D/g, '')], [/\b9\/11\b(?!\/)/g, 'nine eleven'],
  [/ ?[x*] ?(?=10\^)/g, ' times '],
  [/(?<=[\d)]|\b[A-Za-z]) ?\^ ?\{?(-?\d{1,9}|[a-z]\b)\}?/g, (_, n: string) => power(n)],
  [/(?<=\d) ?° ?(?=[CF]\b)/g, '°'],
  [/(?<=\d ?(?:[ckm]?m|ft|mi|yd))[23]\b/g, power],
  [/(\d)'(\d{1,2})(?:"|'')/g, '$1 foot $2'], [/\b(\d{1,3})"( [a-z])?/g, inches],
  [/\b([vV]\.? ?)(\d+(?:\.\d+)*)\b/g, version],
  [/(?<![\w.,])()(\d+(?:\.\d+){2,})\b/g, version]
]

const PER = 'second|minute|hour|day|week|month|year|night|person|user|token|page'
const PER_SHORT: Record<string, string> = { mo: 'month', yr: 'year', wk: 'week', d: 'day' }
/** Words before which m means million ("2m views"). */
const COUNTED = 'views|downloads|users|people|followers|subscribers|plays|likes|copies|tokens|' +
  'param(?:eter)?s|visit(?:or)?s|streams|installs|requests|records|rows|customers|members'
/** Matches decades: "1990s" always, "90s" only if it cannot mean ninety seconds. */
const DECADE = new RegExp("(?<![\\w.])'?((?:1[1-9]|20)\\d0)'?s\\b|'(\\d0)'?s\\b|" +
  "(?<=\\b(?:[Tt]he|[Ee]arly|[Ll]ate|[Mm]id|his|her|their)[ -](?:'?\\d0s (?:and|or|to) )?)(\\d0)s\\b", 'g')

/** Rules for money, percentages, units, ranges, fractions, ordinals, years and all remaining digits. */
export const QUANTITIES: readonly Rule[] = [
  [/(?<![\w.])\d{1,3}(?:[ .]\d{3}){2,9}(?![\w.]{0,20}\d)/g, (all) => cardinal(all.replace(/\D/g, ''))],
  [/(?<!\S)> ?(?=\d)/g, ' greater than '], [/(?<!\S)< ?(?=\d)/g, ' less than '],
  [new RegExp(`(?<=[\\d%€](?:[kKMB]|bn)?)/(${PER}|mo|yr|wk|d|${UNIT})(?![\\w/])`, 'g'),
    (_, per: string) => ` per ${PER_SHORT[per] ?? UNITS.get(per)?.[0] ?? per}`],
  [DECADE, (_, long?: string, short?: string, quoted?: string) => decade(long, short ?? quoted)],
  [/(?<![\w.])(\d{1,4})'s\b/g, (_, n: string) => pluralNumber(cardinal(n))],
  [new RegExp(`(${SIGN})?(?:US)?([${CURRENCY_SIGNS}]) ?(${NUMBER})${MONEY_SCALE}`, 'g'),
    (_, minus: string, sign: string, amount: string, word?: string, letter?: string) =>
      ` ${money(minus, sign, amount, word ?? letter)} `],
  [new RegExp(`(${SIGN})?\\b(${NUMBER}) ?([${CURRENCY_SIGNS}])`, 'g'),
    (_, minus: string, amount: string, sign: string) => ` ${money(minus, sign, amount)} `],
  [new RegExp(`\\b(?:(\\d{1,3}) )?(\\d{1,3})/(\\d{1,3})(?:rd|th)?\\b(?!/)` +
    `(?: ?(${UNIT})(?![\\w/]))?`, 'g'), mixed],
  [/\b(\d+)[x×](\d+)\b/g, '$1 by $2'], [/(?<=\d) x (?=\d)/g, ' by '],
  [new RegExp(`(?<!-)${START}(?!3M\\b(?! (?:${COUNTED})))(${NUMBER})` +
    `(?: ?([mMbB]|[mb]n|mil)(?= (?:${COUNTED})\\b)|(M|[mb]n|mil)\\b)`, 'g'),
  (_, n: string, counted?: string, letter?: string) => `${n} ${SCALE[(counted ?? letter)!]!}`],
  [/(\d) ?[×*] ?(?=\d)/g, '$1 times '],
  [new RegExp(`(${SIGN})?${START}(${NUMBER})( (?:thousand|[mbtr]{1,2}illion))?( |-)?` +
    '(%|°[CF]?|[A-Za-zµ]{1,5}(?:/[a-z]{1,3})?)(?![\\w/])', 'g'), measure],
  [/(?<![\w.])(\d+(?:\.\d+)?)[eE]([-+]?\d{1,3})\b/g, (_, a: string, e: string) =>
    `${decimal(a)} times ten to the ${decimal(e.replace('+', ''))}`],
  [/\b(\d{1,3}(?:,\d{3}){1,9}|\d{1,20})(?:st|nd|rd|th)\b/g, (_, n: string) => ordinal(n)],
  [/(?<![\w.,$-])((?:1[1-9]|20)\d\d)(?![\w]|[.,]\d)/g, (_, n: string) => year(n)],
  [/(?<![\w.])(\d+(?:\.\d+)?) ?x\b(?! ?\d)/g, (_, n: string) => decimal(n) + ' times'],
  [/(?<![\w.])(\d+(?:\.\d+)?(?=k)|\d{2,}(?=K))[kK]\b/g, (_, n: string) => decimal(n) + ' thousand'],
  [new RegExp(`(${SIGN})(?=${NUMBER})`, 'g'), ' minus '], [/(?<!\w)\+(?=\.?\d)/g, ' plus '],
  [/(?<!\w)~ ?(?=\d)/g, 'about '],
  [new RegExp(NUMBER, 'g'), (all) => ` ${decimal(all)} `]
]
