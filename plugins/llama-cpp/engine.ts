import { PACKAGES } from './packages.js'
import type { ProgramDecl } from '../../kernel/index.js'

/** Largest batch in the embedded engine, in tokens. */
export const BATCH = 128

/** The engine's name in cards and settings. */
export const GGUF_ENGINE = 'llama-server'

/** llama.cpp's server program; if it is missing, svc uses the llama.cpp that it includes. */
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
    vocabularyBytes: 640,
    without: { vision_weights: 'takes no images', assistant: 'has no drafters' }
  }
} as const satisfies ProgramDecl
