/** Reads untrusted JSON: model files, requests, and output of programs. Pure. */

export type Fields = Readonly<Record<string, unknown>>

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The value as an object; an empty one for anything else. */
export const fieldsOf = (value: unknown): Fields => isObject(value) ? value : {}

export const listOf = (value: unknown): Fields[] => Array.isArray(value) ? value.map(fieldsOf) : []

export const numberOf = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined

/** The value as a string; empty for anything else. */
export const textOf = (value: unknown): string => typeof value === 'string' ? value : ''

/** The value as a list of non-negative integers; undefined for anything else. */
export const idsOf = (value: unknown): number[] | undefined => {
  const isId = (id: unknown): boolean => Number.isSafeInteger(id) && id as number >= 0
  return Array.isArray(value) && value.every(isId) ? value as number[] : undefined
}

type Present<T> = { [K in keyof T]?: NonNullable<T[K]> }

/** The fields with a value: null counts as absent. */
export function present<T extends object> (fields: T): Present<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null)) as Present<T>
}

/** Parses JSON; undefined if it is invalid. */
export function parsed (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export const child = (json: Fields, key: string): Fields => fieldsOf(json[key])

/** The first string of 1 to `limit` characters under these keys. */
export function text (json: Fields, keys: string | readonly string[], limit = 200): string | undefined {
  return [keys].flat().map((key) => json[key]).find((value): value is string =>
    typeof value === 'string' && value.length > 0 && value.length <= limit)
}

/** The first integer from 1 to 2^31 - 1 under these keys. */
export function count (json: Fields, keys: string | readonly string[]): number | undefined {
  return [keys].flat().map((key) => json[key]).find((value): value is number => isCount(value))
}

/** Whether a value is an integer from 1 to 2^31 - 1; larger sizes are nonsense. */
export const isCount = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 1 && (value as number) < 2 ** 31
