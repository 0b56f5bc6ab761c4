import type { Context } from '../../kernel/index.js'
import { SPANS_MAX } from '../runners/service.js'
import type { SpanPart } from '../runners/service.js'

const MICROS_MAX = 86_400_000_000
const text = { type: 'string', maxLength: 128 } as const
const micros = { type: 'integer', minimum: 0, maximum: MICROS_MAX } as const
const count = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER } as const
const process = { enum: ['node', 'runner'] } as const
const nodeId = { type: ['string', 'null'], maxLength: 128 } as const

const object = <const P extends Record<string, unknown>>(properties: P, ...optional: (keyof P)[]) => ({
  type: 'object', required: Object.keys(properties).filter((key) => !optional.includes(key)), properties
})

const schema = object({
  receivedMs: { type: 'number' },
  sentMs: { type: 'number' },
  places: { type: 'array', maxItems: 64, items: object({ nodeId, process, rank: count }) },
  spans: {
    type: 'array',
    maxItems: SPANS_MAX,
    items: object({
      id: count, parent: { type: ['integer', 'null'] }, place: count, name: text, category: text,
      startUs: { ...micros, minimum: -MICROS_MAX }, durationUs: micros, steps: count,
      attrs: {
        type: 'object', maxProperties: 32, propertyNames: { maxLength: 128 },
        additionalProperties: { type: ['string', 'number', 'boolean'], maxLength: 128 }
      }
    }, 'attrs')
  },
  clocks: {
    type: 'array',
    maxItems: 64,
    items: object({ nodeId, process, offsetMs: { type: 'number' }, uncertaintyMs: { type: 'number' } })
  },
  about: {
    ...object({ taskId: text, modelId: { type: 'string', maxLength: 256 }, capability: text }),
    type: ['object', 'null']
  },
  dropped: count
})

export type ReadPart = (value: unknown) => SpanPart | null

/** Creates a function that validates spans from another process and returns null for invalid ones. */
export function partReader ({ checker }: Pick<Context, 'checker'>): ReadPart {
  const problemOf = checker(schema)
  return (value) => {
    if (problemOf(value) !== null) return null
    const part = value as SpanPart
    const fits = part.sentMs >= part.receivedMs && part.spans.every(({ place }) => place < part.places.length)
    return fits ? part : null
  }
}
