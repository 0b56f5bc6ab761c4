import { sessionSchema } from './session-config.js'
import { closedObject, openObject, type RouteDecl } from '../../kernel/index.js'

export const SOCKET_URL = '/v1/realtime'

const notServed = {
  method: 'POST', authority: 'invoke', api: 'OpenAI', errors: ['websocket_only'],
  uploads: Object.fromEntries(['application/sdp', 'multipart/form-data'].map((type) =>
    [type, { type: 'string', format: 'binary', description: 'not read' }])),
  body: { type: 'object' }
} as const

export const routes = {
  socket: {
    method: 'GET', url: SOCKET_URL, authority: 'invoke', stream: true, socket: true,
    summary: 'WebSocket of OpenAI\'s Realtime API: a conversation by voice or text, or a live transcription.',
    query: {
      type: 'object',
      properties: {
        model: { type: 'string', minLength: 1, maxLength: 512 }, intent: { type: 'string', maxLength: 32 }
      }
    }
  },
  secret: {
    method: 'POST', url: '/v1/realtime/client_secrets', authority: 'invoke', api: 'OpenAI',
    summary: 'Creates a short-lived credential with which a web page can open /v1/realtime.',
    body: {
      type: 'object',
      properties: {
        expires_after: {
          type: 'object',
          properties: {
            anchor: { const: 'created_at' },
            seconds: { type: 'integer', minimum: 10, maximum: 7200, description: 'default: 600' }
          }
        },
        session: sessionSchema
      }
    },
    reply: openObject({
      value: { type: 'string' }, expires_at: { type: 'integer' }, session: { type: 'object' }
    }),
    errors: ['overloaded']
  },
  calls: { ...notServed, url: '/v1/realtime/calls', summary: 'Refused: WebRTC is not served.' },
  sessions: { ...notServed, url: '/v1/realtime/sessions', summary: 'Refused: the API before 2025-08.' }
} as const satisfies Record<string, RouteDecl>

export const errors = {
  websocket_only: {
    status: 400, retryable: false,
    message: 'svc serves the Realtime API over WebSocket only, in its generally available form.',
    remedy: 'Connect to /v1/realtime?model=MODEL. For a web page, POST /v1/realtime/client_secrets creates ' +
      'a key, sent in the subprotocol openai-insecure-api-key.KEY.'
  }
} as const

const model = { type: ['string', 'null'], minLength: 1, default: null } as const

export const config = closedObject({
  chat: { ...model, description: 'Model that answers as gpt-realtime; default: one that is ready.' },
  stt: { ...model, description: 'Model that listens when a client names none of this cluster.' },
  tts: { ...model, description: 'Model that speaks; default: the placed voice.' },
  sessions: {
    type: 'integer', minimum: 0, maximum: 1000, default: 16, description: 'Open sessions of this node.'
  }
}, [])
