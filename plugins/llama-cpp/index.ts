import { definePlugin } from '../../kernel/index.js'
import { manifest } from './manifest.js'

export default definePlugin(manifest, () => ({}))
