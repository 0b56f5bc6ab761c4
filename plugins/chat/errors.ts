import type { ErrorDecl } from '../../kernel/index.js'

/** Reasons this plugin answers with, beside the kernel's own. */
export const errors = {
  context_length_exceeded: {
    status: 400,
    retryable: false,
    message: 'context_length_exceeded: the prompt leaves no room for an answer.',
    remedy: 'Send fewer or shorter messages, or use a model with a longer context: GET /v1/models shows ' +
      'context_length.'
  }
} as const satisfies Record<string, ErrorDecl>
