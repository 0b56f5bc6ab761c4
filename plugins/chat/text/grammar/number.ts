import { spend } from './budget.js'
import { frameOf, Rule, type Frame, type RuleSet, type State } from './machine.js'

/** Digits of one number; decimals of 15 digits are told apart by every double (DBL_DIG). */
const DIGITS = 15
/** Digits after the point of the fixed-point numbers that bounds are compared in. */
const SCALE = 14
const power = (digits: number): bigint => 10n ** BigInt(digits)
const ONE = power(SCALE)
const LARGEST = (power(DIGITS) - 1n) * ONE

/** Numbers without limits, as patterns: up to 15 digits on either side of the point, exponents of two. */
export const ANY_INTEGER = '-?(0|[1-9]\\d{0,14})'
export const ANY_NUMBER = `${ANY_INTEGER}(\\.\\d{1,15})?([eE][+-]?\\d{1,2})?`
/** What the text of a number within limits begins with. */
const PREFIX = /^-?(?:(?:0|[1-9]\d{0,14})(?:\.\d{0,14})?)?$/

/** A number times 10 to the power of `SCALE`; null where it has more digits behind the point. */
export function fixedPoint (value: number): bigint | null {
  const [digits, shift] = decimal(value)
  return shift + SCALE < 0 ? null : digits * power(shift + SCALE)
}

/** Keywords that limit a number; `multipleOf` has at most `SCALE` digits behind the point. */
export const NUMBER_LIMITS =
  ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'] as const
/** The limits of a number. */
export type NumberLimits = { [Keyword in (typeof NUMBER_LIMITS)[number]]?: number }

/** A number within limits, without exponent. State: its text so far. */
export class BoundNumber extends Rule {
  protected override readonly first = ''
  private readonly low: bigint
  private readonly high: bigint
  /** By the digits behind the point: what a number with so many is a multiple of. */
  private readonly units: readonly bigint[]
  private readonly integer: boolean

  constructor (set: RuleSet, limits: NumberLimits, integer: boolean) {
    super(set)
    const { minimum, maximum, exclusiveMinimum: above, exclusiveMaximum: below, multipleOf } = limits
    // Upper limits are lower ones of the negative number.
    const lower = (limit: number | undefined, sign: 1 | -1, open: bigint): bigint =>
      limit === undefined ? -LARGEST : roundedUp(sign * limit, open)
    this.integer = integer
    const divisor = multipleOf === undefined ? 1n : fixedPoint(multipleOf) ?? 1n
    this.units = Array.from({ length: integer ? 1 : SCALE + 1 }, (_, decimals) =>
      leastCommonMultiple(divisor, power(SCALE - decimals)))
    this.low = largest(-LARGEST, lower(minimum, 1, 0n), lower(above, 1, 1n))
    this.high = -largest(-LARGEST, lower(maximum, -1, 0n), lower(below, -1, 1n))
  }

  step (frame: Frame, byte: number): readonly Frame[] {
    const next = (frame.state as string) + String.fromCharCode(byte)
    if (!PREFIX.test(next) || (this.integer && byte === 0x2e)) return []
    return [frameOf(this, next, frame.ret as Frame)]
  }

  override complete (state: State): boolean {
    return state !== '' && this.rest(state) === 0
  }

  /** Fewest further bytes that make a number within the limits; Infinity where there are none. */
  rest (state: State): number {
    const text = state as string
    spend(500)
    if (text === '') return Math.min(this.restOf(false, '', null), 1 + this.restOf(true, '', null))
    const [whole = '', fraction = null] = text.replace('-', '').split('.')
    return this.restOf(text.startsWith('-'), whole, fraction)
  }

  private restOf (negative: boolean, whole: string, fraction: string | null): number {
    const range = negative ? [-this.high, -this.low] as const : [this.low, this.high] as const
    const [low, high] = [largest(range[0], 0n), range[1]]
    const written = fraction === null ? 0 : fraction.length + 1
    const longest = fraction !== null || whole === '0' ? whole.length : DIGITS
    let best = Infinity
    for (let digits = Math.max(1, whole.length); digits <= longest; digits++) {
      const [from, to] = span(whole, digits, fraction)
      if (from > high || to <= low) continue
      const most = this.integer ? 0 : Math.min(SCALE, DIGITS - digits)
      const fewest = fraction === null ? 0 : Math.max(1, fraction.length)
      for (let decimals = fewest; decimals <= most; decimals++) {
        const bytes = digits - whole.length + (decimals === 0 ? 0 : decimals + 1) - written
        if (bytes >= best) break
        const unit = this.units[decimals] as bigint
        const last = to <= high ? to - 1n : high
        if ((largest(from, low) + unit - 1n) / unit * unit <= last) best = bytes
      }
    }
    return best
  }
}

/** The values, from the first up to before the second, of texts with so many digits before the point. */
function span (whole: string, digits: number, fraction: string | null): [bigint, bigint] {
  const more = power(digits - whole.length) * ONE
  if (whole === '') return [digits > 1 ? more / 10n : 0n, more]
  const from = BigInt(whole) * more
  if (fraction === null) return [from, from + more]
  const start = from + BigInt(fraction.padEnd(SCALE, '0'))
  return [start, start + power(SCALE - fraction.length)]
}

/** Of two positive numbers. */
export function leastCommonMultiple (a: bigint, b: bigint): bigint {
  let [x, y] = [a, b]
  while (y !== 0n) [x, y] = [y, x % y]
  return a / x * b
}

const largest = (...values: [bigint, ...bigint[]]): bigint => values.reduce((a, b) => b > a ? b : a)

/** A limit in fixed point, rounded up; `open` is added to one that is hit exactly. */
function roundedUp (limit: number, open: bigint): bigint {
  const [digits, shift] = decimal(limit)
  const exponent = shift + SCALE
  if (exponent >= 0) return digits * power(exponent) + open
  const divisor = power(-exponent)
  // Division of bigints rounds towards 0.
  const floor = digits >= 0n || digits % divisor === 0n ? digits / divisor : digits / divisor - 1n
  return floor + (floor * divisor === digits ? open : 1n)
}

/** A double as digits times a power of ten, by its shortest notation. */
function decimal (value: number): [bigint, number] {
  const [mantissa = '0', exponent = '0'] = value.toExponential().split('e')
  const [whole = '0', fraction = ''] = mantissa.split('.')
  return [BigInt(whole + fraction), Number(exponent) - fraction.length]
}
