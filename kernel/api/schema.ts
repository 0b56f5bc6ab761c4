/** A JSON Schema 2020-12 document, as data. */
export type JsonSchema = Readonly<Record<string, unknown>>

/** Whether a value is a JSON object: neither null nor a list. */
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The result of `read`, or the fallback if it throws. */
export function orElse<T> (fallback: T, read: () => T): T {
  try { return read() } catch { return fallback }
}

/** Parses JSON text; undefined for invalid JSON. */
export const parseJson = (text: string): unknown => orElse(undefined, () => JSON.parse(text))

type Properties = Record<string, unknown>
type Names<P> = keyof P & string

/** Schema of an object that has the `required` properties, by default all, and may have others as well. */
export function openObject<const P extends Properties, const R extends Names<P> = Names<P>> (
  properties: P, required: readonly R[] = Object.keys(properties) as R[]
) {
  return { type: 'object', required, properties } as const
}

/** Like `openObject`, but without other properties. */
export function closedObject<const P extends Properties, const R extends Names<P> = Names<P>> (
  properties: P, required: readonly R[] = Object.keys(properties) as R[]
) {
  const some = (required.length === 0 ? {} : { required }) as { readonly required: readonly R[] }
  return { type: 'object', additionalProperties: false, ...some, properties } as const
}

type Required<S> = S extends { required: readonly (infer K)[] } ? K : never
type Props<S> = S extends { properties: infer P } ? P : never
type Flat<T> = { -readonly [K in keyof T]: T[K] }

type ObjectOf<S, Filled> = Props<S> extends never
  ? Record<string, S extends { additionalProperties: infer A } ? FromSchema<A, Filled> : unknown>
  : Flat<{
    [K in keyof Props<S> as Present<S, K, Filled> extends true ? K : never]: FromSchema<Props<S>[K], Filled>
  } & {
    [K in keyof Props<S> as Present<S, K, Filled> extends true ? never : K]?: FromSchema<Props<S>[K], Filled>
  }>

type HasDefault<S> = S extends { default: unknown } ? true : false
type Present<S, K extends keyof Props<S>, Filled> =
  K extends Required<S> ? true : Filled extends true ? HasDefault<Props<S>[K]> : false

/**
 * The TypeScript type of a JSON Schema given as a literal: const, enum, type (also a list of types),
 * object with properties and required, or with additional ones, array, string, number, boolean, null.
 * `Filled`: defaults have been filled in (settings, query strings), so a property with one is present;
 * bodies and payloads are never filled in.
 */
export type FromSchema<S, Filled = false> =
  S extends { const: infer C } ? C
    : S extends { enum: readonly (infer E)[] } ? E
      : S extends { type: readonly (infer T)[] }
        ? (T extends unknown ? FromSchema<Omit<S, 'type'> & { type: T }, Filled> : never)
        : S extends { type: 'object' } ? ObjectOf<S, Filled>
          : S extends { type: 'array', items: infer I } ? FromSchema<I, Filled>[]
            : S extends { type: 'array' } ? unknown[]
              : S extends { type: 'string' } ? string
                : S extends { type: 'number' } | { type: 'integer' } ? number
                  : S extends { type: 'boolean' } ? boolean
                    : S extends { type: 'null' } ? null
                      : unknown
