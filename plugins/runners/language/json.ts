/** Reads values from untrusted JSON: model files, requests, and program output. Pure. */
import { isObject } from '../../../kernel/api/schema.js'

export { isObject, parseJson as parsed } from '../../../kernel/api/schema.js'

export type Fields = Readonly<Record<string, unknown>>

/** The value if it is an object; otherwise an empty object. */
export const fieldsOf = (value: unknown): Fields => isObject(value) ? value : {}

export const listOf = (value: unknown): Fields[] => Array.isArray(value) ? value.map(fieldsOf) : []

export const numberOf = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined

/** The value if it is a string; otherwise an empty string. */
export const textOf = (value: unknown): string => typeof value === 'string' ? value : ''

/** The value if it is a list of non-negative integers; otherwise undefined. */
export const idsOf = (value: unknown): number[] | undefined => {
  const isId = (id: unknown): boolean => Number.isSafeInteger(id) && id as number >= 0
  return Array.isArray(value) && value.every(isId) ? value as number[] : undefined
}

type Present<T> = { [K in keyof T]?: NonNullable<T[K]> }

/** The object without the fields that are null or undefined. */
export function present<T extends object> (fields: T): Present<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null)) as Present<T>
}

export const child = (json: Fields, key: string): Fields => fieldsOf(json[key])

/** The first value under these keys that is a string of 1 to `limit` characters. */
export function text (json: Fields, keys: string | readonly string[], limit = 200): string | undefined {
  return [keys].flat().map((key) => json[key]).find((value): value is string =>
    typeof value === 'string' && value.length > 0 && value.length <= limit)
}

/** The first value under these keys that is an integer from 1 to 2^31 - 1. */
export function count (json: Fields, keys: string | readonly string[]): number | undefined {
  return [keys].flat().map((key) => json[key]).find((value): value is number => isCount(value))
}

/** True for an integer from 1 to 2^31 - 1, because larger sizes are invalid. */
export const isCount = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 1 && (value as number) < 2 ** 31
