export const text = { type: 'string' } as const
export const modelId = { type: 'string', minLength: 1, maxLength: 512 } as const
export const modelParam = {
  type: 'object', required: ['model_id'], properties: { model_id: { type: 'string', minLength: 1 } }
} as const
export const storeErrors = ['store_not_configured', 'store_unreachable'] as const
/** Schema of an object whose properties are all required. */
export const object = <const P extends Record<string, unknown>>(properties: P) =>
  ({ type: 'object', required: Object.keys(properties) as (keyof P & string)[], properties }) as const
export const exact = <const P extends Record<string, unknown>>(properties: P) =>
  ({ additionalProperties: false, ...object(properties) }) as const
export const optionalFields = <const P extends Record<string, unknown>>(properties: P) =>
  ({ type: 'object', additionalProperties: false, properties }) as const
export const listOf = <const S>(items: S) => ({ type: 'array', items }) as const
