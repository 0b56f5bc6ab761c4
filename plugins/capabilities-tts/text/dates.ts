import { cardinal, decimal, ordinal, year } from './numbers.js'
import type { Rule } from './normalise.js'

const MONTHS = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September',
  'October', 'November', 'December']
const MONTH =
  'Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|' +
  'Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?'

function monthName (text: string): string {
  return MONTHS.find((name) => name.startsWith(text.slice(0, 3)))!
}

function isDate (month: number, day: number): boolean {
  return month >= 1 && month <= 12 && day >= 1 && day <= 31
}

function spoken (month: number, day: number, y: string): string {
  return `${MONTHS[month - 1]!} ${ordinal(String(day))}, ${year(y)}`
}

function isoDate (all: string, y: string, m: string, d: string): string {
  return isDate(Number(m), Number(d)) ? spoken(Number(m), Number(d), y) : all
}

/** Month first as in the United States, unless only day first makes a date. */
function slashDate (all: string, a: string, b: string, y: string): string {
  const full = y.length === 2 ? '20' + y : y
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

/** "pm" with or without dots; the last dot may end the sentence, too. */
const HALF = '([ap]\\.?m\\b\\.?(?=[^A-Za-z]|$)|[AP]\\.?M\\b\\.?(?=[^A-Za-z]|$))'

function keepStop (words: string, all: string, rest: string): string {
  return /[A-Za-z]\.$/.test(all) && /^\s*$/.test(rest) ? words + '.' : words
}

/** Dates and times of day. */
export const DATES: readonly Rule[] = [
  [/(\d)T(\d\d:\d\d(?::\d\d)?)(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?\b/g, '$1, $2'],
  [/\b(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})\b(?!\.\d)/g, isoDate],
  [/\b(\d{1,2})\/(\d{1,2})\/(\d{4}|\d\d)\b/g, slashDate],
  [/\b(\d{1,2})\.(\d{1,2})\.(\d{4})\b/g, (all, d: string, m: string, y: string) => isoDate(all, y, m, d)],
  [new RegExp(`\\b(\\d{1,2})(?:st|nd|rd|th)? (?:of )?(${MONTH})\\b\\.?,? (\\d{4})\\b`, 'g'),
    (_, d: string, m: string, y: string) => `${monthName(m)} ${ordinal(d)}, ${year(y)}`],
  [new RegExp(`\\b(${MONTH})\\b\\.? (\\d{1,2})(?:st|nd|rd|th)?,? (\\d{4})\\b`, 'g'),
    (_, m: string, d: string, y: string) => `${monthName(m)} ${ordinal(d)}, ${year(y)}`],
  [new RegExp(`\\b(${MONTH})\\b\\.? (\\d{1,2})(?:st|nd|rd|th)?\\b(?![:.,]\\d)(?! ?[%ap]\\.?m)`, 'g'),
    (_, m: string, d: string) => `${monthName(m)} ${ordinal(d)}`],
  [new RegExp(`\\b(\\d{1,2})(?:st|nd|rd|th)? (?:of )?(${MONTH})\\b(?!\\.?[a-z])`, 'g'),
    (_, d: string, m: string) => `${monthName(m)} ${ordinal(d)}`],
  [new RegExp(`\\b(${MONTH})\\b\\.? (\\d{4})\\b`, 'g'),
    (_, m: string, y: string) => `${monthName(m)} ${year(y)}`],
  [new RegExp(`\\b(\\d{1,2}):(\\d\\d)(?::(\\d\\d))? ?${HALF}`, 'g'), halfDayClock],
  [new RegExp(`\\b(\\d{1,2}) ?${HALF}`, 'g'), (all, h: string, suffix: string, at: number, text: string) =>
    keepStop(cardinal(h) + half(suffix), all, text.slice(at + all.length))],
  [/\b(\d{1,2}):(\d\d)(?::(\d\d))?\b(?!:)/g, (all, h: string, m: string, s: string | undefined) =>
    clock(all, h, m, s)]
]

function halfDayClock (all: string, h: string, m: string, s: string | undefined, suffix: string, at: number,
  text: string): string {
  return keepStop(clock(all, h, m, s, suffix), all, text.slice(at + all.length))
}
