import { isObject, type CapabilityDecl } from '../../kernel/index.js'
import type { Amount } from './service.js'

const NANO = 1_000_000_000
/** `0.02 EUR` per call, or `0.00002 EUR * text` per unit of the payload field `text`. */
const PART = /^(\d{1,6})(?:\.(\d{1,9}))? ([A-Z]{3,5})(?: \* ([A-Za-z_][A-Za-z0-9_]{0,63}))?$/

/** Cost of a call: a fixed amount, plus amounts per payload field; all in the same currency. */
export interface Cost {
  readonly unit: string
  readonly parts: readonly { readonly nano: number, readonly field: string | null }[]
}

/**
 * Parses `annotations.cost`: amounts with a currency, joined by ` + `. An amount with a field is multiplied
 * by that field's string length, list length or number. Null if the text is not valid.
 */
export function readCost (text: string): Cost | null {
  const read = text.split(' + ').map((part) => PART.exec(part))
  const unit = read[0]?.[3]
  if (unit === undefined) return null
  const parts: { nano: number, field: string | null }[] = []
  for (const match of read) {
    if (match?.[3] !== unit) return null
    const nano = Number(match[1]) * NANO + Number((match[2] ?? '').padEnd(9, '0'))
    parts.push({ nano, field: match[4] ?? null })
  }
  return { unit, parts }
}

export function declaredCost ({ annotations }: Pick<CapabilityDecl, 'annotations'>): Cost | null {
  const text = annotations['cost']
  return text === undefined ? null : readCost(text)
}

export function costProblems ({ annotations, input_schema: input }: CapabilityDecl): string[] {
  const text = annotations['cost']
  if (typeof text !== 'string') return []
  const cost = readCost(text)
  if (cost === null) {
    return [`annotations.cost "${text}" must look like "0.02 EUR" or "0.01 EUR + 0.00002 EUR * text"`]
  }
  const named = isObject(input) && isObject(input['properties']) ? input['properties'] : {}
  return cost.parts.flatMap(({ field }) => field === null || Object.hasOwn(named, field)
    ? []
    : [`annotations.cost names the field "${field}", which input_schema does not have`])
}

/** Cost of a call with this payload; missing fields cost nothing. Rounded up. */
export function costOf ({ unit, parts }: Cost, payload: unknown): Amount {
  const nano = parts.reduce((sum, part) =>
    sum + part.nano * (part.field === null ? 1 : sizeOf(isObject(payload) ? payload[part.field] : null)), 0)
  return { unit, nano: Math.min(Number.MAX_SAFE_INTEGER, Math.ceil(nano)) }
}

function sizeOf (value: unknown): number {
  if (typeof value === 'string' || Array.isArray(value)) return value.length
  return typeof value === 'number' ? Math.max(0, value) : 0
}
