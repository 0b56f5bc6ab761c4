/**
 * What becomes of a field of a public API's request. One without a word here is honoured;
 * docs/reference/apis.md is made of these words.
 */

/** Largest body in bytes. */
export const BODY_BYTES = 4 * 1024 * 1024
/** Of a text for the model, an image, or token ids: as much as a body has room for. */
export const longText = { maxLength: BODY_BYTES, maxItems: BODY_BYTES } as const
export const text = { type: 'string', maxLength: BODY_BYTES } as const
/** The same where null is as good as absent. */
export const optionalText = { type: ['string', 'null'], maxLength: BODY_BYTES } as const
/** A name, or a word that is not empty. */
export const name = { type: 'string', minLength: 1 } as const
/** A part of a message; each API has kinds of its own. */
export const typed = { type: 'object', required: ['type'], properties: { type: name } } as const
/** A field where null is as good as absent. */
export const optional = <const T extends string>(type: T) => ({ type: [type, 'null'] }) as const
/** A whole number where null is as good as absent. */
export const nullableInteger = (minimum: number, maximum = Number.MAX_SAFE_INTEGER) =>
  ({ type: ['integer', 'null'], minimum, maximum }) as const

/** A field that has no effect on the answer here; `why` is the reason. */
export const ignored = (why: string) => ({ 'x-ignored': why }) as const

/**
 * A field that would change the answer and is not served: a 400 with `why`, which follows the field's name.
 * The values in `unless` ask for nothing, and null never does.
 */
export const refusedField = (why: string, ...unless: unknown[]) => ({ 'x-refused': { why, unless } }) as const
