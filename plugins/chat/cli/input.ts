import type { VerbContext } from '../../../kernel/cli/index.js'

export interface Range { min: number, max: number, whole: boolean }

export const COUNT: Range = { min: 1, max: Number.MAX_SAFE_INTEGER, whole: true }

/** An option as a number; undefined if absent. Throws VerbError (2) if it is not valid. */
export function readNumber (
  ctx: VerbContext, flag: string, given: unknown, { min, max, whole }: Range
): number | undefined {
  if (given === undefined) return undefined
  const text = String(given).trim()
  const value = text === '' ? NaN : Number(text)
  if (value >= min && value <= max && (!whole || Number.isSafeInteger(value))) return value
  const kind = whole ? 'a whole number' : 'a number'
  const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`
  throw ctx.fail(2, `${flag} ${text.slice(0, 200)}: expected ${kind} ${range}`)
}
