/** Stored answers from OpenAI's Responses API: reads, continues and deletes them. */
import { notStored, invalidField } from './errors.js'
import type { FromSchema, RouteRequest } from '../../../kernel/index.js'
import type { ApiParts } from './types.js'
import type { ResponseStore } from './response-store.js'
import type { InputItem, KeptResponse, Response, ResponsesBody } from './responses-body.js'

type Parts = Pick<ApiParts, 'responses' | 'newId'>

/** Returns a function that stores the answer, unless the request has `store: false`. */
export function keepResponse (
  { responses, newId }: Parts, owner: string, { input, store, previous_response_id: previous }: ResponsesBody
): (response: Response) => void {
  return (response) => {
    if (store === false) return
    const items: readonly InputItem[] = typeof input === 'string'
      ? [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: input }] }]
      : input
    const named = items.map((item) =>
      ({ id: `item_${newId()}`, type: 'message', status: 'completed', ...item }))
    responses.put(response.id, owner, { response, input: named, previous: previous ?? null })
  }
}

/** All items of the conversation that ends with answer `id`; empty without an id. Throws `not_kept`. */
export function earlierItems (
  responses: ResponseStore<KeptResponse>, owner: string, id: string | null | undefined
): InputItem[] {
  const turns: InputItem[][] = []
  for (let next = id; next != null;) {
    const kept = responses.get(next, owner)
    if (kept === undefined) throw notStored('previous_response_id', next)
    turns.unshift([...kept.input, ...kept.response.output as InputItem[]])
    next = kept.previous
  }
  return turns.flat()
}

export const responseParams = {
  type: 'object', required: ['response_id'],
  properties: { response_id: { type: 'string', pattern: '^resp_[^/]+$' } }
} as const

const include = {
  type: 'array', items: { type: 'string' }, 'x-ignored': 'the answer already contains all stored data'
} as const

/** Query of GET /v1/responses/{id}. */
export const responseQuery = {
  type: 'object', additionalProperties: false,
  properties: {
    stream: { type: 'boolean', description: 'false only: events are not stored' },
    include,
    'include[]': include,
    include_obfuscation: { type: 'boolean', 'x-ignored': 'this route sends no events' }
  }
} as const

/** Query of GET /v1/responses/{id}/input_items. */
export const itemsQuery = {
  type: 'object', additionalProperties: false,
  properties: {
    after: { type: 'string', description: 'returns the items after this id' },
    limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 },
    order: { enum: ['asc', 'desc'], default: 'desc' },
    include, 'include[]': include
  }
} as const

interface At { readonly params: typeof responseParams }

function keptAt (
  { responses }: Parts, { params: { response_id: id }, caller }: RouteRequest<At>
): KeptResponse {
  const kept = responses.get(id, caller.id)
  if (kept === undefined) throw notStored('response_id', id)
  return kept
}

export function getResponse (
  parts: Parts, request: RouteRequest<At & { readonly query: typeof responseQuery }>
): object {
  if (request.query.stream === true) throw invalidField('stream', 'must be false: events are not stored')
  return keptAt(parts, request).response
}

export function deleteResponse (parts: Parts, request: RouteRequest<At>): object {
  const { response: { id } } = keptAt(parts, request)
  parts.responses.delete(id, request.caller.id)
  return { id, object: 'response', deleted: true }
}

/** The input items of a stored answer, newest first by default. */
export function inputItems (
  parts: Parts, request: RouteRequest<At & { readonly query: typeof itemsQuery }>
): object {
  const { after, limit, order } = request.query as FromSchema<typeof itemsQuery, true>
  const items = [...keptAt(parts, request).input]
  if (order === 'desc') items.reverse()
  const from = after === undefined ? 0 : items.findIndex(({ id }) => id === after) + 1
  if (after !== undefined && from === 0) throw invalidField('after', 'is not the id of an item')
  const data = items.slice(from, from + limit)
  const ends = { first_id: data[0]?.['id'] ?? null, last_id: data.at(-1)?.['id'] ?? null }
  return { object: 'list', data, ...ends, has_more: from + limit < items.length }
}
