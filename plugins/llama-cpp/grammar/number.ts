/** Writes GBNF for numbers within bounds. */
import { NotExpressible } from './gbnf.js'

/** Maximum number of significant digits with which two different decimals are never the same double. */
const DIGITS = 15
const LIMIT = 10 ** DIGITS
const INTEGER = '"-"? ("0" | [1-9] [0-9]{0,14})'
const NUMBER = `${INTEGER} ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,2})?`

/** GBNF alternatives for a number in a schema; empty if no number is valid. @throws NotExpressible */
export function numbers (words: Record<string, unknown>, integer: boolean): string[] {
  const { minimum: min = -Infinity, exclusiveMinimum: above = -Infinity, maximum: max = Infinity,
    exclusiveMaximum: below = Infinity, multipleOf } = words as Record<string, number>
  const low = integer ? Math.max(Math.ceil(min), Math.floor(above) + 1) : Math.max(min, above)
  const high = integer ? Math.min(Math.floor(max), Math.ceil(below) - 1) : Math.min(max, below)
  const isFree = low === -Infinity && high === Infinity
  if (multipleOf !== undefined) return [multiples(isFree ? multipleOf : NaN)]
  if (isFree) return [integer ? INTEGER : NUMBER]
  const [isAbove, isBelow] = [!integer && low === above, !integer && high === below]
  if (low > high || (low === high && (isAbove || isBelow))) return []
  const places = Math.max(...[low, high].map((bound) => String(bound).split('.')[1]?.length ?? 0))
  const between = (from: number, to: number, isAbove: boolean, isBelow: boolean): string[] => {
    // Scale the bounds to integers by dropping the decimal point.
    const [least = 0, most = 0] = [from, to].map((bound) => {
      const [before = '', after = ''] = String(bound).split('.')
      return bound < LIMIT ? Math.min(LIMIT, Number(before + after.padEnd(places, '0'))) : LIMIT
    })
    if (![least, most].every(Number.isInteger) || least === LIMIT) {
      throw new NotExpressible(`has a bound of more than ${DIGITS} digits`)
    }
    const more = integer ? 0 : Math.max(0, DIGITS - String(most < LIMIT ? most : least).length)
    const tail = places > 0 ? `[0-9]{0,${more}}` : more > 0 ? `("." [0-9]{1,${more}})?` : ''
    const edge = isAbove && least < most && more > 0 ? digits(least, least, places) : []
    return [...isBelow || most === LIMIT ? [] : digits(most, most, places),
      ...edge.map((text) => `${text} ${places > 0 ? '' : '"."'} [0-9]{0,${more - 1}} [1-9]`),
      ...digits(isAbove ? least + 1 : least, most - 1, places).map((text) => `(${text}) ${tail}`)]
  }
  return [...high < 0 ? [] : between(Math.max(low, 0), high, low >= 0 && isAbove, isBelow),
    ...low >= 0 ? [] : between(Math.max(-high, integer ? 1 : 0), -low, high <= 0 && isBelow, isAbove)
      .map((text) => `"-" (${text})`)]
}

function multiples (step: number): string {
  if (1000 % step !== 0 || step < 1) throw new NotExpressible('does not divide 1000, or is used with bounds')
  const ends = Array.from({ length: 1000 / step }, (_, i) => String(i * step))
  return `"-"? ("${ends.join('" | "')}" | ` +
    `[1-9] [0-9]{0,11} ("${ends.map((end) => end.padStart(3, '0')).join('" | "')}"))`
}

/** GBNF alternatives for the integers from `low` to `high`, one for each number of digits. */
function digits (low: number, high: number, places: number): string[] {
  if (low > high) return []
  const [least = '', most = ''] = [low, high].map((bound) => String(bound).padStart(places + 1, '0'))
  return Array.from({ length: most.length - least.length + 1 }, (_, i) => {
    const length = least.length + i
    const from = i === 0 ? least : `1${'0'.repeat(length - 1)}`
    return span(from, length === most.length ? most : '9'.repeat(length), places)
  })
}

/** GBNF for digits from `low` to `high` (same length), with a decimal point before the last `places`. */
function span (low: string, high: string, places: number): string {
  const [first, last, rest] = [Number(low[0]), Number(high[0]), low.length - 1]
  if (rest === 0) return `[${first}-${last}]`
  const point = rest === places ? '"." ' : ''
  const after = (from: string, to: string): string => `${point}${span(from, to, places)}`
  const [zeros, nines] = ['0'.repeat(rest), '9'.repeat(rest)]
  if (first === last || (low.endsWith(zeros) && high.endsWith(nines))) {
    return `[${first}-${last}] ${after(low.slice(1), high.slice(1))}`
  }
  const between = last - first < 2 ? '' : ` | [${first + 1}-${last - 1}] ${after(zeros, nines)}`
  return `("${first}" ${after(low.slice(1), nines)}${between} | "${last}" ${after(zeros, high.slice(1))})`
}
