import { cardinal, decimal, digits, ordinal, year } from './numbers.js'
import type { Rule } from './rule.js'

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

export const DATES: readonly Rule[] = [
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
