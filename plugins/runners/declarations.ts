import { closedObject, durableEvent } from '../../kernel/index.js'
import type { ConflictDecl, ErrorDecl, EventDecl, FromSchema } from '../../kernel/index.js'

/** Schema of `plugins.runners` in svc.yaml. */
export const config = closedObject({
  backends: {
    type: 'object',
    description:
      'Backend per engine, e.g. {onnx-tts: cuda}. A declared backend is used even if its hardware is not ' +
      'detected. By default an engine uses a GPU if it is detected with its libraries, else the CPU.',
    additionalProperties: { enum: ['cpu', 'cuda', 'rocm', 'vulkan', 'metal', 'webgpu'] },
    default: {}
  },
  threads: { type: 'integer', minimum: 1, maximum: 256, default: 1, description: 'Threads per inference.' },
  max_concurrent: {
    type: 'integer', minimum: 1, maximum: 1024, default: 8,
    description: 'Concurrent requests per runner, if its engine has no slots.'
  },
  max_queued: {
    type: 'integer', minimum: 0, maximum: 10_000, default: 32,
    description: 'Requests that queue at one runner; further ones get 429.'
  },
  engine_options: {
    'type': 'object', 'x-local': true,
    'description':
      'Options by engine, passed to it when it loads a model, e.g. {llama-server: {max_batch: 4}}. ' +
      'The README of the plugin that provides the engine lists them.',
    'additionalProperties': { type: 'object' },
    'default': {}
  },
  confine: {
    'type': 'boolean', 'x-local': true, 'default': true,
    'description':
      'Limits runners to the files of the system, svc, the engine and the model, without other ' +
      'processes, network and capabilities, as far as the system supports it. `svc doctor` says what ' +
      'is missing.'
  },
  rpc_for_every_user: {
    'type': 'boolean', 'x-local': true, 'default': false,
    'description':
      'Allows models that are spread over this and other nodes. llama.cpp\'s RPC, MLX and vLLM have no ' +
      'authentication between nodes: while such a model runs or starts, every user of this machine can ' +
      'access its memory.'
  },
  memory_mib: {
    type: 'integer', minimum: 64,
    description: 'RAM that all models on this node may use together, MiB. Default: 75 % of its RAM.'
  },
  memory_limit_mb: {
    type: 'integer', minimum: 64,
    description:
      'Resident memory in MiB above which a runner is killed. By default derived from the size of ' +
      'the model, at least 1024.'
  }
}, [])
export type RunnerConfig = FromSchema<typeof config, true>

export const errors = {
  model_unknown: {
    status: 400, retryable: false, message: 'The model is unknown.',
    remedy: 'Use one of the names in details.known, or download the model: `svc pull MODEL`.'
  },
  no_backend: {
    status: 400, retryable: false, message: 'No backend on this node can run the model.',
    remedy: 'Set plugins.runners.backends in svc.yaml to a backend that the engine supports.'
  },
  instance_not_found: {
    status: 404, retryable: false, message: 'The instance does not exist.',
    remedy: '`svc status` lists the instances.'
  }
} as const satisfies Record<string, ErrorDecl>

/** Conflicts between the configuration and this machine, which `machine/detection.ts` finds. */
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
    severity: 'warn', meaning: 'Runners, which read untrusted files, are not fully sandboxed.',
    remediation:
      'Do what the message says and restart, or place only models that you trust; the README of the plugin ' +
      'runners lists what each system supports.'
  }
} as const satisfies Record<string, ConflictDecl>

const text = { type: 'string' } as const
const strings = { type: 'array', items: text } as const

export const events = {
  RunnerStatusUpdated: durableEvent(
    'The status of a runner changed, except between ready and running and in loading progress.',
    { runnerId: text, instanceId: text, modelId: text, status: { type: 'object' } }
  ),
  RunnerFailed: durableEvent('A runner failed and used up its attempts.', {
    runnerId: text, instanceId: text, modelId: text, errorMessage: text, errorCode: text,
    attempts: { type: 'integer' }
  }),
  TaskFailed: durableEvent(
    'A task failed for a reason other than its request, or after its answer had started.',
    { taskId: text, commandId: text, errorType: text, errorMessage: text }
  ),
  InstanceCreated: durableEvent('An instance of a model was placed.', {
    instanceId: text, modelId: text, nodeIds: strings
  }),
  InstanceDeleted: {
    ...durableEvent(
      'An instance was removed. Reason `session_lost`: its side of a network partition gave way.', {}),
    payload: closedObject({ instanceId: text, modelId: text, reason: text }, ['instanceId', 'modelId'])
  },
  InstanceUnloaded: durableEvent('An instance is unloaded because it was unused for its ttl.', {
    instanceId: text, modelId: text, idleSeconds: { type: 'integer' }
  }),
  InstanceFailureRecorded: durableEvent(
    'An instance cannot serve; the record is in /state under instanceFailures.',
    { instanceId: text, modelId: text, errorCode: text, errorMessage: text, affectedNodeIds: strings }
  )
} as const satisfies Record<string, EventDecl>
