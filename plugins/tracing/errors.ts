import type { ErrorDecl } from '../../kernel/index.js'

export const errors = {
  trace_not_found: {
    status: 404,
    retryable: false,
    message: 'There is no such trace.',
    remedy: 'GET /v1/traces/cluster lists what is kept; PUT /v1/tracing has new requests traced.'
  },
  trace_damaged: {
    status: 500,
    retryable: false,
    message: 'The file of the trace cannot be read.',
    remedy: 'POST /v1/traces/delete removes it.'
  }
} as const satisfies Record<string, ErrorDecl>
