/** Schema of `plugins.runners` in svc.yaml. */
export const config = {
  type: 'object',
  additionalProperties: false,
  properties: {
    backends: {
      type: 'object',
      description:
        'Backend per engine, e.g. {onnx-tts: cuda}. A declared one is used even where the hardware is not ' +
        'seen. Without one, an engine uses cuda where the GPU and its libraries are found, else the CPU.',
      additionalProperties: { enum: ['cpu', 'cuda', 'webgpu'] },
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
      description: 'Requests one runner works on at the same time.'
    },
    max_queued: {
      type: 'integer',
      minimum: 0,
      maximum: 10_000,
      default: 32,
      description: 'Requests that wait at one runner; one more is answered with 429.'
    },
    engine_options: {
      type: 'object',
      description:
        'Options by engine, handed to it when a model is loaded, e.g. {onnx-lm: {max_batch: 32, ' +
        'kv_cache_bytes: 2147483648}}. The README of the plugin that brings the engine lists them.',
      additionalProperties: { type: 'object' },
      default: {}
    },
    confine: {
      type: 'boolean',
      default: true,
      description:
        'Holds runners to what they need where the system can: no new rights (setpriv), and only the files ' +
        'of the system, svc, the engine and the model (Landlock, setpriv of util-linux 2.40 or newer).'
    },
    rpc_for_every_user: {
      type: 'boolean',
      default: false,
      description:
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
