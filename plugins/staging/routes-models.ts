import { eitherFailure } from '../chat/service.js'
import { exact, listOf, modelId, modelParam, object, storeErrors, text } from './routes-parts.js'
import type { RouteDecl } from '../../kernel/index.js'

const objects = listOf({ type: 'object' })
/** In both formats an entry has its id; OpenAI's has what svc knows of the model beside it. */
const entry = {
  type: 'object', required: ['id'],
  properties: {
    id: text, root: text, object: text, created: { type: 'integer' }, owned_by: text, name: text,
    description: text, installed: { type: 'boolean' }, ready: { type: 'boolean' },
    tasks: listOf(text)
  }
} as const

/** Anthropic's clients send it; it asks for nothing. */
const beta = { beta: text } as const

const modelList = exact({ object: { const: 'list' }, data: listOf(entry) })

export const list = {
  method: 'GET', url: '/v1/models', authority: 'read', failure: eitherFailure, idHeader: 'request-id',
  summary: 'Models, and other names by which they are asked; in Anthropic\'s format for its clients.',
  query: {
    type: 'object', additionalProperties: false,
    description: 'of Anthropic\'s clients, which send the header anthropic-version',
    properties: {
      ...beta, limit: { type: 'integer', minimum: 1, maximum: 1000 }, after_id: text, before_id: text
    }
  },
  reply: {
    type: 'object', required: ['data'],
    properties: { object: { const: 'list' }, data: listOf(entry) }
  }
} as const satisfies RouteDecl

export const one = {
  method: 'GET', url: '/v1/models/:model_id', authority: 'read',
  failure: eitherFailure, idHeader: 'request-id',
  summary: 'A model of the catalogue, as the list has it.', params: modelParam,
  query: { type: 'object', additionalProperties: false, properties: beta },
  reply: entry, errors: ['model_not_found']
} as const satisfies RouteDecl

export const modelsShort = {
  method: 'GET', url: '/models', authority: 'read',
  summary: 'The catalogue, with what is installed and what is ready.', reply: modelList
} as const satisfies RouteDecl

export const copies = {
  method: 'GET', url: '/models/copies', authority: 'read',
  summary: 'Where the copies of all models are, over the whole cluster; `silent_store`: the node of ' +
    'a store that cannot be reached.',
  reply: object({ copies: objects, silent_store: { type: ['string', 'null'] } })
} as const satisfies RouteDecl

export const rest = {
  method: 'GET', url: '/models/rest', members: true, authority: 'read',
  summary: 'The models of this node that its document has no room for, for other nodes.',
  reply: object({ version: { type: 'integer' }, rest: { type: 'object' } })
} as const satisfies RouteDecl

export const card = {
  method: 'GET', url: '/models/:model_id/card', members: true, authority: 'read',
  summary: 'The card of a model, where it comes from and where its copies are.',
  params: modelParam,
  reply: object({ model_id: text, origin: text, card: { type: 'object' }, copies: objects }),
  errors: ['model_not_found']
} as const satisfies RouteDecl

export const add = {
  method: 'POST', url: '/models/add', authority: 'cluster:write',
  summary: 'Adds a custom card, or starts the download of a model whose card is made from its files.',
  body: {
    type: 'object', additionalProperties: false, minProperties: 1, maxProperties: 1,
    properties: { card: { type: 'object' }, source: modelId }
  },
  reply: object({ model_id: text, card: { type: ['object', 'null'] } }),
  errors: ['invalid_request', 'card_exists', ...storeErrors, 'hub_disabled', 'missing_grant']
} as const satisfies RouteDecl

export const removeCustom = {
  method: 'DELETE', url: '/models/custom/:model_id', authority: 'cluster:write', audit: 'best-effort',
  summary: 'Removes a card that was added.',
  params: modelParam,
  reply: object({ model_id: text, deleted: { const: true } }),
  errors: ['model_not_found', 'model_in_use']
} as const satisfies RouteDecl
