/** Foreign JSON, read defensively: a field of another type is as if it were not there. */

/** A JSON object. */
export type Json = Record<string, unknown>

/** Whether a value is an object that is no list. */
export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const own = (json: Json, key: string): unknown => Object.hasOwn(json, key) ? json[key] : undefined

/** The object under a key; an empty one where there is none. */
export function child (json: Json, key: string): Json {
  const value = own(json, key)
  return isObject(value) ? value : {}
}

/** The text under the first key that has one of 1 to `limit` characters. */
export function text (json: Json, keys: string | readonly string[], limit = 200): string | undefined {
  return [keys].flat().map((key) => own(json, key)).find((value): value is string =>
    typeof value === 'string' && value.length > 0 && value.length <= limit)
}

/** The whole number from 1 to 2^31 - 1 under the first key that has one. */
export function count (json: Json, keys: string | readonly string[]): number | undefined {
  return [keys].flat().map((key) => own(json, key)).find((value): value is number => isCount(value))
}

/** Whether a value is a whole number from 1 to 2^31 - 1: sizes beyond that are nonsense. */
export const isCount = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 1 && (value as number) < 2 ** 31
