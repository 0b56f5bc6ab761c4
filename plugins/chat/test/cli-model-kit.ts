/** A card as the routes return it. */
export const card = (more: object = {}): Record<string, unknown> => ({
  modelId: 'acme/chat', revision: 'abc', title: 'A talker', description: 'Talks\nwell.',
  tasks: ['chat', 'completions'], family: 'llama', engine: 'onnx-lm', backends: ['cuda', 'cpu'],
  files: [{ path: 'model.onnx', role: 'weights', bytes: 2048 }], totalBytes: 2048, nLayers: 2, hiddenSize: 64,
  heads: 1, kvHeads: 1, headSize: 64, contextLength: 4096, supportsTensor: false, companions: [],
  licence: 'MIT', languages: ['en'], quantization: 'q4', voices: [], defaults: {}, support: {}, ...more
})

/** An instance as in /state, with nodes and their runners. */
export const instance = (
  modelId: string, nodeToRunner: Record<string, string>, more: object = {}
): object => ({
  RingInstance: {
    instanceId: 'x', contextTokenLimit: 2048, systemRole: null, engine: 'onnx-lm', hostsByNode: {},
    shardAssignments: { modelId, runnerToShard: {}, nodeToRunner }, ...more
  }
})

/** GET /state with the nodes n1 and n2; only n1 has a name. */
export const state = (more: object = {}): object => ({
  instances: {}, runners: {}, instanceFailures: [],
  nodeIdentities: { n1: { friendlyName: 'attic', chipId: 'A chip' }, n2: { friendlyName: null } },
  nodeResources: { n1: { backends: ['cpu', 'webgpu', 'cuda'] } }, nodeSystem: { n1: { accelerator: null } },
  ...more
})
