import { FRAMES_TYPE } from './frames/frames.js'
import { MAX_CALL_ID, MAX_TIMEOUT_SECONDS, READ_LIMIT_BYTES } from './limits.js'
import { MAX_APPROVAL_SECONDS } from './service.js'
import { closedObject, openObject, type FromSchema, type RouteDecl } from '../../kernel/index.js'

/** Body schema of a call; unknown fields are refused. */
export const callSchema = closedObject({
  call_id: { type: ['string', 'null'], minLength: 1, maxLength: MAX_CALL_ID },
  capability_id: { type: 'string', minLength: 1, maxLength: 256 },
  version: { type: 'string', minLength: 1, maxLength: 64 },
  descriptor_revision: { type: 'string', minLength: 1, maxLength: 64 },
  target_node: { type: ['string', 'null'], minLength: 1, maxLength: 256 },
  timeout_seconds: { type: 'number', exclusiveMinimum: 0, maximum: MAX_TIMEOUT_SECONDS }, payload: {}
}, ['capability_id', 'version', 'descriptor_revision', 'payload'])

/** Body of a call (`contract.md` 4). `bytes`: size of the original request; default: that of the payload. */
export type CallRequest = FromSchema<typeof callSchema> & { bytes?: number }

const cancelSchema = closedObject({ call_id: { type: 'string', minLength: 1, maxLength: MAX_CALL_ID } })

const listQuery = closedObject({ node_id: { type: 'string', minLength: 1, maxLength: 256 } }, [])

const CALL_ERRORS = [
  'invalid_request', 'node_not_found', 'capability_not_found', 'version_mismatch', 'revision_mismatch',
  'overloaded', 'payload_too_large', 'invalid_payload', 'no_instance', 'wrong_task', 'instance_lost',
  'session_changed', 'invalid_result', 'timeout', 'provider_error', 'unreachable', 'shutting_down',
  'cancelled', 'approval_denied', 'approval_timeout'
] as const

const open = { type: 'object', additionalProperties: true } as const
const descriptorReply = openObject({
  id: { type: 'string' }, version: { type: 'string' }, title: { type: 'string' },
  description: { type: 'string' }, input_schema: open, output_schema: { type: ['object', 'null'] },
  io_mode: { enum: ['unary', 'server_streaming', 'client_streaming', 'bidirectional'] },
  input_chunk_schema: { type: ['object', 'null'] }, output_chunk_schema: { type: ['object', 'null'] },
  annotations: { type: 'object', additionalProperties: { type: 'string' } },
  revision: { type: 'string', pattern: '^[0-9a-f]{16}$' }, node_id: { type: 'string' }
})

export const routes = {
  list: {
    method: 'GET', url: '/v1/capabilities',
    summary: 'Lists the capabilities a node serves, with their schemas and revisions.', members: true,
    authority: 'read', query: listQuery,
    reply: openObject({
      node_id: { type: 'string' }, capabilities: { type: 'array', items: descriptorReply },
      revisions: { type: 'object', additionalProperties: { type: 'string' } }
    }),
    errors: ['node_not_found', 'unreachable']
  },
  call: {
    method: 'POST', url: '/v1/capabilities/call', summary: 'Calls a unary capability and returns its result.',
    members: true, authority: 'invoke', body: callSchema,
    reply: openObject({ call_id: { type: 'string' }, ok: { const: true }, result: {} }),
    errors: CALL_ERRORS, bodyLimit: READ_LIMIT_BYTES,
    deadlineMs: (MAX_APPROVAL_SECONDS + MAX_TIMEOUT_SECONDS + 10) * 1000
  },
  stream: {
    method: 'POST', url: '/v1/capabilities/stream',
    summary: 'Calls a streaming capability; the response is the stream, framed as Accept requests. A body ' +
      'of frames also carries the client\'s chunks.',
    members: true, authority: 'invoke', body: callSchema,
    uploads: {
      [FRAMES_TYPE]: {
        type: 'string', format: 'binary',
        description:
          'Frames: a header length (4 bytes, big-endian), a JSON header, then `media.size` raw bytes. ' +
          'The first header is the body of a call; each further one is {kind: "chunk", payload, media: ' +
          '{size} or null}, or {kind: "end"}. A frame has at most 1 MiB, the body has no limit.'
      }
    },
    produces: FRAMES_TYPE, streams: ['text/event-stream'], errors: [...CALL_ERRORS, 'slow_consumer'],
    bodyLimit: READ_LIMIT_BYTES, stream: true
  },
  cancel: {
    method: 'POST', url: '/v1/capabilities/stream/cancel', summary: 'Cancels an open call by its call id.',
    authority: 'invoke', body: cancelSchema,
    reply: {
      type: 'object', required: ['cancelled'], additionalProperties: false,
      properties: { cancelled: { type: 'boolean' } }
    },
    errors: ['missing_grant']
  },
  session: {
    method: 'GET', url: '/v1/capabilities/session',
    summary: 'WebSocket for concurrent calls of every kind, as binary frames.', authority: 'invoke',
    stream: true, socket: true
  }
} as const satisfies Record<string, RouteDecl>
