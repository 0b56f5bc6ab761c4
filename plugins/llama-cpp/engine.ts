import { PACKAGES } from './packages.js'
import type { ProgramDecl } from '../../kernel/index.js'

/** Most tokens that the library computes in one step. */
export const BATCH = 128

/** The engine of GGUF models, as cards and settings name it. */
export const GGUF_ENGINE = 'llama-server'

/** What runs GGUF models: llama.cpp's server, and where that is missing the llama.cpp that comes with svc. */
export const LLAMA_SERVER = {
  name: 'llama-server',
  builds: 'llama.cpp',
  otherwise: {
    name: 'the llama.cpp in svc',
    module: new URL('./embedded/index.js', import.meta.url).href,
    backends: ['cpu'],
    gpus: { 'darwin-arm64': 'metal' },
    packages: PACKAGES,
    fixedBytes: 96 * 2 ** 20,
    batchTokens: BATCH,
    without: { vision_weights: 'takes no images', assistant: 'has no drafters' }
  }
} as const satisfies ProgramDecl
