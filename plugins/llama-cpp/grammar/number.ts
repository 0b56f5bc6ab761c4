/** Numbers within bounds as languages. */
import { NotExpressible } from './errors.js'
import type { Language, Languages } from './language.js'
import { patternLanguage } from './pattern.js'

/** Bounds of a number; `aboveMin`, `belowMax`: the bound itself is excluded. */
export interface Bounds { min: number, aboveMin: boolean, max: number, belowMax: boolean }

/** Decimals of at most so many digits keep their order as double-precision numbers. */
const DIGITS = 15
type Digits = readonly [whole: string, fraction: string]

/** Throws NotExpressible if a bound has too many digits. */
export function numberLanguage (bounds: Bounds, integer: boolean, of: Languages): Language {
  const { min, max, aboveMin, belowMax } = integer ? wholeBounds(bounds) : bounds
  const within = (low: number, above: boolean, high: number, below: boolean): Language => {
    const [least, most] = [digitsOf(low), high < 10 ** DIGITS ? digitsOf(high) : undefined]
    const places = DIGITS - Math.max(least[0].length, most?.[0].length ?? 1)
    const form = `(?:0|[1-9]\\d{0,14})${integer || places === 0 ? '' : `(?:\\.\\d{1,${places}})?`}`
    const sources = [form, bounding(least, above, 1), ...most ===
      undefined ? [] : [bounding(most, below, -1)]]
    return of.allOf(sources.map((source) => patternLanguage(`^(?:${source})$`, of)))
  }
  const positive = max < 0 ? of.none : within(Math.max(min, 0), min >= 0 && aboveMin, max, belowMax)
  const negative = min >= 0 ? of.none : within(Math.max(-max, 0), max >= 0 || belowMax, -min, aboveMin)
  return of.anyOf([positive, of.join([of.text('-'), negative])])
}

const wholeBounds = ({ min, aboveMin, max, belowMax }: Bounds): Bounds => ({
  min: Math.ceil(min) + (aboveMin && Number.isInteger(min) ? 1 : 0), aboveMin: false,
  max: Math.floor(max) - (belowMax && Number.isInteger(max) ? 1 : 0), belowMax: false
})

/** The digits before and after the point of a number from 0. */
function digitsOf (value: number): Digits {
  const [mantissa = '', exponent = '0'] = String(value).split('e')
  const [whole = '', fraction = ''] = mantissa.split('.')
  const zeros = Math.max(0, -Number(exponent) - 1)
  const digits: Digits = zeros > 0 ? ['0', '0'.repeat(zeros) + whole + fraction] : [whole, fraction]
  if (digits.join('').length > DIGITS) throw new NotExpressible(`has a bound of more than ${DIGITS} digits`)
  return digits
}

/** An expression for the numbers above (`side` 1) or below (-1) a bound, by the first digit that differs. */
function bounding ([whole, fraction]: Digits, excluded: boolean, side: 1 | -1): string {
  const [digits, length] = [whole + fraction, whole.length]
  const start = (count: number): string =>
    count <= length ? digits.slice(0, count) : `${whole}\\.${digits.slice(length, count)}`
  const longer = `${start(digits.length)}${fraction === '' ? '\\.' : ''}0*[1-9]\\d*`
  const ways = side === 1 ? [`[1-9]\\d{${length},}(?:\\.\\d*)?`, longer]
    : [...length > 1 ? [`(?:0|[1-9]\\d{0,${length - 2}})(?:\\.\\d*)?`] : [],
        ...Array.from(fraction, (_, i) => start(length + i))]
  for (let i = 0; i < digits.length; i++) {
    const digit = Number(digits[i])
    const [from, to] = side === 1 ? [digit + 1, 9] : [i === 0 && length > 1 ? 1 : 0, digit - 1]
    const point = i === length ? '\\.' : ''
    const rest = i < length ? `\\d{${length - i - 1}}(?:\\.\\d*)?` : '\\d*'
    if (from <= to) ways.push(`${start(i)}${point}[${from}-${to}]${rest}`)
  }
  return [...ways, ...excluded ? [] : [start(digits.length)]].join('|')
}
