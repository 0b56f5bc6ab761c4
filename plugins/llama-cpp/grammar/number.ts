/** Numbers within bounds, in GBNF. */
import { NotExpressible } from './gbnf.js'

/** Numbers of at most so many digits keep their order as double-precision numbers. */
const DIGITS = 15
const LIMIT = 10 ** DIGITS
const INTEGER = '"-"? ("0" | [1-9] [0-9]{0,14})'
const NUMBER = `${INTEGER} ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,2})?`

/** Alternatives by the keywords of a schema; none if no number fits. Throws NotExpressible. */
export function numbers (words: Record<string, unknown>, integer: boolean): string[] {
  const { minimum: min = -Infinity, exclusiveMinimum: above = -Infinity, maximum: max = Infinity,
    exclusiveMaximum: below = Infinity } = words as Record<string, number>
  const low = integer ? Math.max(Math.ceil(min), Math.floor(above) + 1) : min
  const high = integer ? Math.min(Math.floor(max), Math.ceil(below) - 1) : max
  const isOpen = integer || (above < low && below > high) || (above === -Infinity && below === Infinity)
  if (low === -Infinity && high === Infinity && isOpen) return [integer ? INTEGER : NUMBER]
  if (low > high) return []
  const isWhole = [low, high].every((bound) => Number.isInteger(bound) || Math.abs(bound) === Infinity)
  if (!isOpen || !isWhole || low >= LIMIT || high <= -LIMIT) {
    throw new NotExpressible(`has bounds that are not whole, of more than ${DIGITS} digits, or excluded`)
  }
  const between = integer ? whole : decimals
  return [...high < 0 ? [] : between(Math.max(low, 0), high),
    ...low >= 0 ? [] : between(Math.max(-high, integer ? 1 : 0), -low).map((text) => `"-" (${text})`)]
}

/** The upper bound itself, and numbers with a fraction below it. */
function decimals (low: number, high: number): string[] {
  const places = DIGITS - String(high < LIMIT ? high : low).length
  const fraction = places < 1 ? '' : ` ("." [0-9]{1,${places}})?`
  return [...high < LIMIT ? [`"${high}"`] : [], ...whole(low, high - 1).map((text) => `(${text})${fraction}`)]
}

/** Whole numbers from 0, of one length each. */
function whole (low: number, high: number): string[] {
  if (low > high) return []
  const [least, most] = [String(low), String(Math.min(high, LIMIT - 1))]
  return Array.from({ length: most.length - least.length + 1 }, (_, i) => {
    const length = least.length + i
    const from = i === 0 ? least : `1${'0'.repeat(length - 1)}`
    return span(from, length === most.length ? most : '9'.repeat(length))
  })
}

/** Digits from `low` to `high`, which are of one length. */
function span (low: string, high: string): string {
  const [first, last, rest] = [Number(low[0]), Number(high[0]), low.length - 1]
  if (rest === 0) return `[${first}-${last}]`
  if (/^0*$/.test(low) && /^9*$/.test(high)) return `[0-9]{${rest + 1}}`
  if (first === last) return `"${first}" ${span(low.slice(1), high.slice(1))}`
  const between = last - first < 2 ? '' : ` | [${first + 1}-${last - 1}] [0-9]{${rest}}`
  return `("${first}" ${span(low.slice(1), '9'.repeat(rest))}${between} | ` +
    `"${last}" ${span('0'.repeat(rest), high.slice(1))})`
}
