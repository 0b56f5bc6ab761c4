import { RunnersService } from '../runners/service.js'
import { BATCH } from './embedded/decoder.js'
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
    'llama-embedded': {
      summary: 'Models in GGUF files, on the llama.cpp that ships with svc.',
      module: new URL('./embedded/index.js', import.meta.url).href,
      backends: ['cpu'],
      backendsWhy: 'its build is for the CPU; `svc engine add llama.cpp` brings a server for GPUs',
      batch: 16,
      overhead: 1.1,
      fixedBytes: 88 * 2 ** 20,
      batchTokens: BATCH
    }
  }
} as const satisfies Manifest
