import type { ErrorDecl } from '../../kernel/index.js'

/** Reasons this plugin answers with, beside the kernel's own. */
export const errors = {
  model_unknown: {
    status: 400,
    retryable: false,
    message: 'No model of that name is known.',
    remedy: 'Use one of the names in details.known, or bring the model: `svc pull MODEL`.'
  },
  no_backend: {
    status: 400,
    retryable: false,
    message: 'No backend on this node can run the model.',
    remedy: 'Set plugins.runners.backends in svc.yaml to a backend the engine offers.'
  },
  instance_not_found: {
    status: 404,
    retryable: false,
    message: 'No such instance.',
    remedy: '`svc status` shows the instances.'
  }
} as const satisfies Record<string, ErrorDecl>
