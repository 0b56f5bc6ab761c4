import type { ModelCard } from '../../../kernel/index.js'
import type { ProbeIo } from '../gpu-probe.js'

/** A small card; `over` changes fields. */
export function card (modelId: string, over: Partial<ModelCard> = {}): ModelCard {
  return {
    modelId,
    revision: 'r1',
    title: modelId,
    description: '',
    tasks: ['tts'],
    family: 'piper',
    engine: 'onnx-tts',
    backends: ['cpu', 'cuda'],
    files: [{ path: 'voice.onnx', role: 'graph', bytes: 5_000_000 }],
    totalBytes: 5_000_000,
    nLayers: 3,
    hiddenSize: 192,
    heads: 0,
    kvHeads: 0,
    headSize: 0,
    contextLength: 0,
    supportsTensor: false,
    companions: [],
    licence: 'MIT',
    languages: ['en'],
    quantization: null,
    voices: [],
    defaults: {},
    support: {},
    ...over
  }
}

/** A machine without any GPU; `over` changes what it shows. */
export function machine (over: Partial<ProbeIo> = {}): ProbeIo {
  return {
    platform: 'linux',
    arch: 'x64',
    env: {},
    list: async () => [],
    read: async () => null,
    exists: async () => false,
    controllers: async () => [],
    nvidiaSmi: async () => { throw new Error('no nvidia-smi here') },
    runtimeFolder: () => '/ort',
    ...over
  }
}
