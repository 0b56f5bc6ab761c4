import type { ErrorBody, RouteDecl } from '../../kernel/index.js'

/** JSON-RPC code for an invalid request; the field `data` contains svc's own error. */
const INVALID_REQUEST = -32600

/** Converts svc's error body to a JSON-RPC error without a request id. */
const failure = ({ error, detail }: ErrorBody): object => ({
  jsonrpc: '2.0', id: null, error: { code: INVALID_REQUEST, message: error.message, data: error }, detail
})

const session = { url: '/mcp', authority: 'read', failure } as const

export const routes = {
  message: {
    ...session, method: 'POST', stream: true, streams: ['text/event-stream'],
    summary: 'A message of the Model Context Protocol (JSON-RPC), answered as JSON or server-sent events.',
    // A capability accepts 1 MiB; the rest is for the JSON-RPC message around it.
    bodyLimit: 1024 * 1024 + 64 * 1024,
    body: {
      type: ['object', 'array'], minItems: 1,
      description: 'A request or notification, or several (2025-03-26).'
    },
    reply: { type: ['object', 'array'], description: 'The responses; empty, with 202, for notifications.' },
    errors: ['overloaded', 'payload_too_large']
  },
  end: {
    ...session, method: 'DELETE', summary: 'Ends an MCP session and cancels its open requests.',
    reply: { type: 'object', additionalProperties: false, properties: {} }, errors: ['not_found']
  }
} as const satisfies Record<string, RouteDecl>
