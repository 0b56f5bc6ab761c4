import { openObject } from '../../kernel/index.js'

export const text = { type: 'string' } as const
export const modelId = { type: 'string', minLength: 1, maxLength: 512 } as const
export const modelParam = openObject({ model_id: { type: 'string', minLength: 1 } })
export const storeErrors = ['store_not_configured', 'store_unreachable'] as const
export const listOf = <const S>(items: S) => ({ type: 'array', items }) as const
