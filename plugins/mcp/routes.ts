import type { ErrorBody, RouteDecl } from '../../kernel/index.js'

/** JSON-RPC's word for a request that is none; what the HTTP status says stays in `data`. */
const INVALID_REQUEST = -32600

/** The one error body as an answer of JSON-RPC that belongs to no request. */
const failure = ({ error, detail }: ErrorBody): object => ({
  jsonrpc: '2.0', id: null, error: { code: INVALID_REQUEST, message: error.message, data: error }, detail
})

const session = {
  url: '/mcp', authority: 'read', failure
} as const

/** HTTP routes of this plugin. */
export const routes = {
  message: {
    ...session, method: 'POST', stream: true, streams: ['text/event-stream'],
    summary: 'A message of the Model Context Protocol (JSON-RPC), answered as JSON or server-sent events.',
    // A capability takes 1 MiB, and the message around it needs a little.
    bodyLimit: 1024 * 1024 + 64 * 1024,
    body: {
      type: ['object', 'array'], minItems: 1,
      description: 'A request or notification, or several (2025-03-26).'
    },
    reply: { type: ['object', 'array'], description: 'The answers; nothing, with 202, to notifications.' },
    errors: ['overloaded', 'payload_too_large']
  },
  end: {
    ...session, method: 'DELETE',
    summary: 'Ends an MCP session and what it has under way.',
    reply: { type: 'object', additionalProperties: false, properties: {} },
    errors: ['not_found']
  }
} as const satisfies Record<string, RouteDecl>
