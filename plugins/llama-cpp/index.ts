import { definePlugin } from '../../kernel/index.js'
import { manifest } from './manifest.js'

/** GGUF models: the engine that runs them in the runner process. */
export default definePlugin(manifest, () => ({}))
