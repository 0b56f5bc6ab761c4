import { ABBREVIATIONS, spell, spellAcronyms } from './abbreviations.js'
import { digits, decimal, cardinal, ordinal, year } from './numbers.js'
import { CODES, QUANTITIES, CURRENCY_SIGNS, isYear, NUMBER, UNIT } from './quantities.js'
import type { Rule } from './rule.js'

function applyRules (text: string, rules: readonly Rule[]): string {
  let out = text
  for (const [pattern, replacement] of rules) {
    out = typeof replacement === 'string'
      ? out.replace(pattern, replacement)
      : out.replace(pattern, replacement as (all: string, ...groups: unknown[]) => string)
  }
  return out
}

const TLD = '(?:com|org|net|edu|gov|io|ai|dev|app|co|uk|de|fr|eu|us|ca|info|local|me|tv|sh)'
const SPOKEN: Record<string, string> = {
  '.': ' dot ', '/': ' slash ', '-': ' dash ', _: ' underscore ', '@': ' at ', ':': ' colon ',
  '?': ' question mark ', '=': ' equals ', '&': ' and ', '#': ' hash ', '%': ' percent ', '+': ' plus ',
  '~': ' tilde '
}

/** Reads an address: names every sign and reads digits one by one; later rules spell acronyms. */
function readAddress (address: string): string {
  return address.replace(/^(?:https?|ftp|wss?|file):\/\//i, '').replace(/\/$/, '')
    .replace(/\bwww\b/gi, 'double you double you double you')
    .replace(/\d+/g, (run) => ` ${digits(run)} `)
    .replace(/[^A-Za-z ]/g, (c) => SPOKEN[c] ?? ' ')
}

/** Reads an address, but keeps trailing punctuation, which belongs to the sentence. */
function keepEnd (all: string): string {
  const end = /(?<![.,;:?!)'"\]])[.,;:?!)'"\]]+$/.exec(all)?.[0] ?? ''
  return ` ${readAddress(all.slice(0, all.length - end.length))}${end} `.replace(/ {1,3}([.,;:?!)])/g, '$1')
}

/** Rules for web addresses, e-mail addresses, host names and IPv4 addresses. */
const WEB: readonly Rule[] = [
  [/\b(?:https?|ftp|wss?|file):\/\/[^\s<>"]+/gi, keepEnd],
  [/\bwww\.[^\s<>"]+/gi, keepEnd],
  [/(?<![A-Za-z0-9._%+-])[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,5}/g,
    keepEnd],
  [/\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?::\d+)?\b(?!\.\d)(?:\/[^\s<>"]*)?/g, keepEnd],
  [/\blocalhost(?::\d{2,5}\b|(?=\/\w))(?:\/[^\s<>"]*)?/g, keepEnd],
  [new RegExp(`\\b(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\\.){1,5}${TLD}(?!\\.?\\w)(?:/[^\\s<>"]*)?`, 'g'), keepEnd]
]

/** Rules for signs between words and numbers; they apply after those for addresses, dates and amounts. */
const SIGNS: readonly Rule[] = [
  [/\bC\+\+/g, 'C plus plus'], [/\b([CF])#/g, '$1 sharp'], [/#(?= ?\d)/g, ' number '],
  [/#(?=[A-Za-z])/g, ' hashtag '],
  [/&+/g, ' and '], [/%/g, ' percent '], [/@/g, ' at '], [/\+/g, ' plus '], [/±/g, ' plus or minus '],
  [/<=|≤/g, ' at most '], [/>=|≥/g, ' at least '], [/->|=>/g, ' to '], [/!=|≠/g, ' is not '],
  [/≈/g, ' about '], [/=+/g, ' equals '], [/(?<=\w ?)<(?= ?\w)/g, ' less than '],
  [/(?<=\w ?)>(?= ?\w)/g, ' greater than '],
  [/×/g, ' times '], [/÷/g, ' divided by '], [/§/g, ' section '], [/√/g, ' square root of '],
  [/∞/g, ' infinity '], [/°/g, ' degrees '], [/[$](?=\w)/g, ' dollar '], [/£/g, ' pounds '],
  [/€/g, ' euros '], [/¥/g, ' yen ']
]

/** Reduces a run of punctuation marks to one; "?!" becomes a question mark. */
function strongest (run: string): string {
  const end = run.match(/[?!]+|\./g)?.at(-1)
  if (end !== undefined) return end.includes('?') ? '? ' : `${end[0]} `
  return `${run.match(/[;:]/g)?.at(-1) ?? (run.includes(',') ? ',' : '')} `
}

/** Rules that drop everything but words and the punctuation that voices support: , . ; : ? ! */
const MARKS: readonly Rule[] = [
  [/ ?[—–] ?| -{1,3} |--+/g, ', '], [/[([{]/g, ', '], [/[)\]}]/g, ', '], [/ ?[|] ?/g, ', '],
  [/(?<=[A-Za-z])\.(?=[a-z])/g, ' dot '], [/(?<!\.)\.{2,}(?=\s*$)/g, '.'], [/\.{2,}/g, ', '],
  [/(?<![A-Za-z])'|'(?![A-Za-z])|["]/g, ' '], [/[^A-Za-z',.;:?!]+/g, ' '], [/[\s,.;:?!]+/g, strongest],
  [/^[ ,.;:?!]+/g, ''], [/[ ,;:]{1,2}$/g, '']
]

function applyWords (sentence: string): string {
  const written = applyRules(sentence, WEB)
    .replace(/\b([A-Z]{1,3})&([A-Z]{1,3})\b/g, (_, a: string, b: string) => `${spell(a)} and ${spell(b)}`)
  const words = applyRules(written, ABBREVIATIONS)
  const counted = /[\d%€^]/.test(words) ? applyRules(splitCodes(applyRules(words, DATED)), QUANTITIES) : words
  return spellAcronyms(applyRules(counted, SIGNS))
}

const SIGN = `[${CURRENCY_SIGNS}]`
/** Pattern for units and scales that both ends share: "$5k-$10k" is "five to ten thousand dollars". */
const SHARED = `${UNIT}|${SIGN}|k|K|M|mn|bn|B`
const SUFFIX = `(?: ?(?:${SHARED}|[AaPp]\\.?[Mm]\\b\\.?|(?:ay|pee) em\\b|st|nd|rd|th)(?![\\w/]))`
const END = `(\\d{1,2}:\\d\\d|${NUMBER})(${SUFFIX})?`

const IS_SHARED = new RegExp(`^(?:${SHARED})$`)
const NAME = new RegExp('\\b(?!About|Almost|And|Around|At|Between|For|From|In|Nearly|Only|Or|Over|Roughly|' +
  'Some|The|To|With|Page|Psalm|Line|Room|Chapter)[A-Z][A-Za-z]{1,20}(?<!s) $')

function range (all: string, lead = '', a: string, afterA: string | undefined, sign: string, b: string,
  afterB: string | undefined, at: number, text: string): string {
  const left = afterA?.trim() ?? ''
  const right = afterB?.trim() ?? ''
  const plain = !lead && !sign && !left && !right
  if (/^\d+-\d/.test(all) && a.length > 2 && (plain ? !isYear(a) : Number(a) > Number(b)) &&
    NAME.test(text.slice(Math.max(0, at - 24), at))) return `${a} ${b}${afterB ?? ''}`
  if (plain && a === b && !all.includes(' ')) return `${a} ${b}`
  if (/^[snrt][tdh]$/.test(right) && left === '') return all
  // "2003-04" is a season (2003 to 4), but "2020-01" is a month, which is not a range.
  if (/^0\d$/.test(b)) return isYear(a) && Number(b) === Number(a) % 100 + 1 ? `${a} to ${Number(b)}` : all
  if (right === 's' && isYear(a)) return `${a}${left} to ${b.length === 2 ? "'" : ''}${b}s`
  const shared = (lead === '' || sign === '' || lead === sign) && (left === '' || left === right) &&
    (lead + sign !== '' || IS_SHARED.test(right)) && !/:|\.\d\d$/.test(a)
  return `${shared ? decimal(a) : `${lead}${a}${afterA ?? ''}`} to ${sign || lead}${b}${afterB ?? ''}`
}

/** Rules for ranges; they apply after those for telephone numbers and before those for dates and times. */
const RANGES: readonly Rule[] = [
  [/(?<![\d.,+*/×÷–-])(?<![\d.,+*/×÷–-] )\d[\d.,+*/×÷ –-]{1,80}(?==)|(?<==)[\d.,+*/×÷ –-]{3,80}/g,
    (all) => all.replace(/(?<=\d) ?[-–] ?(?=[\d.])/g, ' minus ')
      .replace(/(?<=\d) ?\/ ?(?=\d)/g, ' divided by ')],
  [new RegExp(`(?<![\\w.^/–-])(?<!\\d,(?=\\d{3}))(?:(?:US)?(${SIGN}) ?)?${END} ?[-–~] ?` +
    `(?:US)?(${SIGN}?)${END}(?![-–:/\\w]{0,20}\\d)`, 'g'), range]
]

const MONTHS = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September',
  'October', 'November', 'December']
const MONTH =
  '(Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|' +
  'Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\\b'
const ERA = '(?:BCE?|AD|CE|B\\.C|A\\.D)\\b'
/** A year after a month: four digits, or fewer before an era. */
const YEAR = `(\\d{4}\\b|\\d{1,3}(?= ?${ERA}))`
const DAY = '\\b(\\d{1,2})(?:st|nd|rd|th)?'
/** Month names that are ordinary words unless capitalised. */
const WORDS = new Set(['may', 'march', 'mar'])

function monthName (text: string): string {
  const start = text.slice(0, 3).toLowerCase()
  return MONTHS.find((name) => name.toLowerCase().startsWith(start))!
}

function isDate (month: number, day: number): boolean {
  return month >= 1 && month <= 12 && day >= 1 && day <= 31
}

function spoken (month: number, day: number, y: string): string {
  return `${MONTHS[month - 1]!} ${ordinal(String(day))}, ${year(y)}`
}

/** Reads a day and a month; with a leading "the", the day stays first ("the 5th of May"). */
function monthDay (the: string | undefined, d: string, month: string): string {
  return the ? `${the}${ordinal(d)} of ${monthName(month)}` : `${monthName(month)} ${ordinal(d)}`
}

function isoDate (all: string, y: string, m: string, d: string): string {
  return isDate(Number(m), Number(d)) ? spoken(Number(m), Number(d), y) : all
}

/** Reads "3/4/2024" month first, as in the United States, unless only day first gives a valid date. */
function slashDate (all: string, a: string, b: string, y: string): string {
  const full = y.length === 2 ? (y < '70' ? '20' : '19') + y : y
  if (isDate(Number(a), Number(b))) return spoken(Number(a), Number(b), full)
  return isDate(Number(b), Number(a)) ? spoken(Number(b), Number(a), full) : all
}

function half (text: string | undefined): string {
  if (!text) return ''
  return /^a/i.test(text) ? ' ay em' : ' pee em'
}

function clock (all: string, h: string, m: string, s?: string, suffix?: string): string {
  if (Number(h) > 24 || Number(m) > 59) return all
  const hour = cardinal(String(Number(h)))
  const end = half(suffix)
  const seconds = s && Number(s) > 0 ? ` and ${decimal(s)} seconds` : ''
  const full = Number(h) > 12 || h === '00' ? ' hundred' : " o'clock"
  if (Number(m) === 0 && !seconds) return hour + (end || full)
  const minutes = Number(m) < 10 ? 'oh ' + cardinal(String(Number(m))) : cardinal(m)
  return `${hour} ${minutes}${seconds}${end}`
}

/** Matches "am" and "pm" with or without dots; the last dot may also end the sentence. */
const HALF = '((?:ay|pee) em\\b|[ap]\\.?m\\b\\.?(?=[^A-Za-z]|$)|[AP]\\.?M\\b\\.?(?=[^A-Za-z]|$))'

function keepStop (words: string, all: string, rest: string): string {
  return /[A-Za-z]\.$/.test(all) && /^\s*$/.test(rest) ? words + '.' : words
}

const DATES: readonly Rule[] = [
  [/(\d)T(\d\d:\d\d(?::\d\d)?)(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?\b/g, '$1, $2'],
  [/\b(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})\b(?!\.\d)/g, isoDate],
  [/\b(\d{1,2})\/(\d{1,2})\/(\d{4}|\d\d)\b/g, slashDate],
  [/\b(\d{1,2})\.(\d{1,2})\.(\d{4})\b/g, (all, d: string, m: string, y: string) =>
    isDate(+m, +d) ? isoDate(all, y, m, d) : slashDate(all, d, m, y)],
  [/\b(\d{1,2})-(\d{1,2})-(\d{4})\b/g, slashDate],
  [/\b(1[3-9]|2\d|3[01])\/(0[1-9]|1[0-2])\b(?!\/)/g,
    (_, d: string, m: string) => monthDay('', d, MONTHS[+m - 1]!)],
  [/(?<=\b(?:on|by|until|since|before|due|born) )(\d{1,2})\/(\d{1,2})\b(?!\/| of | an? )/g,
    (all, m: string, d: string) => isDate(+m, +d) ? monthDay('', d, MONTHS[+m - 1]!) : all],
  [new RegExp(`\\b${MONTH}\\.? ${DAY} to ${DAY}\\b(?!:)`, 'g'),
    (_, m: string, a: string, b: string) => `${monthDay('', a, m)} to ${ordinal(b)}`],
  [new RegExp(`${DAY} to ${DAY} ${MONTH}`, 'g'),
    (_, a: string, b: string, m: string) => `${monthDay('', a, m)} to ${ordinal(b)}`],
  [new RegExp(`(\\bthe )?${DAY}[ -](?:of )?${MONTH}\\.?[, -]{1,2}${YEAR}`, 'gi'),
    (_, the: string | undefined, d: string, m: string, y: string) => `${monthDay(the, d, m)}, ${year(y)}`],
  [new RegExp(`\\b${MONTH}\\.?[ -]${DAY},?[ -]${YEAR}`, 'gi'),
    (_, m: string, d: string, y: string) => `${monthDay('', d, m)}, ${year(y)}`],
  [new RegExp(`\\b${MONTH}\\.?[ -]${DAY}\\b(?![:.,]\\d)(?! ?[%ap]\\.?m)`, 'gi'),
    (all, m: string, d: string) => WORDS.has(m) ? all : monthDay('', d, m)],
  [new RegExp(`(\\bthe )?${DAY} (?:of )?${MONTH}(?!\\.?[a-z])`, 'gi'),
    (all, the: string | undefined, d: string, m: string) => WORDS.has(m) ? all : monthDay(the, d, m)],
  [new RegExp(`\\b${MONTH}\\.? ${YEAR}`, 'gi'), (_, m: string, y: string) => `${monthName(m)} ${year(y)}`],
  [new RegExp(`(?<![\\w.,])\\d{4}(?= ${ERA})|` +
    '(?<=\\b(?:in|since|year|circa|until) )(?:10|2[1-9])\\d\\d(?= ?(?:[.,;:!?)]|$))', 'g'), year],
  [new RegExp(`\\b(\\d{1,2})[:.](\\d\\d)(?::(\\d\\d))? ?${HALF}`, 'g'), halfDayClock],
  [new RegExp(`\\b(\\d{1,2}) ?${HALF}`, 'g'), (all, h: string, suffix: string, at: number, text: string) =>
    keepStop(cardinal(h) + half(suffix), all, text.slice(at + all.length))],
  [/\b(\d{1,2}):(\d\d)(?::(\d\d))?\b(?!:)/g, (all, h: string, m: string, s: string | undefined) =>
    clock(all, h, m, s)],
  // Read hyphenated numbers such as account numbers digit by digit.
  [/(?<![\w.-])\d{1,20}(?:-\d{1,20}){2,9}(?![\w-])/g, (all) =>
    /^\d{4}-\d\d-\d\d$/.test(all) || !/\d{3}/.test(all) ? all : all.split('-').map(digits).join(', ')]
]

function halfDayClock (all: string, h: string, m: string, s: string | undefined, suffix: string, at: number,
  text: string): string {
  return keepStop(clock(all, h, m, s, suffix), all, text.slice(at + all.length))
}

const DATED: readonly Rule[] = [...CODES, ...RANGES, ...DATES, ...SIGNS.slice(0, 4)]

/** Matches codes of letters and digits, except amounts and ordinals ("5km", "3rd"). */
const CODE = /(?:\b|(?<=\d)(?=[A-Z]))([A-Za-z]+)-?(\d+(?:\.\d+)?)(?:(s)\b|(?=[A-Za-z]*\b|[A-Z]))(-(?=\d))?/g

/** Separates letters and digits in "MP3s", "GPT-4" and "A100-80GB". */
function splitCodes (text: string): string {
  return text.replace(CODE, (_, letters: string, number: string, plural: string | undefined,
    dash: string | undefined, at: number) => {
    const spelled = /^(?:IPv|[A-Z]|[b-df-hj-np-tv-z]{2,3})$/.test(letters)
    const many = plural ? (/^[A-Z]+$/.test(letters) ? "'s" : 's') : ''
    const gap = /\d/.test(text.charAt(at - 1)) ? ' ' : ''
    return `${gap}${spelled ? spell(letters) : letters} ${number}${many}${dash ? ' ' : ''}`
  })
}

/** Converts folded text (`fold.ts`) to lower-case words and the marks , . ; : ? ! ('' if it has no words). */
export function normaliseSentence (sentence: string): string {
  if (!/[A-Za-z0-9]/.test(sentence)) return ''
  return applyRules(applyWords(sentence.replace(/\s+/g, ' ')), MARKS)
}
