import type { ModelCard, Section } from '../../../kernel/index.js'
import type { RuntimeFiles } from '../machine/runtimes.js'
import { stateCard } from '../instances/shapes.js'
import type { Instance, Shard } from '../instances/sections.js'

/** A small card; `over` changes fields. */
export function card (modelId: string, over: Partial<ModelCard> = {}): ModelCard {
  return {
    modelId, revision: 'r1', title: modelId, description: '', tasks: ['tts'], family: 'piper',
    engine: 'onnx-tts', backends: ['cpu', 'cuda'],
    files: [{ path: 'voice.onnx', role: 'graph', bytes: 5_000_000 }], totalBytes: 5_000_000,
    nLayers: 3, hiddenSize: 192, heads: 0, kvHeads: 0, headSize: 0, contextLength: 0,
    supportsTensor: false, companions: [], licence: 'MIT', languages: ['en'], quantization: null,
    voices: [], defaults: {}, support: {}, ...over
  }
}

/** A machine without GPU runtimes; `over` changes its facts. */
export function machine (over: Partial<RuntimeFiles> = {}): RuntimeFiles {
  return {
    platform: 'linux',
    arch: 'x64',
    env: {},
    list: async () => [],
    hasLibrary: async () => false,
    runtimeFolder: () => '/ort',
    hasPackage: () => false,
    ...over
  }
}

/** The placement of a whole model on one node: one pipeline stage in a ring of one. */
export function soloInstance (
  ids: { instanceId: string, runnerId: string, nodeId: string },
  card: ModelCard
): Instance {
  const shard: Shard = {
    PipelineShardMetadata: {
      modelCard: stateCard(card),
      deviceRank: 0,
      worldSize: 1,
      startLayer: 0,
      endLayer: card.nLayers,
      nLayers: card.nLayers
    }
  }
  return {
    RingInstance: {
      instanceId: ids.instanceId,
      contextTokenLimit: card.contextLength,
      systemRole: null,
      engine: card.engine,
      shardAssignments: {
        modelId: card.modelId,
        runnerToShard: { [ids.runnerId]: shard },
        nodeToRunner: { [ids.nodeId]: ids.runnerId }
      },
      hostsByNode: { [ids.nodeId]: [] }
    }
  }
}

/** The instances section as a command handler on the master gets it. */
export function section (): Section<Instance> {
  const map = new Map<string, Instance>()
  return {
    put: (key, value) => { map.set(key, value) },
    remove: (key) => { map.delete(key) },
    get: (key) => map.get(key),
    entries: () => [...map].map(([key, value]) => ({ nodeId: 'master', key, value })),
    observe: () => () => {}
  }
}
