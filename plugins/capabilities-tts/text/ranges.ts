/** Reads hyphens between numbers, which occur in ranges, calculations and model names. */
import type { Rule } from './rule.js'
import { decimal } from './numbers.js'
import { CURRENCY_SIGNS, isYear, NUMBER, UNIT } from './quantities.js'

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
export const RANGES: readonly Rule[] = [
  [/(?<![\d.,+*/×÷–-])(?<![\d.,+*/×÷–-] )\d[\d.,+*/×÷ –-]{1,80}(?==)|(?<==)[\d.,+*/×÷ –-]{3,80}/g,
    (all) => all.replace(/(?<=\d) ?[-–] ?(?=[\d.])/g, ' minus ')
      .replace(/(?<=\d) ?\/ ?(?=\d)/g, ' divided by ')],
  [new RegExp(`(?<![\\w.^/–-])(?<!\\d,(?=\\d{3}))(?:(?:US)?(${SIGN}) ?)?${END} ?[-–~] ?` +
    `(?:US)?(${SIGN}?)${END}(?![-–:/\\w]{0,20}\\d)`, 'g'), range]
]
