/** The routes of the catalogue: its list, and the cards in it. */
import { eitherFailure } from '../chat/service.js'
import { modelId, modelParam, storeErrors, text } from './routes-parts.js'
import type { RouteDecl } from '../../kernel/index.js'

const modelList = {
  type: 'object', additionalProperties: false, required: ['object', 'data'],
  properties: { object: { const: 'list' }, data: { type: 'array' } }
} as const

export const list = {
  method: 'GET', url: '/v1/models', authority: 'read', failure: eitherFailure, idHeader: 'request-id',
  summary: 'The catalogue: what is installed, what is ready; in Anthropic\'s format for its clients.',
  query: {
    type: 'object', additionalProperties: false,
    description: 'of Anthropic\'s clients, which send the header anthropic-version',
    properties: {
      limit: { type: 'integer', minimum: 1, maximum: 1000 }, after_id: text, before_id: text
    }
  },
  reply: {
    type: 'object', required: ['data'],
    properties: {
      object: { const: 'list' }, data: { type: 'array', items: { type: 'object', required: ['id'] } }
    }
  }
} as const satisfies RouteDecl

export const one = {
  method: 'GET', url: '/v1/models/:model_id', authority: 'read',
  failure: eitherFailure, idHeader: 'request-id',
  summary: 'A model of the catalogue, as the list has it.', params: modelParam,
  reply: { type: 'object', required: ['id'] }, errors: ['model_not_found']
} as const satisfies RouteDecl

export const modelsShort = {
  method: 'GET', url: '/models', authority: 'read',
  summary: 'The catalogue, with what is installed and what is ready.', reply: modelList
} as const satisfies RouteDecl

export const copies = {
  method: 'GET', url: '/models/copies', authority: 'read',
  summary: 'Where the copies of all models are, over the whole cluster.',
  reply: { type: 'object', required: ['copies'], properties: { copies: { type: 'array' } } }
} as const satisfies RouteDecl

export const card = {
  method: 'GET', url: '/models/:model_id/card', members: true, authority: 'read',
  summary: 'The card of a model, where it comes from and where its copies are.',
  params: modelParam,
  reply: { type: 'object', required: ['model_id', 'origin', 'card', 'copies'] },
  errors: ['model_not_found']
} as const satisfies RouteDecl

export const add = {
  method: 'POST', url: '/models/add', authority: 'cluster:write',
  summary: 'Adds a custom card, or starts the download of a model whose card is made from its files.',
  body: {
    type: 'object', additionalProperties: false, minProperties: 1, maxProperties: 1,
    properties: { card: { type: 'object' }, source: modelId }
  },
  reply: { type: 'object', required: ['model_id', 'card'] },
  errors: ['invalid_request', 'card_exists', ...storeErrors, 'hub_disabled', 'missing_grant']
} as const satisfies RouteDecl

export const removeCustom = {
  method: 'DELETE', url: '/models/custom/:model_id', authority: 'cluster:write',
  summary: 'Removes a card that was added.',
  params: modelParam,
  reply: {
    type: 'object', required: ['model_id', 'deleted'],
    properties: { model_id: text, deleted: { const: true } }
  },
  errors: ['model_not_found', 'model_in_use']
} as const satisfies RouteDecl
