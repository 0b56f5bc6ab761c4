/** A JSON Schema 2020-12 document, as data. */
export type JsonSchema = Readonly<Record<string, unknown>>

type Required<S> = S extends { required: readonly (infer K)[] } ? K : never
type Props<S> = S extends { properties: infer P } ? P : never
type Flat<T> = { [K in keyof T]: T[K] }

type ObjectOf<S> = Props<S> extends never
  ? Record<string, unknown>
  : Flat<
    { [K in keyof Props<S> as K extends Required<S> ? K : HasDefault<Props<S>[K]> extends true ? K : never]:
      FromSchema<Props<S>[K]> } &
    { [K in keyof Props<S> as K extends Required<S> ? never : HasDefault<Props<S>[K]> extends true ? never : K]?:
      FromSchema<Props<S>[K]> }>

type HasDefault<S> = S extends { default: unknown } ? true : false

/**
 * The TypeScript type of a JSON Schema given as a literal: const, enum, type (also a list of types),
 * object with properties and required, array, string, number, integer, boolean, null.
 * A property with a default is present after validation and so not optional.
 */
export type FromSchema<S> =
  S extends { const: infer C } ? C
    : S extends { enum: readonly (infer E)[] } ? E
      : S extends { type: readonly (infer T)[] } ? (T extends unknown ? FromSchema<Omit<S, 'type'> & { type: T }> : never)
        : S extends { type: 'object' } ? ObjectOf<S>
          : S extends { type: 'array', items: infer I } ? FromSchema<I>[]
            : S extends { type: 'array' } ? unknown[]
              : S extends { type: 'string' } ? string
                : S extends { type: 'number' } | { type: 'integer' } ? number
                  : S extends { type: 'boolean' } ? boolean
                    : S extends { type: 'null' } ? null
                      : unknown
