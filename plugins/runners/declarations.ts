import { durableEvent } from '../../kernel/index.js'
import type { ConflictDecl, ErrorDecl, EventDecl, FromSchema } from '../../kernel/index.js'

/** The schema of an object that has all of these fields, perhaps some of the optional ones, and no others. */
export const exactly = <const P extends object, const O extends object = object>(
  properties: P, optional = {} as O
) => ({
  type: 'object',
  additionalProperties: false,
  required: Object.keys(properties) as (keyof P)[],
  properties: { ...properties, ...optional } as { -readonly [K in keyof (P & O)]: (P & O)[K] }
} as const)

/** Schema of `plugins.runners` in svc.yaml. */
export const config = {
  type: 'object',
  additionalProperties: false,
  properties: {
    backends: {
      type: 'object',
      description:
        'Backend per engine, e.g. {onnx-tts: cuda}. A declared one is used even where the hardware is not ' +
        'seen. Without one, an engine uses a GPU that it finds with its libraries, else the CPU.',
      additionalProperties: { enum: ['cpu', 'cuda', 'rocm', 'vulkan', 'metal', 'webgpu'] },
      default: {}
    },
    threads: {
      type: 'integer',
      minimum: 1,
      maximum: 256,
      default: 1,
      description: 'Threads one inference may use.'
    },
    max_concurrent: {
      type: 'integer',
      minimum: 1,
      maximum: 1024,
      default: 8,
      description: 'Requests one runner works on at the same time, if its engine has no slots for them.'
    },
    max_queued: {
      type: 'integer',
      minimum: 0,
      maximum: 10_000,
      default: 32,
      description: 'Requests that wait at one runner; one more is answered with 429.'
    },
    engine_options: {
      'type': 'object',
      'x-local': true,
      'description':
        'Options by engine, handed to it when a model is loaded, e.g. {llama-server: {max_batch: 4}}. ' +
        'The README of the plugin that brings the engine lists them.',
      'additionalProperties': { type: 'object' },
      'default': {}
    },
    confine: {
      'type': 'boolean',
      'x-local': true,
      'default': true,
      'description':
        'Holds runners to what they need, as far as the system can: files of the system, svc, the engine ' +
        'and the model, no other process, no network, no capabilities. `svc doctor` says what is missing.'
    },
    rpc_for_every_user: {
      'type': 'boolean',
      'x-local': true,
      'default': false,
      'description':
        'Lets this node take part in models that llama.cpp spreads over several nodes. Its RPC has no key: ' +
        'while such a model runs, every user of this machine reaches the memory it computes in.'
    },
    memory_limit_mb: {
      type: 'integer',
      minimum: 64,
      description:
        'Resident memory in MiB above which a runner is ended. Left out: derived from the size of ' +
        'the model, at least 1024.'
    }
  }
} as const
export type RunnerConfig = FromSchema<typeof config, true>

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

/** Conflicts between what was declared and what this machine shows; found by `machine/detection.ts`. */
export const conflicts = {
  gpu_serving_disabled: {
    severity: 'error',
    meaning: 'A serving-capable GPU is visible but a configured engine would run CPU-only.',
    remediation:
      "Set plugins.runners.backends.<engine> to a GPU backend in svc.yaml and install that backend's " +
      'libraries (for models in GGUF files `svc engine add llama.cpp` brings them), then restart. Only to ' +
      'hide NVIDIA GPUs from every engine of this node: CUDA_VISIBLE_DEVICES=-1.'
  },
  gpu_detection_degraded: {
    severity: 'warn',
    meaning: 'A GPU is present but cannot be fully detected; behaviour that depends on its memory degrades.',
    remediation:
      'Install or load the GPU driver and its tools (for NVIDIA, `nvidia-smi` must work for the user ' +
      'that runs svc), then restart.'
  },
  invalid_engine_binary: {
    severity: 'warn',
    meaning: 'An engine binary override points at something unusable; no managed build replaces it.',
    remediation:
      'Point SVC_<ENGINE>_SERVER_BIN at an absolute path of a regular, executable file that you or root ' +
      'own and that nobody else may write, or unset it; then restart.'
  },
  backend_override_conflict: {
    severity: 'warn',
    meaning:
      'A declared backend claims hardware this node cannot observe; the declaration is still honoured.',
    remediation:
      'Correct plugins.runners.backends in svc.yaml, or make the hardware visible to svc; then restart.'
  },
  runners_unconfined: {
    severity: 'warn',
    meaning: 'Runners, which read files of strangers, are not held to what they need.',
    remediation:
      'Do what the message says and restart, or place models that you trust only; the README of the plugin ' +
      'runners has what each system can do.'
  }
} as const satisfies Record<string, ConflictDecl>

const text = { type: 'string' } as const
const strings = { type: 'array', items: text } as const

export const events = {
  RunnerStatusUpdated: durableEvent(
    'A runner moved on in its lifecycle. Ready to running and back, and loading progress, are left out.',
    { runnerId: text, instanceId: text, modelId: text, status: { type: 'object' } }
  ),
  RunnerFailed: durableEvent('A runner was given up after the attempts made.', {
    runnerId: text,
    instanceId: text,
    modelId: text,
    errorMessage: text,
    errorCode: text,
    attempts: { type: 'integer' }
  }),
  TaskFailed: durableEvent(
    'A task ended without its result through no fault of the request, or after it had begun to answer.',
    { taskId: text, commandId: text, errorType: text, errorMessage: text }
  ),
  InstanceCreated: durableEvent('An instance of a model was placed.', {
    instanceId: text,
    modelId: text,
    nodeIds: strings
  }),
  InstanceDeleted: {
    ...durableEvent(
      'An instance was removed. Reason `session_lost`: the side of a cut that placed it gave way.', {}),
    payload: exactly({ instanceId: text, modelId: text }, { reason: text })
  },
  InstanceUnloaded: durableEvent('An instance is removed because nobody used it for as long as its ttl.', {
    instanceId: text,
    modelId: text,
    idleSeconds: { type: 'integer' }
  }),
  InstanceFailureRecorded: durableEvent(
    'An instance cannot serve; the record is in /state under instanceFailures.',
    { instanceId: text, modelId: text, errorCode: text, errorMessage: text, affectedNodeIds: strings }
  )
} as const satisfies Record<string, EventDecl>
