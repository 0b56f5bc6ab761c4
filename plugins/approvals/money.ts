import type { Amount } from '../capabilities/service.js'

const NANO = 1_000_000_000
/** An amount such as `5 EUR` or `0.5EUR`; `0` with a unit ends a budget. */
const AMOUNT = /^(\d{1,6})(?:\.(\d{1,9}))? ?([A-Za-z]{3,5})$/

/** Parses an amount; null if the text is invalid. */
export function readAmount (text: string): Amount | null {
  const match = AMOUNT.exec(text.trim())
  if (match === null) return null
  const [, whole, part = '', unit] = match
  return { unit: unit!.toUpperCase(), nano: Number(whole) * NANO + Number(part.padEnd(9, '0')) }
}

/** Formats an amount as `0.02 EUR`, without trailing zeros. */
export function showAmount ({ unit, nano }: Amount): string {
  const part = String(nano % NANO).padStart(9, '0').replace(/(?<!0)0+$/, '')
  return `${Math.floor(nano / NANO)}${part === '' ? '' : `.${part}`} ${unit}`
}
