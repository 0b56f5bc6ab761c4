/**
 * Marks how a request field of a public API is treated. A field without a mark is honoured;
 * docs/reference/apis.md is generated from these marks.
 */

/** Limit on a request body in bytes. */
export const BODY_BYTES = 4 * 1024 * 1024
/** For model text, images and token ids, which are bounded only by the body limit. */
export const longText = { maxLength: BODY_BYTES, maxItems: BODY_BYTES } as const
export const text = { type: 'string', maxLength: BODY_BYTES } as const
export const optionalText = { type: ['string', 'null'], maxLength: BODY_BYTES } as const
export const name = { type: 'string', minLength: 1 } as const
/** A message part; each API defines its own types. */
export const typed = { type: 'object', required: ['type'], properties: { type: name } } as const
/** A field for which null means absent. */
export const optional = <const T extends string>(type: T) => ({ type: [type, 'null'] }) as const
export const nullableInteger = (minimum: number, maximum = Number.MAX_SAFE_INTEGER) =>
  ({ type: ['integer', 'null'], minimum, maximum }) as const

/** A field that has no effect on the answer; `why` is the reason. */
export const ignored = (why: string) => ({ 'x-ignored': why }) as const

/**
 * A field that would change the answer but is not supported: a 400 error states its name and `why`. Null
 * and the values in `unless` are accepted, since they request nothing.
 */
export const refusedField = (why: string, ...unless: unknown[]) => ({ 'x-refused': { why, unless } }) as const
