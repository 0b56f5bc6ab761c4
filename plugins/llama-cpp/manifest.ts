import { RunnersService } from '../runners/service.js'
import { GGUF_ENGINE, LLAMA_SERVER } from './service.js'
import type { Manifest } from '../../kernel/index.js'

/** Everything the plugin declares. */
export const manifest = {
  name: 'llama-cpp',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Runs models in GGUF files on llama.cpp.',
  requires: ['runners'],
  consumes: { runners: RunnersService },
  engines: {
    [GGUF_ENGINE]: {
      summary: 'Models in GGUF files, on llama.cpp: its server where that is found, else the one in svc.',
      module: new URL('../chat/llama/index.js', import.meta.url).href,
      backends: ['cuda', 'cpu'],
      external: true,
      program: LLAMA_SERVER,
      batch: 16,
      overhead: 1.1,
      fixedBytes: 56 * 2 ** 20,
      gpuBytes: 500 * 2 ** 20,
      keepsPrompts: true,
      multiNode: true,
      meta: 'LlamaRpc',
      tensor: true,
      unevenTensor: true,
      manyDevices: true,
      donor: 'llama-rpc-server'
    }
  }
} as const satisfies Manifest
