import { spend } from './budget.js'
import { frameOf, Rule } from './machine.js'
import type { Frame, State } from './machine.js'

/** Digits of one number; decimals of 15 digits are told apart by every double (DBL_DIG). */
const DIGITS = 15
/** Digits after the point of the fixed-point numbers that bounds are compared in. */
const SCALE = 14
const ONE = 10n ** BigInt(SCALE)
const LARGEST = 10n ** BigInt(DIGITS) - 1n

/** The limits of a number. Exclusive limits are given by `above` and `below`. */
export interface NumberLimits {
  integer: boolean
  min?: number, max?: number, above?: number, below?: number
  /** For integers: a positive integer that divides the value. */
  multipleOf?: number
}

const PREFIX = /^-?(?:(?:0|1{1,15})(?:\.1{0,15}|(?:\.1{1,15})?[eE](?:[+-]?1{0,2}))?)?$/
const WHOLE = /^-?(?:0|1{1,15})(?:\.1{1,15})?(?:[eE][+-]?1{1,2})?$/
const INTEGER = /^-?(?:0|1{0,15})$/

/**
 * A number without limits (up to 15 digits on either side of the point, exponents of two digits). State: its
 * shape, every digit written 1.
 */
export class FreeNumber extends Rule {
  private readonly integer: boolean

  constructor (hole: Frame, integer: boolean) {
    super(hole)
    this.integer = integer
  }

  measure (): number {
    return 1
  }

  start (ret: Frame): readonly Frame[] {
    return [frameOf(this, '', ret)]
  }

  step (frame: Frame, byte: number): readonly Frame[] {
    const digit = byte >= 0x30 && byte <= 0x39
    const shape = frame.state as string
    const first = shape === '' || shape === '-'
    const next = shape + (digit && !(first && byte === 0x30) ? '1' : String.fromCharCode(byte))
    const fits = (this.integer ? INTEGER : PREFIX).test(next)
    return fits ? [frameOf(this, next, frame.ret as Frame)] : []
  }

  rest (state: State): number {
    return this.complete(state) ? 0 : 1
  }

  override complete (state: State): boolean {
    return WHOLE.test(state as string)
  }
}

/** A number within limits, without exponent. State: its text so far. */
export class BoundNumber extends Rule {
  private readonly low: bigint
  private readonly high: bigint
  private readonly step1: bigint
  private readonly integer: boolean

  constructor (hole: Frame, limits: NumberLimits) {
    super(hole)
    this.integer = limits.integer
    this.step1 = BigInt(limits.multipleOf ?? 1) * ONE
    this.low = largest([-LARGEST * ONE, scaled(limits.min, 'up', 0n), scaled(limits.above, 'up', 1n)])
    this.high = -largest([-LARGEST * ONE, negated(scaled(limits.max, 'down', 0n)),
      negated(scaled(limits.below, 'down', 1n))])
  }

  measure (): number {
    return this.rest('')
  }

  start (ret: Frame): readonly Frame[] {
    return [frameOf(this, '', ret)]
  }

  step (frame: Frame, byte: number): readonly Frame[] {
    const next = (frame.state as string) + String.fromCharCode(byte)
    if (!/^-?(?:(?:0|[1-9]\d{0,14})(?:\.\d{0,14})?)?$/.test(next) || (this.integer && byte === 0x2e)) {
      return []
    }
    return this.rest(next) < Infinity ? [frameOf(this, next, frame.ret as Frame)] : []
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
    const [low, high] = [largest([range[0], 0n]), range[1]]
    if (low > high) return Infinity
    if (fraction !== null) {
      const most = this.fractionDigits(whole.length)
      return this.withFraction(whole, fraction, most, low, high)
    }
    let best = Infinity
    for (let more = whole === '' ? 1 : 0; more === 0 ||
      (whole.length + more <= DIGITS && whole !== '0'); more++) {
      if (more >= best) break
      best = Math.min(best, more + this.afterWhole(whole, more, low, high))
    }
    return best
  }

  /**
   * Fewest bytes for a fraction (0: none needed) when `more` digits follow `whole`; Infinity where none
   * fits.
   */
  private afterWhole (whole: string, more: number, low: bigint, high: bigint): number {
    const power = 10n ** BigInt(more)
    const first = whole === '' && more > 1 ? power / 10n : BigInt(whole || '0') * power
    const last = whole === '' ? power - 1n : first + power - 1n
    if (this.exists(first * ONE, last * ONE, ONE, low, high)) return 0
    if (this.integer) return Infinity
    for (let digits = 1; digits <= this.fractionDigits(whole.length + more); digits++) {
      const unit = 10n ** BigInt(SCALE - digits)
      if (this.exists(first * ONE, (last + 1n) * ONE - unit, unit, low, high)) return 1 + digits
    }
    return Infinity
  }

  private withFraction (whole: string, fraction: string, most: number, low: bigint, high: bigint): number {
    const from = BigInt(whole) * ONE + BigInt(fraction.padEnd(SCALE, '0'))
    for (let digits = Math.max(1, fraction.length); digits <= most; digits++) {
      const unit = 10n ** BigInt(SCALE - digits)
      const last = from + 10n ** BigInt(SCALE - fraction.length) - unit
      if (this.exists(from, last, unit, low, high)) return digits - fraction.length
    }
    return Infinity
  }

  private fractionDigits (wholeDigits: number): number {
    return this.integer ? 0 : Math.min(SCALE, DIGITS - wholeDigits)
  }

  /** Whether a multiple of `unit` (of multipleOf for integers) lies in both ranges. */
  private exists (from: bigint, to: bigint, unit: bigint, low: bigint, high: bigint): boolean {
    const step = this.integer ? this.step1 : unit
    const [a, b] = [largest([from, low]), to < high ? to : high]
    return a <= b && (a + step - 1n) / step * step <= b
  }
}

const largest = (values: readonly (bigint | null)[]): bigint =>
  values.reduce<bigint>((a, b) => b !== null && b > a ? b : a, values[0] as bigint)

const negated = (value: bigint | null): bigint | null => value === null ? null : -value

/** A limit in fixed point, rounded inwards; `open` is taken off for exclusive limits that are hit exactly. */
function scaled (limit: number | undefined, round: 'up' | 'down', open: bigint): bigint | null {
  if (limit === undefined) return null
  const [digits, shift] = decimal(limit)
  const exponent = shift + SCALE
  const up = round === 'up'
  if (exponent >= 0) return digits * 10n ** BigInt(exponent) + (up ? open : -open)
  const divisor = 10n ** BigInt(-exponent)
  const floor = digits >= 0n || digits % divisor === 0n ? digits / divisor : digits / divisor - 1n
  const exact = floor * divisor === digits
  if (up) return exact ? floor + open : floor + 1n
  return exact ? floor - open : floor
}

/** A double as digits times a power of ten, by its shortest notation. */
function decimal (value: number): [bigint, number] {
  const [mantissa = '0', exponent = '0'] = value.toExponential().split('e')
  const [whole = '0', fraction = ''] = mantissa.split('.')
  return [BigInt(whole + fraction), Number(exponent) - fraction.length]
}
