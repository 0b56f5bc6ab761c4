/** Reads JSON of which nothing is certain: files of models, requests, and what programs answer. Pure. */

export type Fields = Readonly<Record<string, unknown>>

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The value as an object; one without fields where it is none. */
export const fieldsOf = (value: unknown): Fields => isObject(value) ? value : {}

export const listOf = (value: unknown): Fields[] => Array.isArray(value) ? value.map(fieldsOf) : []

export const numberOf = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined

/** The value as a text; an empty one where it is none. */
export const textOf = (value: unknown): string => typeof value === 'string' ? value : ''

/** The value as a list of whole numbers; undefined where it is none. */
export const idsOf = (value: unknown): number[] | undefined => {
  const isId = (id: unknown): boolean => Number.isSafeInteger(id) && id as number >= 0
  return Array.isArray(value) && value.every(isId) ? value as number[] : undefined
}

type Present<T> = { [K in keyof T]?: NonNullable<T[K]> }

/** The fields that have a value: null is as good as absent. */
export function present<T extends object> (fields: T): Present<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null)) as Present<T>
}

/** A text as JSON; undefined where it is none. */
export function parsed (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The object under a key; an empty one where there is none. */
export const child = (json: Fields, key: string): Fields => fieldsOf(json[key])

/** The text under the first key that has one of 1 to `limit` characters. */
export function text (json: Fields, keys: string | readonly string[], limit = 200): string | undefined {
  return [keys].flat().map((key) => json[key]).find((value): value is string =>
    typeof value === 'string' && value.length > 0 && value.length <= limit)
}

/** The whole number from 1 to 2^31 - 1 under the first key that has one. */
export function count (json: Fields, keys: string | readonly string[]): number | undefined {
  return [keys].flat().map((key) => json[key]).find((value): value is number => isCount(value))
}

/** Whether a value is a whole number from 1 to 2^31 - 1: sizes beyond that are nonsense. */
export const isCount = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 1 && (value as number) < 2 ** 31
