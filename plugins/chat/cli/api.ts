import { modelInPath } from '../../../kernel/cli/index.js'
import type { VerbContext } from '../../../kernel/cli/index.js'

/** The address of what belongs to a model: `/models/acme/chat/card`. */
export const modelPath = (modelId: string, what: 'card' | 'availability'): string =>
  `/models/${modelInPath(modelId)}/${what}`

/** Numbers that an option takes. */
export interface Range { min: number, max: number, whole: boolean }

/** The value of an option as a number; undefined when it was not given. Throws VerbError (2). */
export function readNumber (
  ctx: VerbContext, flag: string, given: unknown, { min, max, whole }: Range
): number | undefined {
  if (given === undefined) return undefined
  const text = String(given).trim()
  const value = text === '' ? NaN : Number(text)
  if (value >= min && value <= max && (!whole || Number.isSafeInteger(value))) return value
  const kind = whole ? 'a whole number' : 'a number'
  const range = max === Number.MAX_SAFE_INTEGER ? `from ${min} on` : `from ${min} to ${max}`
  throw ctx.fail(2, `${flag} ${text.slice(0, 200)}: expected ${kind} ${range}`)
}

/** Whole numbers from one on. */
export const COUNT: Range = { min: 1, max: Number.MAX_SAFE_INTEGER, whole: true }

/** The text without control characters other than new lines and tabs, so that it cannot steer a terminal. */
export const visible = (text: string): string => text.replace(/[^\P{Cc}\n\t]/gu, '')
